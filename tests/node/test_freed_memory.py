"""What was freed below something that stays goes back to the system; in a process of its own, whose heap is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hearsay.node.freed_memory import heap

CHILD = """
import asyncio
import resource
from hearsay.node import freed_memory

freed_memory.LOOK_S = 0.01
MIB = 1 << 20

def resident_bytes():
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * resource.getpagesize()

async def main():
    watching = asyncio.create_task(freed_memory.watch())
    await asyncio.sleep(0)
    idle = resident_bytes()
    kept, freed = [], []
    for _ in range(1600):
        freed.append(b"x" * 65536)
        kept.append(b"x" * 1024)
    freed.clear()
    assert resident_bytes() - idle > 40 * MIB, "most of it goes back by itself"
    async with asyncio.timeout(30):
        while resident_bytes() - idle > 20 * MIB:
            await asyncio.sleep(0.01)
    watching.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(heap() is None, reason="only glibc keeps what was freed, and can give it back")
def test_freed_memory_goes_back():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


POOL = """
import asyncio
import sys
from pathlib import Path

import pyarrow as pa

from hearsay.node.live_trace import LiveTrace

async def main():
    before = pa.default_memory_pool().backend_name
    LiveTrace(Path(sys.argv[1]), bytes(34), lambda: 0, "test", return_memory=sys.argv[2] == "yes")
    print(before, pa.default_memory_pool().backend_name)

asyncio.run(main())
"""


@pytest.mark.parametrize("return_memory", [True, False])
def test_arrows_memory_is_left_alone_where_memory_is_not_to_be_returned(tmp_path, return_memory):
    asked = "yes" if return_memory else "no"
    done = subprocess.run([sys.executable, "-c", POOL, tmp_path / "trace", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split()
    assert before != "system"
    assert after == ("system" if return_memory else before)
