"""Places of files: the folders of this program's caches, and local paths and URIs as users and Spark write them.

A cache is in the user's cache or, if that is not writable, among temporary files. Machine code is loaded from the
folder and run. So a folder among temporary files must belong to this user alone. This module imports only the
standard library: a Spark worker imports it from a zip, before it finds other libraries, and the command line imports
it early.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from errno import EACCES
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir


def cache_places() -> Iterator[Path]:
    """Yield the possible folders of caches, the preferred one first. A folder may not exist yet."""
    for place in (user_cache, _temporary_cache):
        with suppress(OSError, RuntimeError):  # `Path.home` raises RuntimeError if the user has no home
            yield place() / "hearsay"


def user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


def _temporary_cache() -> Path:
    """Return a temporary folder that only this user can enter, after creating it if necessary.

    Raises `OSError` if it cannot be created, or does not belong to this user alone.
    """
    folder = Path(gettempdir()) / f"hearsay-cache-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    require_own_folder(folder)
    return folder


def require_own_folder(folder: Path) -> None:
    """Raise `OSError` unless the path is a folder, not a link, that only this user owns and may access."""
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(EACCES, "not a folder of this user alone", str(folder))


_HERE = re.compile(r"file:(?://)?(/(?!/).*)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def place_of(text: str) -> Path | str:
    """Return the local path that is written as a path or as a `file:` URI. Return the text itself for another URI."""
    here = _HERE.fullmatch(text)
    return Path(here[1]) if here else text if _URI.match(text) else Path(text)


def exactly(place: Path | str) -> str:
    """Return a pattern that matches only this path or URI, because Spark interprets every path as a pattern."""
    return re.sub(r"[\\*?\[\]{}^,]", r"\\\g<0>", str(place))
