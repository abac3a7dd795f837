"""The machine code of kernels and entries, and the memory of arrays.

A kernel is a function that other kernels and entries call; Python cannot call it. An entry is a function that Python
calls. `trace/language/compiled_code.py` stores the machine code of entries in a folder that is named after a hash of
the sources.

Arrays have pages of two megabytes where the system has them. The data of different nodes lie far apart. With pages of
four kilobytes, nearly every access would also have to look up its page. An array that fills while kernels run (the
queue, lists, RPCs in flight) cannot move. So from the start it has address space as large as half of the free memory
(`lines_at_most`). The system provides each page when a kernel first touches the page. `lower_bound` and
`sort_numbers` search and sort arrays for kernels.
"""

from __future__ import annotations

import mmap
import resource
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from math import prod
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.cpu import CPUContext
from numba.extending import typeof_impl
from numpy.typing import NDArray

from hearsay.sim.array.views import CHECKED, WorldType
from hearsay.sim.plan.engines import available_bytes
from hearsay.trace.language.compiled_code import KeptCode

Function = TypeVar("Function", bound=Callable[..., object])

_njit: Any = cast("Any", numba).njit
_library: Any = CPUCodeLibrary
_context: Any = CPUContext
_finalize: Any = CPUCodeLibrary.finalize
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
"""Numba's type for each annotation that arguments of kernels have. Modules add the types that they define."""


class _KernelCompiler(_compiler):
    """Numba's compiler without its passes for closures, context managers, exceptions and loops over tuples.

    Kernels have none of these. Compilation without the passes takes a seventh less time.
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
"""The options with which numba compiles all kernels. Kernels create no arrays, so numba's counting of references
(`_nrt`) is off. It would take a sixth of the run time."""


def inlined(function: Function) -> Function:
    """Return a kernel that LLVM inlines, for a short function that nearly every event needs."""
    return kernel(function, forceinline=True)


def in_python(function: Function) -> Function:
    """Return the Python function from which a kernel is compiled; Python cannot call the kernel itself."""
    dispatcher: Any = function
    return dispatcher.py_func


def only_with(scalar: int) -> Callable[[Function], Function]:
    """Return a decorator for kernels that a run needs only if the scalar with the index `scalar` is not 0.

    For a type of world in which this scalar is always 0 (`WorldType.without`), a function that does nothing is
    compiled in place of the kernel. It returns None, False, 0 or 0.0, by the annotation of the kernel's result.
    """

    def kernel_of_part(function: Function) -> Function:
        return kernel(function, scalar)

    return kernel_of_part


def kernel(function: Function, needed: int | None = None, **options: bool) -> Function:
    """Return a kernel, which numba compiles when it compiles a caller of the kernel.

    The kernel is compiled for the types that the annotations of its arguments name, once for each type of world.
    Otherwise numba would compile it again for every mixture of integer widths among the arguments, which takes
    minutes. If an annotation is not in `TYPES`, such as `Any`, numba chooses the types of all arguments.

    `needed` is the index of a scalar as in `only_with`; None if every run needs the kernel. `options` are further
    options of numba.
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
        with _finished_by(_finish_without_machine_code, _executable_that_is_not_called):
            if idle is None or needed not in signature[0].without:
                return compile_for(signature)
            idle.compile(signature)
            dispatcher.add_overload(idle.overloads[signature])
            return dispatcher

    dispatcher.compile = compile_part
    return dispatcher


_IDLE: dict[str, Any] = {"None": lambda: None, "bool": lambda: False, "int": lambda: 0, "float": lambda: 0.0}
"""Functions that do nothing, by the annotation of their results."""


def _idle(function: FunctionType) -> Any:
    """Return a kernel that does nothing; its arguments and the type of its result are those of `function`."""
    nothing: FunctionType = _IDLE[str(function.__annotations__["return"])]
    count = function.__code__.co_argcount
    names = function.__code__.co_varnames[:count]
    code = nothing.__code__.replace(co_argcount=count, co_nlocals=count, co_varnames=names)
    return _njit(**_OPTIONS)(FunctionType(code, nothing.__globals__, function.__name__))


@contextmanager
def _finished_by(finalize: Callable[[Any], None], get_executable: Any = _context.get_executable) -> Generator[None]:
    """Replace two of numba's methods in this context: `CPUCodeLibrary.finalize` and `CPUContext.get_executable`."""
    before = _library.finalize, _context.get_executable
    _library.finalize, _context.get_executable = finalize, get_executable
    try:
        yield
    finally:
        _library.finalize, _context.get_executable = before


