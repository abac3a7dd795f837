"""Compilation to machine code: of kernels, which other kernels call, and of entries, which Python calls.

`trace/language/compiled_code.py` stores the machine code of entries, in a folder named after a hash of the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext
from numba.extending import typeof_impl

from hearsay.sim.array.machine.views import CHECKED, WorldType
from hearsay.trace.language.compiled_code import KeptCode

Function = TypeVar("Function", bound=Callable[..., object])

_njit: Any = cast("Any", numba).njit
_library: Any = CPUCodeLibrary
_context: Any = CPUContext
_compiler: Any = CompilerBase
_passes: Any = PassManager
_untyped: Any = untyped_passes
_typed: Any = typed_passes
KEPT = KeptCode("array-engine", ("core", "sim", "trace"), "checked" if CHECKED else "")
_kernels: set[str] = set()


TYPES: dict[str, Any] = {
    "World": WorldType,
    "int": types.int64,
    "bool": types.boolean,
    "float": types.float64,
    "Word": types.uint64,
}
"""Numba's type for each annotation of a kernel's arguments; modules add the types that they define."""


class _KernelCompiler(_compiler):
    """Numba's compiler without the passes for closures, context managers, loops over tuples and exceptions.

    Kernels have none of these. Without the passes compilation takes a seventh less time.
    """

    def define_pipelines(self) -> list[Any]:
        passes = _passes("kernel")
        for one in (
            _untyped.TranslateByteCode,
            _untyped.FixupArgs,
            _untyped.IRProcessing,
            _untyped.GenericRewrites,
            _untyped.ReconstructSSA,
            _typed.NopythonTypeInference,
            _typed.PreLowerStripPhis,
            _typed.IRLegalization,
            _typed.AnnotateTypes,
            _typed.NativeLowering,
            _typed.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _KernelCompiler,
}
"""Options of all kernels. They create no arrays, so `_nrt` is off: counting references costs a sixth of the time."""


def inlined(function: Function) -> Function:
    """Return a kernel that LLVM inlines, for a short function that nearly every event needs."""
    return kernel(function, forceinline=True)


def in_python(function: Function) -> Function:
    """Return the Python function from which a kernel is compiled; the kernel, called from Python, returns None."""
    dispatcher: Any = function
    return dispatcher.py_func


def only_with(scalar: int) -> Callable[[Function], Function]:
    """Return a decorator for kernels that a run needs only if a scalar is not 0.

    In worlds where the scalar is always 0 (`WorldType.without`), such a kernel is not compiled: it does nothing and
    returns None, False or 0.
    """

    def kernel_of_part(function: Function) -> Function:
        return kernel(function, scalar)

    return kernel_of_part


def kernel(function: Function, needed: int | None = None, **options: bool) -> Function:
    """Return a kernel: a compiled function that other kernels call. `needed` is the scalar of `only_with`.

    It is compiled for the types of its annotations, once for each type of world. Numba by itself would compile it
    again for every mixture of integer widths among the arguments, which takes minutes. If an argument is annotated
    `Any`, numba chooses the types of all arguments.
    """
    dispatcher = _njit(**_OPTIONS, **options)(function)
    source = cast("FunctionType", function)
    _kernels.add(source.__qualname__)
    names = source.__code__.co_varnames[: source.__code__.co_argcount]
    declared = [TYPES.get(str(source.__annotations__.get(name))) for name in names]
    is_declared = all(each is not None for each in declared)
    compile_for = dispatcher.compile
    idle = None if needed is None else _idle(source)

    def compile_part(given: Any) -> Any:
        signature: Any = given
        if is_declared:
            signature = tuple(one if kind is WorldType else kind for one, kind in zip(given, declared, strict=True))
        with _without_finish():
            if idle is None or needed not in signature[0].without:
                return compile_for(signature)
            idle.compile(signature)
            dispatcher.add_overload(idle.overloads[signature])
            return dispatcher

    dispatcher.compile = compile_part
    return dispatcher


def _none() -> None:
    return None


def _false() -> bool:
    return False


def _zero() -> int:
    return 0


def _zero_real() -> float:
    return 0.0


_IDLE = {"None": _none, "bool": _false, "int": _zero, "float": _zero_real}
"""Functions that do nothing, by the annotation of their result."""


def _idle(function: FunctionType) -> Any:
    """Return a kernel that does nothing, with the arguments and the type of result of a function."""
    nothing = cast("FunctionType", _IDLE[str(function.__annotations__["return"])])
    count = function.__code__.co_argcount
    names = function.__code__.co_varnames[:count]
    code = nothing.__code__.replace(co_argcount=count, co_nlocals=count, co_varnames=names)
    return _njit(**_OPTIONS)(FunctionType(code, nothing.__globals__, function.__name__))


@contextmanager
def _without_finish() -> Generator[None]:
    """Compile kernels to LLVM's intermediate code only; the entry is then optimised and compiled as a whole.

    Numba optimises each function together with all functions that it calls, so the same code would be optimised once
    for each level of calls, which takes minutes. The machine code of a single kernel is never run.
    """
    before = _library.finalize, _context.get_executable
    _library.finalize = _leave_in_pieces
    _context.get_executable = _no_executable
    try:
        yield
    finally:
        _library.finalize, _context.get_executable = before


def _leave_in_pieces(library: Any) -> None:
    """Finish a library, the code of one function, without machine code and symbols: an entry links it later.

    The kernels that a kernel calls are not linked here: the entry links each of them once. Numba's own functions are
    linked with all functions that they call.
    """
    if library.name not in _kernels:
        for each in library._linking_libraries:
            library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


@contextmanager
def _with_all_that_it_calls() -> Generator[None]:
    """Link the entry that is compiled in this context with all kernels that it calls, directly or through others."""
    before = _library.finalize

    def finalize(library: Any) -> None:
        library._linking_libraries[:] = _callers_first(library)
        before(library)

    _library.finalize = finalize
    try:
        yield
    finally:
        _library.finalize = before


def _callers_first(library: Any) -> list[Any]:
    """Return all libraries that a library needs, directly or not, in the order of linking.

    Each comes after those that call it: LLVM links only functions that earlier libraries need.
    """
    done: list[Any] = []

    def visit(one: Any) -> None:
        for each in one._linking_libraries:
            if each not in seen:
                seen.add(each)
                visit(each)
        done.append(one)

    seen = {library}
    visit(library)
    return done[-2::-1]


def _no_executable(_self: Any, _library: Any, _description: Any, _environment: Any) -> Any:
    """Return a built-in function, which numba stores as that of a compiled kernel. It is never called."""
    nothing: list[object] = []
    return nothing.append


def entry(function: Function) -> Function:
    """Return an entry: Python calls it. Its machine code is stored on disk if there is a writable folder."""
    dispatcher = KEPT.compile(function, error_model="numpy", _nrt=False)
    compile_for = dispatcher.compile

    def compile_all(given: Any) -> Any:
        with KEPT.lock(function.__name__), _with_all_that_it_calls():
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
