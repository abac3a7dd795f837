"""Views, which kernels use instead of numpy's arrays: the address of an array, and some of its extents.

The extent of an axis is its length. Numba passes an array as several words, and handles negative indices in each
access. A view is the array's address and only those extents that are known at run time alone. The world is passed as
one word, its address. The code of each access has metadata for LLVM's optimiser. The metadata state that arrays
do not overlap, and that addresses, extents and the settings of a run do not change while a kernel runs.
"""

from __future__ import annotations

import operator
import os
from typing import Any

from llvmlite import ir
from numba import extending as _numba_extending
from numba import types as _numba_types
from numba.core import cgutils as _numba_cgutils
from numba.core import imputils as _numba_imputils
from numba.core.datamodel import models as _numba_models
from numba.core.datamodel import registry as _numba_registry
from numba.core.typing import templates as _numba_templates

_cgutils: Any = _numba_cgutils
_models: Any = _numba_models
_templates: Any = _numba_templates
_any: Any = _numba_types
_extending: Any = _numba_extending
_imputils: Any = _numba_imputils
_registry: Any = _numba_registry
_signature: Any = _templates.signature
_WORD = ir.IntType(64)
CHECKED = "HEARSAY_CHECKED_KERNELS" in os.environ
"""True if accesses check their bounds first: the environment has HEARSAY_CHECKED_KERNELS."""


def word(number: int) -> Any:
    """Return an integer constant for generated code."""
    return ir.Constant(_WORD, number)


class WorldType(_any.Type):
    """The type of a world, which is an array of words: scalars, then the address and the extents of every array.

    `without` has the indices of scalars that are always 0 in worlds of this type. Kernels are compiled for the type
    without the code that these scalars enable.
    """

    changing = 0
    """The number of scalars that may change while kernels run. They come first; all later words are constant."""

    def __init__(self, name: str, without: tuple[int, ...] = ()) -> None:
        _any.Type.__init__(self, name)
        self.without = without


class ViewType(_any.Type):
    """The type of a view of an array of the world, or of a line of such an array.

    `extents` has the extent of each axis: None if it is known only at run time, 0 if it is unknown even then.
    """

    def __init__(self, array: str, dtype: Any, extents: tuple[int | None, ...]) -> None:
        _any.Type.__init__(self, f"View({array}, {dtype}, {extents})")
        self.array = array
        self.dtype = dtype
        self.extents = extents

    def at(self, index: Any) -> Any:
        """Return the type of the element or line that an index selects, None if this view has no such index."""
        places = index.types if isinstance(index, _any.BaseTuple) else (index,)
        if len(places) > len(self.extents) or not all(isinstance(each, _any.Integer) for each in places):
            return None
        rest = self.extents[len(places) :]
        return ViewType(self.array, self.dtype, rest) if rest else self.dtype


