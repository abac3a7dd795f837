"""Orders of rows, and the rows of RECV_RPC and DUPLICATE that are derived from others.

Columns are packed into a few 64-bit words, which sort faster than the columns themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent

Words = NDArray[np.uint64]
Indices = NDArray[np.intp]


def _then_the_rest(*first: Column) -> tuple[Column, ...]:
    return first + tuple(column for column in Column if column not in first)


CANONICAL = _then_the_rest(
    Column.TIME_US, Column.PEER, Column.EVENT, Column.KIND, Column.REMOTE, Column.TOPIC, Column.MESSAGE
)
BY_MESSAGE = _then_the_rest(Column.MESSAGE, Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)


def pack_words(columns: Sequence[NDArray[np.signedinteger]]) -> Iterator[Words]:
    """Pack columns into 64-bit words, most significant first. Sorting by the words is sorting by the columns."""
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
    """Return the indices that sort by these columns; the sort is stable."""
    return _order(pack_words(columns), len(columns[0]))


def canonical(rows: Rows) -> Rows:
    """Return the rows in canonical order."""
    return rows[order_of([rows[:, column] for column in CANONICAL])]


def group_ids(columns: Sequence[NDArray[np.signedinteger]]) -> tuple[Indices, Indices]:
    """Return the order that sorts the rows, and for each row in this order the number of its group of equal rows."""
    words = list(pack_words(columns))
    order = _order(iter(words), len(columns[0]))
    starts = np.zeros(len(order), dtype=bool)
    for word in words:
        in_order = word[order]
        starts[1:] |= in_order[1:] != in_order[:-1]
    return order, np.cumsum(starts, dtype=np.intp)


def _order(words: Iterator[Words], size: int) -> Indices:
    """Return the indices that sort by these words, stably. Later words are computed only for ties in the first."""
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
    """Return the indices that sort by this word, and whether the sort is stable."""
    bits = len(word).bit_length()
    if int(word.max()).bit_length() + bits > 64:
        return np.argsort(word), False
    sorted_with_indices = np.sort(word << np.uint64(bits) | np.arange(len(word), dtype=np.uint64))
    return (sorted_with_indices & np.uint64((1 << bits) - 1)).view(np.intp), True


_PART = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.KIND, Column.TOPIC, Column.MESSAGE, Column.BYTES)
_COPY = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.MESSAGE)
_FIRST_COPY = (Column.PEER, Column.MESSAGE, Column.TIME_US, Column.REMOTE)
_HOLDING = (Column.PEER, Column.MESSAGE)
_UNKNOWN_TO_DUPLICATES = (Column.KIND, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON)


def with_derived(rows: Rows) -> Rows:
    """Return the rows, followed by the rows that are derived from them."""
    with_receipts = np.concatenate((rows, derive_receipts(rows)))
    return np.concatenate((with_receipts, derive_duplicates(with_receipts)))


def derive_receipts(rows: Rows) -> Rows:
    """Return the RECV_RPC rows that are derived from SEND_RPC and DROP_RPC rows."""
    events = rows[:, Column.EVENT]
    arriving = rows[(events == TraceEvent.SEND_RPC) & (rows[:, Column.DELAY_US] != NONE)]
    arriving[:, Column.TIME_US] += arriving[:, Column.DELAY_US]
    received = _without(arriving, rows[events == TraceEvent.DROP_RPC], _PART)
    received[:, Column.EVENT] = TraceEvent.RECV_RPC
    received[:, [Column.PEER, Column.REMOTE]] = received[:, [Column.REMOTE, Column.PEER]]
    return received


def derive_duplicates(rows: Rows) -> Rows:
    """Return the DUPLICATE rows that are derived from RECV_RPC rows, derived ones included, and from other rows."""
    events = rows[:, Column.EVENT]
    copies = rows[(events == TraceEvent.RECV_RPC) & (rows[:, Column.KIND] == PartKind.PUBLISH)]
    own = rows[events == TraceEvent.PUBLISH]
    judged = rows[np.isin(events, (TraceEvent.PUBLISH, TraceEvent.DELIVER, TraceEvent.REJECT))]
    copies = copies[_contained(copies, judged, _HOLDING)]
    if not len(copies):
        return copies
    copies = copies[order_of([copies[:, column] for column in _FIRST_COPY])]
    earliest = np.ones(len(copies), dtype=bool)
    earliest[1:] = (copies[1:, _HOLDING] != copies[:-1, _HOLDING]).any(axis=1)
    later = copies[~earliest | _contained(copies, own, _HOLDING)]
    recorded = rows[(events == TraceEvent.REJECT) | (events == TraceEvent.DUPLICATE)]
    duplicates = _without(later, recorded, _COPY)
    duplicates[:, Column.EVENT] = TraceEvent.DUPLICATE
    duplicates[:, _UNKNOWN_TO_DUPLICATES] = NONE
    return duplicates


def _groups(rows: Rows, others: Rows, key: tuple[Column, ...]) -> tuple[Indices, Indices]:
    """Return the group number of each of `rows`, and of each of `others`. Rows of a group are equal in `key`."""
    order, in_order = group_ids([np.concatenate((rows[:, column], others[:, column])) for column in key])
    ids = np.empty(len(order), dtype=np.intp)
    ids[order] = in_order
    return ids[: len(rows)], ids[len(rows) :]


def _contained(rows: Rows, others: Rows, key: tuple[Column, ...]) -> NDArray[np.bool_]:
    if not len(rows) or not len(others):
        return np.zeros(len(rows), dtype=bool)
    ids, other_ids = _groups(rows, others, key)
    return np.isin(ids, other_ids)


def _without(rows: Rows, others: Rows, key: tuple[Column, ...]) -> Rows:
    """Return the rows, except one row for each row of `others` that is equal in `key`."""
    if not len(rows) or not len(others):
        return rows
    ids, other_ids = _groups(rows, others, key)
    taken = np.bincount(other_ids, minlength=int(ids.max()) + 1)
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    rank = np.arange(len(ids)) - np.searchsorted(in_order, in_order)
    kept = order[rank >= taken[in_order]]
    return rows[np.sort(kept)]
