"""Orders of rows.

* `CANONICAL`: time, peer, event, kind, remote, topic, message, then the rest: how people read a trace, and total up
  to equal rows.
* `BY_MESSAGE`: message, time, event, peer, remote, then the rest: how the files of class `message` are sorted.

Sorting 13 columns is slow, but few of their bits vary: `pack_words` lays the varying bits of all columns side by
side into as few 64-bit words as they need (two or three in practice), which sort as the columns do. The first word
tells nearly all rows apart, and numpy sorts plain words faster than anything else: so only the rows that are equal in
it are compared any further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column

Words = NDArray[np.uint64]
Indices = NDArray[np.intp]


def _then_the_rest(*first: Column) -> tuple[Column, ...]:
    return first + tuple(column for column in Column if column not in first)


CANONICAL = _then_the_rest(
    Column.TIME_US, Column.PEER, Column.EVENT, Column.KIND, Column.REMOTE, Column.TOPIC, Column.MESSAGE
)
BY_MESSAGE = _then_the_rest(Column.MESSAGE, Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)


def pack_words(columns: Sequence[NDArray[np.signedinteger]]) -> Iterator[Words]:
    """Words that compare as the columns do, most significant first; equal exactly where all columns are equal."""
    word: Words | None = None
    room = 0
    for column in columns:
        if not len(column):
            continue
        lowest = int(column.min())
        bits = (int(column.max()) - lowest).bit_length()
        if not bits:
            continue
        offsets = column.astype(np.int64).view(np.uint64) - np.uint64(lowest & 0xFFFFFFFFFFFFFFFF)
        if word is not None and bits <= room:
            word = word << np.uint64(bits) | offsets
            room -= bits
        else:
            if word is not None:
                yield word
            word, room = offsets, 64 - bits
    if word is not None:
        yield word


def order_of(columns: Sequence[NDArray[np.signedinteger]]) -> Indices:
    """The indices that sort by these columns, stable."""
    return _order(pack_words(columns), len(columns[0]))


def canonical(rows: Rows) -> Rows:
    """The rows in canonical order."""
    return rows[order_of([rows[:, column] for column in CANONICAL])]


def group_ids(columns: Sequence[NDArray[np.signedinteger]]) -> tuple[Indices, Indices]:
    """(order, ids): `ids[i]` numbers the group of equal rows that the row `order[i]` belongs to, ascending."""
    words = list(pack_words(columns))
    order = _order(iter(words), len(columns[0]))
    starts = np.zeros(len(order), dtype=bool)
    for word in words:
        in_order = word[order]
        starts[1:] |= in_order[1:] != in_order[:-1]
    return order, np.cumsum(starts, dtype=np.intp)


def _order(words: Iterator[Words], size: int) -> Indices:
    """The indices that sort by these words, stable. The later words are asked for only if the first leaves ties."""
    first = next(words, None)
    if first is None:
        return np.arange(size)
    order, stable = _order_of_word(first)
    in_order = first[order]
    equal = in_order[1:] == in_order[:-1]
    if not equal.any():
        return order
    rest = list(words)
    if rest or not stable:
        tied = np.zeros(size, dtype=bool)
        tied[1:] = equal
        tied[:-1] |= equal
        rows = np.sort(order[tied])
        order[tied] = rows[np.lexsort([word[rows] for word in reversed([first, *rest])])]
    return order


def _order_of_word(word: Words) -> tuple[Indices, bool]:
    """The indices that sort by this word, and whether equal ones kept their order."""
    bits = len(word).bit_length()
    if int(word.max()).bit_length() + bits > 64:
        return np.argsort(word), False
    sorted_with_indices = np.sort(word << np.uint64(bits) | np.arange(len(word), dtype=np.uint64))
    return (sorted_with_indices & np.uint64((1 << bits) - 1)).astype(np.intp), True
