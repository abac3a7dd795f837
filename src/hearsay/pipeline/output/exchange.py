"""Two folders change names in one step, where the system can: no moment without either of them."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2


def exchange(one: Path, other: Path) -> bool:
    """Swap the two; False if the system or the file system cannot, and then nothing has happened."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return library.renamex_np(*names, _RENAME_SWAP) == 0
    return False
