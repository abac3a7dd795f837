"""Rows as integers: buffers of rows, the trace hash, the order of rows, and rows that are derived from stored rows.

The trace hash is the same for the same multiset of rows in any order. To sort rows, the columns are packed into a few
64-bit words, which sort faster than the columns themselves. RECV_RPC and DUPLICATE rows of a simulation are derived.

Rules:

* A row's hash has two halves of 64 bits. Each half is the finaliser of splitmix64, applied to the sum of the 13
  columns, each times a constant, modulo 2^64. The constants of the upper half are the outputs 1 … 13 of splitmix64
  seeded with 0, those of the lower half the outputs 14 … 26, all with the lowest bit set.
* The hash of a trace is the sum of the hashes of its rows modulo 2^128. So the order in which an engine writes rows
  does not change the hash, and hashes of parts can be added. A row that is written twice is added twice.
* All numbers are integers, so every machine computes the same hash.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.rules.randomness import extend, mix
from hearsay.trace.language.schema import NONE, WIDTH, Column, PartKind, TraceEvent

Rows: TypeAlias = NDArray[np.int64]
"""An array of shape (n, 13). Its columns are in the order of `schema.COLUMNS`."""
Words = NDArray[np.uint64]
Indices = NDArray[np.intp]

pack_row = Struct(f"{WIDTH}q").pack
"""A function that packs the integers of a row into bytes."""
_MASK128 = (1 << 128) - 1
_BLOCK = 16_384
_mix = cast("Callable[[NDArray[np.uint64]], NDArray[np.uint64]]", mix)
_PART = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.KIND, Column.TOPIC, Column.MESSAGE, Column.BYTES)
_COPY = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.MESSAGE)
_FIRST_COPY = (Column.PEER, Column.MESSAGE, Column.TIME_US, Column.REMOTE)
_NODE_AND_MESSAGE = (Column.PEER, Column.MESSAGE)
_UNKNOWN_TO_DUPLICATES = (Column.KIND, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON)


def no_rows() -> Rows:
    return np.empty((0, WIDTH), dtype=np.int64)


class RowBuffer:
    """A growing buffer of rows. `values` is always the same object, so a caller may store `values.frombytes`."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.values) // WIDTH

    def to_numpy(self) -> Rows:
        """Return a copy of the rows. The buffer may grow or be cleared afterwards."""
        return np.frombuffer(self.values, dtype=np.int64).reshape(-1, WIDTH).copy()

    def clear(self) -> None:
        del self.values[:]


def _constants(first: int) -> tuple[int, ...]:
    return tuple(extend(0, index) | 1 for index in range(first, first + WIDTH))


UPPER_CONSTANTS = _constants(1)
LOWER_CONSTANTS = _constants(1 + WIDTH)


class TraceDigest:
    """The trace hash of the rows that were added so far."""

    __slots__ = ("_lower", "_total", "_upper")

    def __init__(self) -> None:
        self._upper = np.array(UPPER_CONSTANTS, dtype=np.uint64)
        self._lower = np.array(LOWER_CONSTANTS, dtype=np.uint64)
        self._total = 0

    def add(self, rows: Rows) -> None:
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK].view(np.uint64)
            upper = _mix(block @ self._upper)
            lower = _mix(block @ self._lower)
            low_halves = int((lower & np.uint64(0xFFFFFFFF)).sum())
            high_halves = int((lower >> np.uint64(32)).sum())
            self._total += (int(upper.sum()) << 64) + (high_halves << 32) + low_halves
        self._total &= _MASK128

    def hex(self) -> str:
        """Return the hash as 32 hexadecimal digits."""
        return f"{self._total:032x}"


def hash_of_parts(hashes: Iterable[str]) -> str:
    """Return the hash of a trace whose parts have these hashes, as 32 hexadecimal digits."""
    return f"{sum(int(each, 16) for each in hashes) & _MASK128:032x}"


def _then_the_rest(*first: Column) -> tuple[Column, ...]:
    return first + tuple(column for column in Column if column not in first)


CANONICAL = _then_the_rest(
    Column.TIME_US, Column.PEER, Column.EVENT, Column.KIND, Column.REMOTE, Column.TOPIC, Column.MESSAGE
)
BY_MESSAGE = _then_the_rest(Column.MESSAGE, Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)


def pack_words(columns: Sequence[NDArray[np.signedinteger]]) -> Iterator[Words]:
    """Pack columns into 64-bit words, the first column into the highest bits of the first word.

    A sort by the words gives the same order as a sort by the columns.
    """
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
    """Return the indices that sort rows by these columns, the first column first. The sort is stable."""
    return _order(pack_words(columns), len(columns[0]))


