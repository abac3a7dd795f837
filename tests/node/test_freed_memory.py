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
    await asyncio.sleep(0.1)
    assert resident_bytes() - idle > 90 * MIB
    freed.clear()
    {before_the_end}
    async with asyncio.timeout(30):
        while resident_bytes() - idle > 20 * MIB:
            await asyncio.sleep(0.01)
    watching.cancel()

asyncio.run(main())
"""

glibc = pytest.mark.skipif(heap() is None, reason="only glibc keeps what was freed, and can give it back")


def outcome(before_the_end):
    child = CHILD.format(before_the_end=before_the_end)
    return subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)


@glibc
def test_freed_memory_goes_back():
    done = outcome("")
    assert done.returncode == 0, done.stderr


@glibc
def test_it_would_not_go_back_by_itself():
    done = outcome("watching.cancel(); await asyncio.sleep(0.1); assert resident_bytes() - idle > 90 * MIB; return")
    assert done.returncode == 0, done.stderr
