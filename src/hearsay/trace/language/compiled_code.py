"""The compilation of functions by numba, and the files that store their machine code for later processes."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba
from numba.core import config as _config

from hearsay.trace.language.places import cache_places, user_cache

_njit: Any = cast("Any", numba).njit
_settings: Any = _config
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class KeptCode:
    """The machine code of a part of this program, such as the array engine, and the folder that stores it.

    If the same sources are compiled with different options, each set of options has its own `variant`.
    """

    part: str
    """The name of the code's folder in the cache."""
    packages: tuple[str, ...]
    """The names of the packages of `hearsay` that have the sources of the machine code."""
    variant: str = ""

    def compile(self, function: Callable[..., object], **options: Any) -> Any:
        """Return numba's dispatcher of a function that Python calls.

        It compiles the function at its first call, and stores the code if there is a `folder`.
        """
        before = _settings.CACHE_DIR
        _settings.CACHE_DIR = str(self.folder)
        try:
            return _njit(nogil=True, cache=self.folder is not None, **options)(function)
        finally:
            _settings.CACHE_DIR = before

    @cached_property
    def folder(self) -> Path | None:
        """Return the folder of the code; None if no cache is writable, or if this package is in a zip."""
        if not _PACKAGE.is_dir():
            return None
        for place in cache_places():
            with suppress(OSError):
                folder = place / self.part / self.digest(_PACKAGE)
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=folder):
                    return folder
        return None

    @contextmanager
    def lock(self, entry: str) -> Generator[None]:
        """Let only one process at a time compile the function `entry`.

        Other processes wait, and then read its code. Without a `folder` there is no lock.
        """
        if self.folder is None:
            yield
            return
        with (self.folder / f"{entry}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def holds(self, entry: str) -> bool:
        """Return True if the folder has machine code of the function `entry`."""
        return self.folder is not None and any(self.folder.rglob(f"*.{entry}-*.nbc"))

    @property
    def is_kept_for_good(self) -> bool:
        """Return True if the code is stored in the user's cache. Return False if it is stored among temporary files
        or not at all.
        """
        with suppress(RuntimeError):
            return self.folder is not None and self.folder.is_relative_to(user_cache())
        return False

    def digest(self, package: Path) -> str:
        """Return a digest of numba's version, `variant`, and the sources; `package` is the folder of `hearsay`."""
        seen = blake2b(cast("Any", numba).__version__.encode(), digest_size=8, key=self.variant.encode())
        for name in self.packages:
            for file in sorted((package / name).rglob("*.py")):
                source = file.read_bytes()
                seen.update(f"{file.relative_to(package).as_posix()} {len(source)}\n".encode())
                seen.update(source)
        return seen.hexdigest()


Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of a package such as `ingest` to machine code that runs without the interpreter's lock.

    The function may call compiled functions of its own package, of `trace` and of `core`.
    """
    return cast("Function", _kept_of(function.__module__.split(".")[1]).compile(function))


@cache
def _kept_of(package: str) -> KeptCode:
    return KeptCode(package, (package, "core", "trace"))
