"""How the kernels become machine code, and where that is kept.

Numba keys the code it keeps by the file of the function it compiled, and does not look at the files of the functions
called from there, nor at the constants that a kernel freezes, most of which are other rooms'. So all code of the
engine lies in a folder named after the contents of all sources in the rooms it takes functions and constants from: a
change anywhere in them compiles anew, and nothing stale is ever run.

That folder is in the user's cache. Where nothing can be written there it is in a folder of the user's own among the
temporary files, which nobody else may have made or may write to: what lies there is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from errno import EACCES
from functools import cache
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryFile, gettempdir
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import config as _config
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext

from hearsay.sim.array.machine.views import CHECKED, world_type

Function = TypeVar("Function", bound=Callable[..., object])

_njit: Any = cast("Any", numba).njit
_settings: Any = _config
_library: Any = CPUCodeLibrary
_context: Any = CPUContext
_KEPT = "hearsay/array-engine"
_PACKAGE = Path(__file__).parents[3]
_FROZEN_ROOMS = ("core", "sim", "trace")
"""Where kernels have their functions, constants and enumerations from."""
_kernels: set[str] = set()


_TYPES: dict[str, Any] = {
    "World": world_type,
    "int": types.int64,
    "bool": types.boolean,
    "Word": types.uint64,
}


def inlined(function: Function) -> Function:
    """A kernel that is short and called for nearly every event: its code goes to where it is called."""
    return kernel(function, forceinline=True)


def kernel(function: Function, **options: bool) -> Function:
    """A function that other kernels call.

    It is compiled for the types of its annotations, whatever integers it is called with: numba would compile it anew
    for every mixture of widths, and take minutes. `Any` leaves that to numba. Kernels make no arrays, so nothing
    counts references to them, which would cost a sixth of the time.
    """
    dispatcher = _njit(
        nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )(function)
    source = cast(FunctionType, function)
    _kernels.add(source.__qualname__)
    names = source.__code__.co_varnames[: source.__code__.co_argcount]
    declared = [_TYPES.get(str(source.__annotations__.get(name))) for name in names]
    signature = tuple(declared) if all(each is not None for each in declared) else None
    compile_for = dispatcher.compile

    def compile_part(given: Any) -> Any:
        with _without_finish():
            return compile_for(signature or given)

    dispatcher.compile = compile_part
    return dispatcher


@contextmanager
def _without_finish() -> Generator[None]:
    """Leave optimising and machine code to the entry.

    Numba optimises every function together with all that it calls, and the machine code of an inner one is never
    run: without this the same code would be optimised once for each level of calls, which takes minutes.
    """
    before = _library.finalize, _context.get_executable
    _library.finalize = _leave_in_pieces
    _context.get_executable = _no_executable
    try:
        yield
    finally:
        _library.finalize, _context.get_executable = before


def _leave_in_pieces(library: Any) -> None:
    """Ready to be linked into an entry, and nothing else: no machine code, and no symbol that an entry could find.

    What a kernel calls is linked by the entry too, once. Numba's own functions stay whole.
    """
    if library.name not in _kernels:
        for each in library._linking_libraries:
            library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


@contextmanager
def _with_all_that_it_calls() -> Generator[None]:
    """An entry is linked with the kernels that its kernels call, and so on."""
    before = _library.finalize

    def finalize(library: Any) -> None:
        known = list(library._linking_libraries)
        for each in known:
            known += [other for other in each._linking_libraries if other not in known]
        library._linking_libraries[:] = known
        before(library)

    _library.finalize = finalize
    try:
        yield
    finally:
        _library.finalize = before


def _no_executable(_self: Any, _library: Any, _description: Any, _environment: Any) -> Any:
    """Numba knows a function by this, which has to be a built-in one; nobody calls it."""
    nothing: list[object] = []
    return nothing.append


def entry(function: Function) -> Function:
    """A function that Python calls: kept on disk with all that it calls, unless nothing can be written there."""
    folder = kept_in()
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(folder)
    try:
        dispatcher = _njit(nogil=True, error_model="numpy", _nrt=False, cache=folder is not None)(function)
    finally:
        _settings.CACHE_DIR = before
    compile_for = dispatcher.compile

    def compile_all(given: Any) -> Any:
        with _with_all_that_it_calls():
            return compile_for(given)

    dispatcher.compile = compile_all
    return dispatcher


def is_compiled() -> bool:
    """Whether the engine is there in machine code, so that running it will not take a minute first."""
    folder = kept_in()
    return folder is not None and any(folder.rglob("*.nbc"))


@cache
def kept_in() -> Path | None:
    """Where the machine code is kept; None where nothing can be."""
    for place in (_user_cache, _temporary_cache):
        with suppress(OSError, RuntimeError):  # no home at all is a RuntimeError
            folder = place() / _KEPT / sources_digest(_PACKAGE)
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                return folder
    return None


def is_kept_for_good() -> bool:
    """Whether the code is where it belongs, and not among temporary files."""
    folder = kept_in()
    with suppress(RuntimeError):
        return folder is not None and folder.is_relative_to(_user_cache())
    return False


def shared(function: Function) -> Function:
    """A function of the core as a kernel, with the functions of the core that it calls."""
    return cast(Function, _shared(cast(FunctionType, function)))


@cache
def _shared(source: FunctionType) -> object:
    scope = dict(source.__globals__)
    for name in source.__code__.co_names:
        called = scope.get(name)
        if isinstance(called, FunctionType):
            scope[name] = _shared(called)
    copy = FunctionType(source.__code__, scope, source.__name__, source.__defaults__, source.__closure__)
    copy.__annotations__ = source.__annotations__
    return inlined(copy)


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


def sources_digest(package: Path) -> str:
    """Of all that machine code is made from, in a copy of this package."""
    seen = blake2b(cast("Any", numba).__version__.encode(), digest_size=8, key=b"checked" if CHECKED else b"")
    for room in _FROZEN_ROOMS:
        for file in sorted((package / room).rglob("*.py")):
            source = file.read_bytes()
            seen.update(f"{file.relative_to(package).as_posix()} {len(source)}\n".encode())
            seen.update(source)
    return seen.hexdigest()