def _finish_without_machine_code(library: Any) -> None:
    """Finish a library, the code of a kernel or of a numba function, without machine code and symbols.

    Kernels are compiled to LLVM's intermediate code only; the entry is then optimised and compiled as a whole. Numba
    itself optimises each function together with all functions that it calls. So it would optimise the same code once
    for each level of calls, which takes minutes. The machine code of a single kernel is never run. A kernel is not
    linked here with the kernels that it calls, because the entry links each of them once. A function of numba is
    linked with all functions that it calls.
    """
    if library.name not in _kernels:
        for each in library._linking_libraries:
            library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


def _link_all(library: Any) -> None:
    """Finish the library of an entry: link it with all kernels that it calls, directly or through other kernels."""
    library._linking_libraries[:] = _callers_first(library)
    _finalize(library)


def _callers_first(library: Any) -> list[Any]:
    """Return all libraries that a library needs, directly or not, in the order of linking.

    Each library comes after all libraries that call it, because LLVM links only functions that earlier libraries
    need.
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


def _executable_that_is_not_called(_self: Any, _library: Any, _description: Any, _environment: Any) -> Any:
    """Return a built-in function, which Numba stores as a kernel's executable. No code calls it."""
    nothing: list[object] = []
    return nothing.append


def entry(function: Function) -> Function:
    """Return an entry, which Python can call. Its machine code is stored on disk if a cache folder is writable."""
    dispatcher = KEPT.compile(function, error_model="numpy", _nrt=False)
    compile_for = dispatcher.compile

    def compile_all(given: Any) -> Any:
        with KEPT.lock(function.__name__), _finished_by(_link_all):
            return compile_for(given)

    dispatcher.compile = compile_all
    return dispatcher


@typeof_impl.register(FunctionType)
def _type_of_function(function: FunctionType, _context: Any) -> Any:
    """Return numba's type for a function of `core` or `trace` that a kernel calls; None for any other function.

    The function is compiled as an inlined kernel.
    """
    if not function.__module__.startswith(("hearsay.core.", "hearsay.trace.")):
        return None
    return types.Dispatcher(_compiled(function))


_compiled: Any = cache(inlined)


_HUGE = 1 << 21
_LINE = 64
_ON_LINUX = sys.platform == "linux"
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python names from 3.13 on: pages count as memory only once they are touched."""
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def lines_at_most(least: int, line_bytes: int) -> int:
    """Return the number of lines for an array that fills during a run.

    It is `least`. If untouched memory costs nothing and half of the free memory has room for more lines of
    `line_bytes` bytes each, it is the number of these lines.
    """
    if _room_is_counted():
        return least
    return max(least, available_bytes() // 2 // line_bytes)


def _room_is_counted() -> bool:
    """Return whether address space is limited, or counts as memory before it is touched."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return True
    try:
        return _OVERCOMMIT.read_text(encoding="ascii").strip() == "2"
    except OSError:
        return False


def zeros(shape: tuple[int, ...], dtype: Any, *, sparse: bool = False) -> NDArray[Any]:
    """Return an array of zeros. It begins at a page or a cache line, so that a node's data touch few of these.

    A `sparse` array has small pages, so that it takes little memory in a run that uses only a little of it. Raise
    `MemoryError` if the process has no address space for the array.
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    if not _ON_LINUX or (size < _HUGE and not sparse):
        return _array(np.zeros(size + _LINE, dtype=np.uint8), _LINE, shape, dtype)
    try:
        pages = mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except OSError as error:
        raise MemoryError(f"no address space for {size} bytes") from error
    if not sparse:
        pages.madvise(mmap.MADV_HUGEPAGE)
    return _array(np.frombuffer(pages, dtype=np.uint8), _HUGE, shape, dtype)


def _array(room: NDArray[np.uint8], border: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array in the bytes `room`, from their first address that is a multiple of `border`."""
    size = prod(shape) * np.dtype(dtype).itemsize
    skipped = -room.ctypes.data % border
    return room[skipped : skipped + size].view(dtype).reshape(shape)


@inlined
def lower_bound(numbers: Any, low: int, high: int, wanted: int) -> int:
    """Return the first place in `numbers[low:high]` whose number is at least `wanted`, `high` if there is none. The
    numbers must ascend."""
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_numbers(numbers: Any, start: int, end: int) -> None:
    """Sort `numbers[start:end]` in place, ascending. Shell's method is fast if few numbers are out of order."""
    gap = 1
    while 3 * gap < end - start:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, end):
            number = numbers[place]
            at = place
            while at - gap >= start and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3
