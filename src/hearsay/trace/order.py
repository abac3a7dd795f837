"""Orders of rows.

* `CANONICAL`: time, peer, event, kind, remote, topic, message, then the rest: how people read a trace, and total up
  to equal rows.
* `BY_MESSAGE`: message, time, event, peer, remote, then the rest: how the files of class `message` are sorted.

Sorting 13 columns is slow, but few of their bits vary: `pack_words` lays the varying bits of all columns side by
side into as few 64-bit words as they need (two or three in practice), which sort as the columns do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.rows import Rows
from hearsay.trace.schema import Column

Words = NDArray[np.uint64]
Indices = NDArray[np.intp]


def _then_the_rest(*first: Column) -> tuple[Column, ...]:
    return first + tuple(column for column in Column if column not in first)


CANONICAL = _then_the_rest(
    Column.TIME_US, Column.PEER, Column.EVENT, Column.KIND, Column.REMOTE, Column.TOPIC, Column.MESSAGE
)
BY_MESSAGE = _then_the_rest(Column.MESSAGE, Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)


def pack_words(columns: Sequence[NDArray[np.signedinteger]]) -> list[Words]:
    """Words that compare as the columns do, most significant first; equal exactly where all columns are equal."""
    words: list[Words] = []
    room = 0
    for column in columns:
        if not len(column):
            continue
        lowest = int(column.min())
        bits = (int(column.max()) - lowest).bit_length()
        if not bits:
            continue
        offsets = column.astype(np.int64).view(np.uint64) - np.uint64(lowest & 0xFFFFFFFFFFFFFFFF)
        if bits > room:
            words.append(offsets)
            room = 64 - bits
        else:
            words[-1] = words[-1] << np.uint64(bits) | offsets
            room -= bits
    return words


def order_of(columns: Sequence[NDArray[np.signedinteger]]) -> Indices:
    """The indices that sort by these columns, stable."""
    return _order(pack_words(columns), len(columns[0]))


def canonical(rows: Rows) -> Rows:
    """The rows in canonical order."""
    return rows[order_of([rows[:, column] for column in CANONICAL])]


def group_ids(columns: Sequence[NDArray[np.signedinteger]]) -> tuple[Indices, Indices]:
    """(order, ids): `ids[i]` numbers the group of equal rows that the row `order[i]` belongs to, ascending."""
    words = pack_words(columns)
    order = _order(words, len(columns[0]))
    starts = np.zeros(len(order), dtype=bool)
    for word in words:
        in_order = word[order]
        starts[1:] |= in_order[1:] != in_order[:-1]
    return order, np.cumsum(starts, dtype=np.intp)


def _order(words: list[Words], size: int) -> Indices:
    if not words:
        return np.arange(size)
    if len(words) == 1:
        return np.argsort(words[0], kind="stable")
    return np.lexsort(words[::-1])
