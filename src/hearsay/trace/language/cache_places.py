"""Where this user's caches are: among the user's own files, or where nothing can be written there, temporary ones.

What lies there is run: the folder among the temporary files is one of the user's own, which nobody else may have made
or may write to.
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
    """Our folder in each, the best first; it may not be there yet."""
    for place in (user_cache, _temporary_cache):
        with suppress(OSError, RuntimeError):  # no home at all is a RuntimeError
            yield place() / "hearsay"


def programs_in(place: Path) -> Path:
    """Where in a cache programs are unpacked that came as a zip, each in a folder of its own."""
    return place / "programs"


def places_for_what_is_made_of(package: Path) -> Iterator[Path]:
    """The best first: beside the package if it was unpacked into a cache, so that both are removed together."""
    places = [*cache_places()]
    if package.parent.parent in map(programs_in, places):
        yield package.parent / "made"
    yield from places


def user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


def _temporary_cache() -> Path:
    """A folder of this user's alone; raises `OSError` if it is anybody else's."""
    folder = Path(gettempdir()) / f"hearsay-cache-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    require_own_folder(folder)
    return folder


def require_own_folder(folder: Path) -> None:
    """Raise `OSError` unless this is a folder of this user, no link to one, that nobody else may enter."""
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(EACCES, "not a folder of this user alone", str(folder))
