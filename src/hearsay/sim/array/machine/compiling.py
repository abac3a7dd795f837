"""Compilation of the kernels to machine code. `compiled_code.py` keeps it, in a folder named after its sources."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext
from numba.extending import typeof_impl

from hearsay.sim.array.machine.views import CHECKED, world_type
from hearsay.trace.language.compiled_code import KeptCode

Function = TypeVar("Function", bound=Callable[..., object])

_njit: Any = cast("Any", numba).njit
_library: Any = CPUCodeLibrary
_context: Any = CPUContext
KEPT = KeptCode("array-engine", ("core", "sim", "trace"), "checked" if CHECKED else "")
_kernels: set[str] = set()


TYPES: dict[str, Any] = {
    "World": world_type,
    "int": types.int64,
    "bool": types.boolean,
    "Word": types.uint64,
}
"""Types by the annotations of kernels; modules add records of their own."""


def inlined(function: Function) -> Function:
    """Return a kernel that is inserted where it is called: short, and needed for nearly every event."""
    return kernel(function, forceinline=True)


def kernel(function: Function, **options: bool) -> Function:
    """Return a function that other kernels call.

    It is compiled for the types of its annotations, whatever integers it is called with: numba would compile it again
    for every mixture of widths, and take minutes. `Any` leaves that to numba. Kernels make no arrays, so nothing
    counts references to them, which would cost a sixth of the time.
    """
    dispatcher = _njit(
        nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )(function)
    source = cast("FunctionType", function)
    _kernels.add(source.__qualname__)
    names = source.__code__.co_varnames[: source.__code__.co_argcount]
    declared = [TYPES.get(str(source.__annotations__.get(name))) for name in names]
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

    The entry links the kernels that a kernel calls too, once. Numba's own functions stay whole.
    """
    if library.name not in _kernels:
        for each in library._linking_libraries:
            library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


@contextmanager
def _with_all_that_it_calls() -> Generator[None]:
    """Return an entry is linked with the kernels that its kernels call, and so on."""
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
    """Numba knows a function by this, which has to be a built-in one; it is never called."""
    nothing: list[object] = []
    return nothing.append


def entry(function: Function) -> Function:
    """Return a function that Python calls, kept on disk with all that it calls if a place is writable."""
    dispatcher = KEPT.compile(function, error_model="numpy", _nrt=False)
    compile_for = dispatcher.compile

    def compile_all(given: Any) -> Any:
        with _with_all_that_it_calls():
            return compile_for(given)

    dispatcher.compile = compile_all
    return dispatcher


@typeof_impl.register(FunctionType)
def _type_of_function(function: FunctionType, _context: Any) -> Any:
    """Compile a function of the core or of the trace that a kernel calls, as an inlined kernel."""
    if not function.__module__.startswith(("hearsay.core.", "hearsay.trace.")):
        return None
    return types.Dispatcher(_compiled(function))


_compiled: Any = cache(inlined)
