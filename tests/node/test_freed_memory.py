"""Memory freed below a block that stays goes back to the system; in a process of its own, whose heap is known."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hearsay.node.freed_memory import glibc

CHILD = """
import asyncio
import gc
import resource
import weakref
from hearsay.libp2p.names import keys
from hearsay.node import freed_memory

freed_memory.CHECK_INTERVAL_S = 0.01
MIB = 1 << 20

class Cycle:
    pass

def resident_bytes():
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * resource.getpagesize()

async def main():
    watching = asyncio.create_task(freed_memory.return_freed_memory())
    await asyncio.sleep(0)
    idle = resident_bytes()
    kept, freed = [], []
    for _ in range(1600):
        freed.append(b"x" * 65536)
        kept.append(b"x" * 1024)
    assert keys.PrivateKey.generate().public
    freed.clear()
    assert resident_bytes() - idle > 40 * MIB, "most of it goes back by itself"
    async with asyncio.timeout(30):
        while resident_bytes() - idle > 20 * MIB:
            await asyncio.sleep(0.01)
    assert not keys._decode_short.cache_info().currsize, "the caches of keys are emptied"
    gc.disable()
    cycle = Cycle()
    cycle.itself, gone = cycle, weakref.ref(cycle)
    cycle.held = []
    for _ in range(48):
        cycle.held.append(b"x" * 65536)
        kept.append(b"x" * 1024)
    held = resident_bytes()
    del cycle
    async with asyncio.timeout(30):
        while gone() is not None:
            await asyncio.sleep(0.01)
        while resident_bytes() > held - 2 * MIB:
            await asyncio.sleep(0.01)
    watching.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(glibc() is None, reason="only glibc keeps what was freed, and can give it back")
def test_freed_memory_goes_back():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SETTINGS = """
import asyncio
import resource
from threading import Thread
from hearsay.node import freed_memory

MIB = 1 << 20

def resident_bytes():
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * resource.getpagesize()

def is_in_the_heap(block):
    with open("/proc/self/maps") as maps:
        (heap,) = (line.split()[0] for line in maps if line.endswith("[heap]\\n"))
    begin, end = (int(place, 16) for place in heap.split("-"))
    return begin <= id(block) < end

async def main():
    watching = asyncio.create_task(freed_memory.return_freed_memory())
    await asyncio.sleep(0)
    bytes(8 * MIB)
    idle = resident_bytes()
    kept, freed = [], []
    for _ in range(100):
        freed.append(b"x" * MIB)
        kept.append([b"x" * 16384 for _ in range(8)])
    freed.clear()
    assert resident_bytes() - idle < 40 * MIB, "large blocks go back at once, without trimming"
    thread = Thread(target=lambda: kept.append(b"x" * 65536))
    thread.start()
    thread.join()
    assert is_in_the_heap(kept[-1]), "threads share the heap"
    watching.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(glibc() is None, reason="only glibc has these settings")
def test_large_blocks_go_back_at_once_and_threads_share_the_heap():
    done = subprocess.run([sys.executable, "-c", SETTINGS], capture_output=True, text=True)
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


def in_plain_environment(program, *arguments):
    """Run a program without the pool of Arrow's memory that a node of this process may have chosen."""
    plain = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    return subprocess.run([sys.executable, "-c", program, *arguments], env=plain, capture_output=True, text=True)


@pytest.mark.parametrize("return_memory", [True, False])
def test_arrows_memory_is_left_alone_where_memory_is_not_to_be_returned(tmp_path, return_memory):
    asked = "yes" if return_memory else "no"
    done = in_plain_environment(POOL, tmp_path / "trace", asked)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split()
    assert before != "system"
    assert after == ("system" if return_memory else before)


TRACED = """
import asyncio
import sys
from pathlib import Path

from hearsay.node.config import NodeConfig
from hearsay.node.node import Node

async def main():
    async with Node(NodeConfig(return_memory=sys.argv[2] == "yes"), trace=Path(sys.argv[1])):
        pass
    import pyarrow as pa
    print(pa.mimalloc_memory_pool().max_memory())

asyncio.run(main())
"""


@pytest.mark.skipif(glibc() is None, reason="elsewhere mimalloc may not be Arrow's pool")
@pytest.mark.parametrize("return_memory", [True, False])
def test_nothing_of_a_trace_is_in_a_pool_of_arrows_own(tmp_path, return_memory):
    asked = "yes" if return_memory else "no"
    done = in_plain_environment(TRACED, tmp_path / "trace", asked)
    assert done.returncode == 0, done.stderr
    assert (int(done.stdout) == 0) is return_memory
