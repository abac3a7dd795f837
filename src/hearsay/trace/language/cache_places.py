"""Folders of caches: in the user's cache, or if that is not writable, among temporary files.

Code is loaded from a cache and run, so a temporary folder must belong to this user alone. This module imports no
library: a worker imports it from a zip, before it knows where the libraries are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from errno import EACCES
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir


def cache_places() -> Iterator[Path]:
    """Yield the possible cache folders of this program, the preferred one first. They may not exist yet."""
    for place in (user_cache, _temporary_cache):
        with suppress(OSError, RuntimeError):  # no home at all is a RuntimeError
            yield place() / "hearsay"


def user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


def _temporary_cache() -> Path:
    """Return a folder that only this user can enter. Raises `OSError` if it belongs to another user."""
    folder = Path(gettempdir()) / f"hearsay-cache-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    require_own_folder(folder)
    return folder


def require_own_folder(folder: Path) -> None:
    """Raise `OSError` unless this is a folder, not a link, that only this user may enter."""
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(EACCES, "not a folder of this user alone", str(folder))
