"""Return free memory to the system.

glibc returns only free memory at the end of its heap: one small object that stays there, and a hundred free megabytes
below it stay with the process for good, as after an attack. `malloc_trim` returns whole pages from anywhere. It takes
a thread some milliseconds, so it is called when much has become free. The caches of keys are emptied then: entries of
an attack are scattered, and keep the pages around them. Ended connections are cycles, which wait for the garbage
collector; when little is allocated any more, that would come much later.

Large blocks get pages of their own, which go back at once; without a setting glibc stops that after the first of
them. All threads share one heap, or each would keep free memory of its own. Where the C library is another, or older
than glibc 2.33, nothing happens.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc

from hearsay.libp2p.names.keys import forget_decoded

LOOK_S = 5.0
WORTH_BYTES = 4 << 20
"""Bytes that must have become free before memory is returned again."""
OWN_PAGES_BYTES = 128 << 10
"""Blocks of at least this size have pages of their own. It exceeds the size of a read from a socket."""
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of `mallopt`."""


class _Figures(ctypes.Structure):
    """The result of `mallinfo2`: ten numbers. The ninth is the number of free bytes."""

    _fields_ = (*((f"other_{number}", ctypes.c_size_t) for number in range(8)), ("fordblks", ctypes.c_size_t),
                ("keepcost", ctypes.c_size_t))  # fmt: skip


def heap() -> ctypes.CDLL | None:
    """Return the C library if it is a glibc that reports its free bytes, otherwise None."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Figures
    except (AttributeError, OSError, TypeError):
        return None
    return library


async def watch() -> None:
    """Return memory when much has become free, and once more, after a garbage collection, when it is quiet again."""
    library = heap()
    if library is None:
        return
    library.mallopt(_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    library.mallopt(_ARENA_MAX, 1)
    lowest: int = library.mallinfo2().fordblks
    busy = False
    while True:
        await asyncio.sleep(LOOK_S)
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