def canonical(rows: Rows) -> Rows:
    """Return the rows in canonical order: by time, then by the other columns in the order of `CANONICAL`."""
    return rows[order_of([rows[:, column] for column in CANONICAL])]


def group_ids(columns: Sequence[NDArray[np.signedinteger]]) -> tuple[Indices, Indices]:
    """Return the indices that sort rows by these columns, and for each sorted row the number of its group.

    Rows of a group are equal in all of these columns.
    """
    words = list(pack_words(columns))
    order = _order(iter(words), len(columns[0]))
    starts = np.zeros(len(order), dtype=bool)
    for word in words:
        in_order = word[order]
        starts[1:] |= in_order[1:] != in_order[:-1]
    return order, np.cumsum(starts, dtype=np.intp)


def _order(words: Iterator[Words], size: int) -> Indices:
    """Return the indices that sort stably by these words. Later words are computed only if the first one has ties."""
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


def with_derived(rows: Rows) -> Rows:
    """Return `rows`, followed by the RECV_RPC and DUPLICATE rows that are derived from these rows."""
    with_receipts = np.concatenate((rows, derive_receipts(rows)))
    return np.concatenate((with_receipts, derive_duplicates(with_receipts)))


def derive_receipts(rows: Rows) -> Rows:
    """Return a RECV_RPC row for each SEND_RPC row with a delay, unless a DROP_RPC row says that the part was lost.

    Its time is that of the arrival, and its peer is the receiver. Other columns stay as they are, also DELAY_US.
    """
    events = rows[:, Column.EVENT]
    arriving = rows[(events == TraceEvent.SEND_RPC) & (rows[:, Column.DELAY_US] != NONE)]
    arriving[:, Column.TIME_US] += arriving[:, Column.DELAY_US]
    received = _without(arriving, rows[events == TraceEvent.DROP_RPC], _PART)
    received[:, Column.EVENT] = TraceEvent.RECV_RPC
    received[:, [Column.PEER, Column.REMOTE]] = received[:, [Column.REMOTE, Column.PEER]]
    return received


def derive_duplicates(rows: Rows) -> Rows:
    """Return a DUPLICATE row for each received copy of a message that the receiving node did not use.

    A message is considered only if the node has a PUBLISH, DELIVER or REJECT row of it. The node used the first copy
    that it received, or no copy if it published the message. A copy with a stored REJECT or DUPLICATE row gets no
    further row. `rows` must contain the RECV_RPC rows that `derive_receipts` returns.
    """
    events = rows[:, Column.EVENT]
    copies = rows[(events == TraceEvent.RECV_RPC) & (rows[:, Column.KIND] == PartKind.PUBLISH)]
    own = rows[events == TraceEvent.PUBLISH]
    handled = rows[np.isin(events, (TraceEvent.PUBLISH, TraceEvent.DELIVER, TraceEvent.REJECT))]
    copies = copies[_contained(copies, handled, _NODE_AND_MESSAGE)]
    if not len(copies):
        return copies
    copies = copies[order_of([copies[:, column] for column in _FIRST_COPY])]
    earliest = np.ones(len(copies), dtype=bool)
    earliest[1:] = (copies[1:, _NODE_AND_MESSAGE] != copies[:-1, _NODE_AND_MESSAGE]).any(axis=1)
    later = copies[~earliest | _contained(copies, own, _NODE_AND_MESSAGE)]
    recorded = rows[(events == TraceEvent.REJECT) | (events == TraceEvent.DUPLICATE)]
    duplicates = _without(later, recorded, _COPY)
    duplicates[:, Column.EVENT] = TraceEvent.DUPLICATE
    duplicates[:, _UNKNOWN_TO_DUPLICATES] = NONE
    return duplicates


def _groups(rows: Rows, others: Rows, key: tuple[Column, ...]) -> tuple[Indices, Indices]:
    """Return the group number of each of `rows`, and of each of `others`. Rows of a group are equal in all columns of
    `key`."""
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
    """Return `rows` after the removal of one equal row for each row of `others`.

    Rows are equal if they agree in all columns of `key`.
    """
    if not len(rows) or not len(others):
        return rows
    ids, other_ids = _groups(rows, others, key)
    taken = np.bincount(other_ids, minlength=int(ids.max()) + 1)
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    rank = np.arange(len(ids)) - np.searchsorted(in_order, in_order)
    kept = order[rank >= taken[in_order]]
    return rows[np.sort(kept)]
