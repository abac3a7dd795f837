"""Rows that a simulated trace leaves out because they follow from the others.

Rules:

* RECV_RPC: for every SEND_RPC row with a time of flight, the same row at `time_us + delay_us` with `peer` and
  `remote` swapped; unless a DROP_RPC row of that time, sender, receiver, kind, topic, message and bytes says that
  it never arrived. Of n equal parts of which k were dropped, n - k arrive. A SEND_RPC row without `delay_us` (a
  real node's) derives nothing: the receiver's own trace tells.
* DUPLICATE: of the copies of message m that node n received, where n has a DELIVER or REJECT row for m, all but the
  earliest (ties: the smallest `remote`). A node with a PUBLISH row for m has had it from the start, so there the
  earliest is a duplicate, too. A copy that has its own REJECT or DUPLICATE row (same time, node, remote, message) is
  told already.
  A derived row keeps the copy's time, peer, remote, topic, message, hops and bytes.
* Derivation needs whole messages: filter afterwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.order import Indices, group_ids, order_of
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent

_PART = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.KIND, Column.TOPIC, Column.MESSAGE, Column.BYTES)
_COPY = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.MESSAGE)
_FIRST_COPY = (Column.PEER, Column.MESSAGE, Column.TIME_US, Column.REMOTE)
_HOLDING = (Column.PEER, Column.MESSAGE)
_UNKNOWN_TO_DUPLICATES = (Column.KIND, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON)


def with_derived(rows: Rows) -> Rows:
    """The rows and, after them, those that follow from them."""
    with_receipts = np.concatenate((rows, derive_receipts(rows)))
    return np.concatenate((with_receipts, derive_duplicates(with_receipts)))


def derive_receipts(rows: Rows) -> Rows:
    """The RECV_RPC rows that follow from the SEND_RPC and DROP_RPC rows."""
    events = rows[:, Column.EVENT]
    arriving = rows[(events == TraceEvent.SEND_RPC) & (rows[:, Column.DELAY_US] != NONE)]
    arriving[:, Column.TIME_US] += arriving[:, Column.DELAY_US]
    received = _without(arriving, rows[events == TraceEvent.DROP_RPC], _PART)
    received[:, Column.EVENT] = TraceEvent.RECV_RPC
    received[:, [Column.PEER, Column.REMOTE]] = received[:, [Column.REMOTE, Column.PEER]]
    return received


def derive_duplicates(rows: Rows) -> Rows:
    """The DUPLICATE rows that follow from the RECV_RPC rows (derived ones included) and the fates of messages."""
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
    told = rows[(events == TraceEvent.REJECT) | (events == TraceEvent.DUPLICATE)]
    duplicates = _without(later, told, _COPY)
    duplicates[:, Column.EVENT] = TraceEvent.DUPLICATE
    duplicates[:, _UNKNOWN_TO_DUPLICATES] = NONE
    return duplicates


def _groups(rows: Rows, others: Rows, key: tuple[Column, ...]) -> tuple[Indices, Indices]:
    """For each of `rows` and each of `others`, the number of its group of rows equal in `key`."""
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
    """The rows, less one for each of `others` that is equal in `key`."""
    if not len(rows) or not len(others):
        return rows
    ids, other_ids = _groups(rows, others, key)
    taken = np.bincount(other_ids, minlength=int(ids.max()) + 1)
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    rank = np.arange(len(ids)) - np.searchsorted(in_order, in_order)
    kept = order[rank >= taken[in_order]]
    return rows[np.sort(kept)]