@_registry.register_default(WorldType)
class _WorldModel(_models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        _models.PrimitiveModel.__init__(self, manager, kind, _WORD.as_pointer())


@_registry.register_default(ViewType)
class _ViewModel(_models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        unknown = [(f"extent{axis}", _any.int64) for axis, extent in enumerate(kind.extents) if extent is None]
        _models.StructModel.__init__(self, manager, kind, [("data", _any.CPointer(kind.dtype)), *unknown])


# Typing.


@_templates.infer_global(operator.getitem)
class _GetItem(_templates.AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        holder, index = args
        if isinstance(holder, WorldType):
            return _signature(_any.int64, holder, _any.int64)
        found = holder.at(index) if isinstance(holder, ViewType) else None
        return None if found is None else _signature(found, holder, index)


@_templates.infer
class _StaticGetItem(_templates.AbstractTemplate):
    key = "static_getitem"

    def generic(self, args: Any, kws: Any) -> Any:
        holder, index = args
        if isinstance(holder, WorldType):
            return _signature(_any.int64, holder, index)
        return None


@_templates.infer_global(operator.setitem)
class _SetItem(_templates.AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        holder, index, value = args
        if isinstance(holder, WorldType):
            return _signature(_any.none, holder, _any.int64, _any.int64)
        if isinstance(holder, ViewType) and holder.at(index) == holder.dtype:
            return _signature(_any.none, holder, index, value)
        return None


@_templates.infer_getattr
class _Attributes(_templates.AttributeTemplate):
    key = ViewType

    def resolve_shape(self, view: ViewType) -> Any:
        return _any.UniTuple(_any.int64, len(view.extents))


# Code.


def _tag(builder: Any, name: str) -> Any:
    """Return the metadata by which LLVM knows that accesses to different arrays do not alias."""
    module = builder.module
    kind = module.add_metadata([name, module.add_metadata(["hearsay"]), word(0)])
    return module.add_metadata([kind, kind, word(0)])


def read(builder: Any, world: Any, place: int) -> Any:
    """Generate the load of a word of the world, the one with the index `place`; return its value."""
    value = builder.load(builder.gep(world, [word(place)]))
    value.set_metadata("tbaa", _tag(builder, "world"))
    if place >= WorldType.changing:
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def make_view(context: Any, builder: Any, kind: ViewType, address: Any, extents: list[Any]) -> Any:
    view = _struct(context, builder, kind)
    view.data = builder.inttoptr(address, view.data.type)
    for axis, extent in enumerate(kind.extents):
        if extent is None:
            setattr(view, f"extent{axis}", extents[axis])
    return view._getvalue()


def _struct(context: Any, builder: Any, kind: ViewType, value: Any = None) -> Any:
    return _cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _extent(view: Any, kind: ViewType, axis: int) -> Any:
    known = kind.extents[axis]
    return getattr(view, f"extent{axis}") if known is None else word(known)


def _place(context: Any, builder: Any, kind: ViewType, view: Any, index_type: Any, index: Any) -> Any:
    """Generate the address of the element or line of a view at an index; return it."""
    if isinstance(index_type, _any.BaseTuple):
        names = list(zip(index_type.types, _cgutils.unpack_tuple(builder, index, len(index_type)), strict=True))
    else:
        names = [(index_type, index)]
    numbers = [context.cast(builder, value, each, _any.int64) for each, value in names]
    if CHECKED:
        _check_bounds(context, builder, kind, view, numbers)
    place = numbers[0]
    for axis in range(1, len(kind.extents)):
        place = builder.mul(place, _extent(view, kind, axis))
        if axis < len(numbers):
            place = builder.add(place, numbers[axis])
    return builder.gep(view.data, [place])


def _check_bounds(context: Any, builder: Any, kind: ViewType, view: Any, numbers: list[Any]) -> None:
    """Generate checks that raise IndexError for an index below 0 or beyond an extent.

    The extent 0 is unknown and not checked; views that `words_at` returns have it.
    """
    for axis, number in enumerate(numbers):
        if kind.extents[axis] != 0:
            beyond = builder.icmp_unsigned(">=", number, _extent(view, kind, axis))
            with builder.if_then(beyond, likely=False):
                context.call_conv.return_user_exc(builder, IndexError, (f"{kind.array}: beyond axis {axis}",))


@_extending.lower_builtin(operator.getitem, ViewType, _any.Any)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_type = sig.args
    view = _struct(context, builder, kind, args[0])
    address = _place(context, builder, kind, view, index_type, args[1])
    if not isinstance(sig.return_type, ViewType):
        value = builder.load(address)
        value.set_metadata("tbaa", _tag(builder, kind.array))
        return value
    line = _struct(context, builder, sig.return_type)
    line.data = address
    skipped = len(kind.extents) - len(sig.return_type.extents)
    for axis, extent in enumerate(sig.return_type.extents):
        if extent is None:
            setattr(line, f"extent{axis}", getattr(view, f"extent{axis + skipped}"))
    return line._getvalue()


@_extending.lower_builtin(operator.setitem, ViewType, _any.Any, _any.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index_type, value_type = sig.args
    view = _struct(context, builder, kind, args[0])
    address = _place(context, builder, kind, view, index_type, args[1])
    stored = builder.store(context.cast(builder, args[2], value_type, kind.dtype), address)
    stored.set_metadata("tbaa", _tag(builder, kind.array))
    return context.get_dummy_value()


@_imputils.lower_getattr(ViewType, "shape")
def _shape(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    view = _struct(context, builder, kind, value)
    return _cgutils.pack_array(builder, [_extent(view, kind, axis) for axis in range(len(kind.extents))])


@_extending.lower_builtin("static_getitem", WorldType, _any.Any)
def _get_scalar(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return word(0) if args[1] in sig.args[0].without else read(builder, args[0], args[1])


@_extending.lower_builtin(operator.setitem, WorldType, _any.Integer, _any.Any)
def _set_scalar(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    stored = builder.store(args[2], builder.gep(args[0], [args[1]]))
    stored.set_metadata("tbaa", _tag(builder, "world"))
    return context.get_dummy_value()
