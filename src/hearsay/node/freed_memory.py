"""Return free memory to the system.

glibc returns free memory only from the end of its heap. After an attack, one small object at the end can keep a
hundred free megabytes in the process. `malloc_trim` returns whole free pages anywhere in the heap. It occupies a
thread for some milliseconds, so it is called only when much memory has become free. The caches of keys are emptied
first, because their scattered entries keep pages in use. Ended connections are reference cycles. When little is
allocated, the garbage collector frees them late, so this module also runs the garbage collector.

Large blocks get pages of their own, which are returned when the block is freed. A setting keeps glibc from raising
the size from which on a block is large. All threads share one heap; otherwise each thread would keep free memory of
its own. With another C library, or glibc before 2.33, this module does nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc

from hearsay.libp2p.names.keys import forget_decoded

CHECK_INTERVAL_S = 5.0
WORTH_BYTES = 4 << 20
"""Number of bytes that must become free before memory is returned."""
OWN_PAGES_BYTES = 128 << 10
"""Blocks of at least this size get pages of their own. The size exceeds that of a read from a socket."""
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of `mallopt`."""


class _MallocInfo(ctypes.Structure):
    """The result of `mallinfo2`: ten numbers. The ninth, `fordblks`, is the number of free bytes."""

    _fields_ = (*((f"other_{number}", ctypes.c_size_t) for number in range(8)), ("fordblks", ctypes.c_size_t),
                ("keepcost", ctypes.c_size_t))  # fmt: skip


def glibc() -> ctypes.CDLL | None:
    """Return the C library if it is a glibc that reports its free bytes, otherwise None."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _MallocInfo
    except (AttributeError, OSError, TypeError):
        return None
    return library


async def return_freed_memory() -> None:
    """Return free memory to the system each time that `WORTH_BYTES` more bytes are free, until cancelled.

    When the free memory stops growing, collect garbage, and also return the memory that the collection frees. With
    another C library than glibc, return at once.
    """
    library = glibc()
    if library is None:
        return
    library.mallopt(_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    library.mallopt(_ARENA_MAX, 1)
    lowest: int = library.mallinfo2().fordblks
    busy = False
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        free: int = library.mallinfo2().fordblks
        lowest = min(lowest, free)
        grown = free - lowest >= WORTH_BYTES
        if not grown and busy:
            gc.collect()
        if grown or busy:
            forget_decoded()
            await asyncio.to_thread(library.malloc_trim, 0)
            lowest = free
        busy = grown
