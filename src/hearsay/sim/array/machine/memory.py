"""Memory of arrays: zeros in pages of two megabytes where the system has them, and an in-place sort.

The data of different nodes lie far apart; with pages of four kilobytes nearly every access would also have to look up
its page. An array that fills while kernels run (the queue, lists, RPCs in flight) cannot move. From the start it has
address space of half the free memory's size; the system provides each page when a kernel first touches it."""

from __future__ import annotations

import mmap
import resource
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.plan.engines import available_bytes

_HUGE = 1 << 21
_LINE = 64
_ON_LINUX = sys.platform == "linux"
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python names from 3.13 on: pages count as memory only once they are touched."""
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def lines_at_most(least: int, line_bytes: int) -> int:
    """Return the number of lines for an array that fills during a run.

    It is `least`, or what half of the free memory holds if that is more and untouched memory costs nothing.
    """
    if _room_is_counted():
        return least
    return max(least, available_bytes() // 2 // line_bytes)


def _room_is_counted() -> bool:
    """Return whether address space is limited, or counts as memory before it is touched."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return True
    try:
        return _OVERCOMMIT.read_text(encoding="ascii").strip() == "2"
    except OSError:
        return False


def zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros that begin at a page or a cache line, so that a node's data touch as few of these as possible."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if size < _HUGE or not _ON_LINUX:
        return _array(np.zeros(size + _LINE, dtype=np.uint8), _LINE, shape, dtype)
    pages = _pages(size)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return _array(np.frombuffer(pages, dtype=np.uint8), _HUGE, shape, dtype)


def sparse_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros in small pages, so that an array of which a run uses little takes little memory."""
    size = prod(shape) * np.dtype(dtype).itemsize
    return (
        _array(np.frombuffer(_pages(size), dtype=np.uint8), _HUGE, shape, dtype) if _ON_LINUX else zeros(shape, dtype)
    )


def _pages(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except OSError as error:
        raise MemoryError(f"no address space for {size} bytes") from error


def _array(room: NDArray[np.uint8], border: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array in a piece of memory, from the first address that is a multiple of `border`."""
    size = prod(shape) * np.dtype(dtype).itemsize
    skipped = -room.ctypes.data % border
    return room[skipped : skipped + size].view(dtype).reshape(shape)


def filled(shape: tuple[int, ...], dtype: Any, value: int) -> NDArray[Any]:
    array = zeros(shape, dtype)
    array[...] = value
    return array


@kernel
def sort_numbers(numbers: Any, start: int, end: int) -> None:
    """Sort `numbers[start:end]` in place, ascending. Shell's method is fast if few numbers are out of order."""
    gap = 1
    while 3 * gap < end - start:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, end):
            number = numbers[place]
            at = place
            while at - gap >= start and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3
