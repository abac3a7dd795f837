"""Memory that is free again goes back to the system.

glibc returns what is freed at the end of its heap alone: one small thing that stays there, and the hundred megabytes
below it stay with the process, after an attack for good. `malloc_trim` returns whole pages from anywhere. It takes a
thread some milliseconds, so it is called when much has become free. Where the C library is another, or older than
glibc 2.33, nothing happens.
"""

from __future__ import annotations

import asyncio
import ctypes

LOOK_S = 5.0
WORTH_BYTES = 16 << 20
"""So much must have become free since memory was last given back."""


class Heap:
    """The C library's; `AttributeError` where it cannot say what is free."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._trim = library.malloc_trim
        self._measure = library.mallinfo2
        self._measure.restype = _Figures

    def free_bytes(self) -> int:
        """Given back or not."""
        return self._measure().fordblks

    def trim(self) -> None:
        self._trim(0)


class _Figures(ctypes.Structure):
    """What `mallinfo2` returns: ten numbers, of which the ninth is what is free."""

    _fields_ = (*((f"other_{number}", ctypes.c_size_t) for number in range(8)), ("fordblks", ctypes.c_size_t),
                ("keepcost", ctypes.c_size_t))  # fmt: skip


def heap() -> Heap | None:
    try:
        return Heap()
    except (AttributeError, OSError, TypeError):
        return None


async def watch() -> None:
    """Give memory back whenever much has become free; without end."""
    found = heap()
    if found is None:
        return
    lowest = found.free_bytes()
    while True:
        await asyncio.sleep(LOOK_S)
        free = found.free_bytes()
        lowest = min(lowest, free)
        if free - lowest >= WORTH_BYTES:
            await asyncio.to_thread(found.trim)
            lowest = free
