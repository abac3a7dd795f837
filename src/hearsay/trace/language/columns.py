"""Conversion of rows to columns, with the integer widths of the files.

Rules:

* A value that does not fit its column's width, or a code without a name, is an error. Only rows of scores may have
  `bytes` below -1: the bits of a float64.
* -1 stays -1 here; `arrow` turns it into null.
* Rows are converted a few thousand at a time: transposing, checking and narrowing then happen in the processor's
  cache, several times faster than column by column. Columns are sorted, not rows: they are half as large.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.order import Indices
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import FORMS, NONE, WIDTH, Column, PartKind, Reason, TraceEvent, Via, wire_name

Columns: TypeAlias = list[NDArray[np.signedinteger]]
"""One array per column, all of one length, in the order of `schema.COLUMNS`."""

_NARROW = {
    Column.EVENT: np.int8,
    Column.KIND: np.int8,
    Column.PEER: np.int32,
    Column.REMOTE: np.int32,
    Column.TOPIC: np.int32,
    Column.HOPS: np.int16,
    Column.COUNT: np.int32,
    Column.VIA: np.int8,
    Column.REASON: np.int8,
}
DTYPES = tuple(np.dtype(_NARROW.get(column, np.int64)) for column in Column)

CODED: dict[Column, tuple[str, ...]] = {
    Column.EVENT: tuple(wire_name(event) for event in TraceEvent),
    Column.KIND: tuple(wire_name(kind) for kind in PartKind),
    Column.VIA: tuple(wire_name(via) for via in Via),
    Column.REASON: tuple(wire_name(reason) for reason in Reason),
}
"""The names of the codes 0, 1, … of each column of codes."""

_SCORES = [int(event) for event, form in FORMS.items() if form.trace_class == "score"]

_BLOCK = 4096


def _limits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lowest = np.full(WIDTH, NONE, dtype=np.int64)
    highest = np.array([np.iinfo(dtype).max for dtype in DTYPES], dtype=np.int64)
    for column, names in CODED.items():
        highest[column] = len(names) - 1
    lowest[Column.BYTES] = np.iinfo(np.int64).min
    lowest[Column.EVENT] = 0
    lowest[Column.TIME_US] = 0
    return lowest, highest


_LOWEST, _HIGHEST = _limits()


class ColumnBuilder:
    """Converts rows to columns. It reuses its memory, since new memory would take more time than the conversion."""

    __slots__ = ("_columns", "_turned")

    def __init__(self, capacity: int) -> None:
        self._turned = np.empty((WIDTH, min(_BLOCK, capacity)), dtype=np.int64)
        self._columns = empty_columns(capacity)

    def build(self, rows: Rows) -> Columns:
        """Return the columns of at most `capacity` rows. They are valid until the next call."""
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            turned = self._turned[:, : len(block)]
            turned[:] = block.T
            _check(turned)
            for column, values in zip(self._columns, turned, strict=True):
                column[start : start + len(block)] = values
        return [column[: len(rows)] for column in self._columns]


def empty_columns(size: int) -> Columns:
    """Return columns of this size without setting their values."""
    return [np.empty(size, dtype=dtype) for dtype in DTYPES]


def copy_places(source: Columns, places: Indices, target: Columns, first: int = 0) -> None:
    """Copy the rows of `source` at the indices `places` to the rows of `target` from `first` on."""
    for values, copied in zip(source, target, strict=True):
        np.take(values, places, out=copied[first : first + len(places)], mode="clip")


def _check(block: NDArray[np.int64]) -> None:
    """Raise `ValueError` if a value does not fit its column. `block` is transposed: its first axis is the column."""
    lowest = block.min(axis=1)
    bad = (lowest < _LOWEST) | (block.max(axis=1) > _HIGHEST)
    if bad.any():
        column = int(np.flatnonzero(bad)[0])
        _refuse(block, column, (block[column] < _LOWEST[column]) | (block[column] > _HIGHEST[column]))
    if lowest[Column.BYTES] < NONE:
        below = (block[Column.BYTES] < NONE) & ~np.isin(block[Column.EVENT], _SCORES)
        if below.any():
            _refuse(block, Column.BYTES, below)


def _refuse(block: NDArray[np.int64], column: int, outside: NDArray[np.bool_]) -> NoReturn:
    row = [int(value) for value in block[:, np.flatnonzero(outside)[0]]]
    raise ValueError(f"trace row {row}: {Column(column).name.lower()} {row[column]} is out of range")


def rows_of(columns: Columns) -> Rows:
    """Return the rows of these columns."""
    size = len(columns[0])
    rows = np.empty((size, WIDTH), dtype=np.int64)
    for start in range(0, size, _BLOCK):
        for index, column in enumerate(columns):
            rows[start : start + _BLOCK, index] = column[start : start + _BLOCK]
    return rows
