"""Where machine code is kept, so that none is ever stale.

Numba keys the code it keeps by the file of the function it compiled, and does not look at the files of the functions
called from there, nor at the constants that a function freezes; and it fails where a class is gone that it kept code
for. So what a part of this program compiles lies in a folder named after the contents of all sources that the part
has functions, constants and classes from: a change anywhere in them compiles anew.

That folder is in the user's cache. Where nothing can be written there it is in a folder of the user's own among the
temporary files, which nobody else may have made or may write to: what lies there is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryFile, gettempdir
from typing import Any, cast

import numba
from numba.core import config as _config

_njit: Any = cast("Any", numba).njit
_settings: Any = _config
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class KeptCode:
    """The machine code of a part of this program; `variant` tells ways of compiling the same sources apart."""

    part: str
    rooms: tuple[str, ...]
    """Where the part has its functions, constants and classes from."""
    variant: str = ""

    def compile(self, function: Callable[..., object], **options: Any) -> Any:
        """Numba's dispatcher of a function that Python calls; what it compiles is kept if there is a place for it."""
        before = _settings.CACHE_DIR
        _settings.CACHE_DIR = str(self.folder)
        try:
            return _njit(nogil=True, cache=self.folder is not None, **options)(function)
        finally:
            _settings.CACHE_DIR = before

    @cached_property
    def folder(self) -> Path | None:
        """Where the code is kept; None where nothing can be."""
        for place in (_user_cache, _temporary_cache):
            with suppress(OSError, RuntimeError):  # no home at all is a RuntimeError
                folder = place() / "hearsay" / self.part / self.digest(_PACKAGE)
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=folder):
                    return folder
        return None

    @property
    def is_there(self) -> bool:
        """Whether something is compiled already."""
        return self.folder is not None and any(self.folder.rglob("*.nbc"))

    @property
    def is_kept_for_good(self) -> bool:
        """Whether the code is where it belongs, and not among temporary files."""
        with suppress(RuntimeError):
            return self.folder is not None and self.folder.is_relative_to(_user_cache())
        return False

    def digest(self, package: Path) -> str:
        """Of all that machine code is made from, in a copy of this package."""
        seen = blake2b(cast("Any", numba).__version__.encode(), digest_size=8, key=self.variant.encode())
        for room in self.rooms:
            for file in sorted((package / room).rglob("*.py")):
                source = file.read_bytes()
                seen.update(f"{file.relative_to(package).as_posix()} {len(source)}\n".encode())
                seen.update(source)
        return seen.hexdigest()


def _temporary_cache() -> Path:
    """A folder of this user's alone; raises `OSError` if it is anybody else's."""
    user = os.getuid()
    folder = Path(gettempdir()) / f"hearsay-cache-{user}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise PermissionError(EACCES, "not a folder of this user alone", str(folder))
    return folder


def _user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"
