"""Room for arrays: zeros that cost nothing until they are touched, in pages of two megabytes where there are any.

Nodes lie far apart, and with pages of four kilobytes nearly every access would also have to look up its page.
"""

from __future__ import annotations

import mmap
import sys
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HUGE = 1 << 21
_LINE = 64
_ON_LINUX = sys.platform == "linux"
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python names from 3.13 on: there is room for far more than most runs touch."""


def zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Begins with a page or a cache line, so that a node's part lies in as few as possible."""
    size = prod(shape) * np.dtype(dtype).itemsize
    border = _HUGE if size >= _HUGE and _ON_LINUX else _LINE
    if border == _HUGE:
        try:
            pages = mmap.mmap(-1, size + border, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError as error:
            raise MemoryError(f"no address space for {size} bytes") from error
        pages.madvise(mmap.MADV_HUGEPAGE)
        room = np.frombuffer(pages, dtype=np.uint8)
    else:
        room = np.zeros(size + border, dtype=np.uint8)
    skipped = -room.ctypes.data % border
    return room[skipped : skipped + size].view(dtype).reshape(shape)


def filled(shape: tuple[int, ...], dtype: Any, value: int) -> NDArray[Any]:
    array = zeros(shape, dtype)
    array[...] = value
    return array
