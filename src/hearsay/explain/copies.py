"""The copies, deliveries and rejections of one message.

Rules:

* A copy is a send from one node to another. In a simulation its arrival follows from the send (`trace/language/
  derive.py`), and the row of a drop shows that it did not arrive. In traces of real nodes the k-th send of a pair
  belongs to the k-th receive; if only the sender or only the receiver traced a copy, the other time is unknown.
* A copy that would arrive after the end of the run is under way. A copy that was not sent has no arrival.
* If a trace has no receives of a node, its deliveries, duplicates and rejections show which copies arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.explain.rows import ColumnArrays, Ints, PairEvents, indexes_of, selected
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.order import group_ids
from hearsay.trace.language.schema import NONE, Column, TraceEvent


class Fate(IntEnum):
    """The fate of a copy; from QUEUE_FULL on it was not sent."""

    ARRIVED = 0
    LOST = 1
    UNREACHABLE = 2
    UNDER_WAY = 3
    UNSEEN = 4
    """Sent; the trace does not show whether it arrived."""
    QUEUE_FULL = 5
    WITHDRAWN = 6
    UNWANTED = 7
    DROPPED = 8
    """Not sent, for an unknown reason."""


_DROPPED_AS: dict[int, Fate] = {
    Reason.LOST: Fate.LOST,
    Reason.UNREACHABLE: Fate.UNREACHABLE,
    Reason.QUEUE_FULL: Fate.QUEUE_FULL,
    Reason.WITHDRAWN: Fate.WITHDRAWN,
    Reason.UNWANTED: Fate.UNWANTED,
}
_SENT_AND_LOST = (int(Reason.LOST), int(Reason.UNREACHABLE))
_SAME = (Column.PEER, Column.REMOTE, Column.BYTES, Column.HOPS, Column.VIA)
"""Columns in which a send and its drop are equal."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the message from one node to another."""

    sender: int
    receiver: int
    sent_us: int | None
    arrived_us: int | None
    """Time of arrival; a lost copy would have arrived then. None if the copy was not sent or the time is unknown."""
    fate: Fate
    via: int
    hops: int
    bytes: int
    in_parts: bool = False
    """True for the partial message with which the receiver had all parts."""


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies as columns, ordered by receiver and time; -1: unknown."""

    sender: Ints
    receiver: Ints
    sent_us: Ints
    arrived_us: Ints
    fate: Ints
    via: Ints
    hops: Ints
    bytes: Ints

    def to(self, node: int) -> slice:
        """Return the indexes of the copies to a node."""
        return indexes_of(self.receiver, node)

    def at(self, index: int) -> Copy:
        sender, receiver, sent, arrived, fate, via, hops, size = (
            int(getattr(self, each.name)[index]) for each in fields(self)
        )
        sent_us, arrived_us = None if sent == NONE else sent, None if arrived == NONE else arrived
        return Copy(sender, receiver, sent_us, arrived_us, Fate(fate), via, hops, size)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """All deliveries as columns, ordered by node and time."""

    node: Ints
    time_us: Ints
    remote: Ints
    hops: Ints
    via: Ints

    def of(self, node: int) -> range:
        there = indexes_of(self.node, node)
        return range(there.start, there.stop)

    def latest(self, node: int, until_us: int) -> int | None:
        """Return the index of the last delivery at a node until a time; None without one."""
        there = indexes_of(self.node, node)
        place = int(np.searchsorted(self.time_us[there], until_us, side="right")) - 1
        return None if place < 0 else there.start + place

    def first(self) -> Ints:
        """Return the index of the first delivery at each node."""
        return np.flatnonzero(np.diff(self.node, prepend=NONE - 1))


@dataclass(frozen=True, slots=True)
class History:
    """All events of one message in the trace."""

    message: int
    topic: int
    publisher: int
    """`NONE` if the trace has no publication."""
    published_us: int
    bytes: int
    copies: Copies
    deliveries: Deliveries
    rejects: PairEvents
    """Reasons of nodes to reject copies, by node and sender."""
    last_parts: Mapping[int, Copy] = field(default_factory=dict[int, Copy])
    """The partial message that completed a delivery, by the index of the delivery."""

    @property
    def published(self) -> bool:
        return self.publisher != NONE

    def start_us(self) -> int:
        """Return the time of the publication; if that is unknown, the time of the first known event."""
        if self.published:
            return self.published_us
        known = [self.deliveries.time_us, self.copies.sent_us[self.copies.sent_us != NONE],
                self.copies.arrived_us[self.copies.arrived_us != NONE]]  # fmt: skip
        return min((int(times.min()) for times in known if len(times)), default=0)


def history_of(run: RunFacts, message: int, rows: ColumnArrays) -> History:
    """Return the history of a message, given all its rows."""
    events = rows[Column.EVENT]
    published = np.flatnonzero(events == TraceEvent.PUBLISH)
    first = published[np.argmin(rows[Column.TIME_US][published])] if len(published) else None
    topics = rows[Column.TOPIC][rows[Column.TOPIC] != NONE]
    delivered = selected(rows, events == TraceEvent.DELIVER)
    rejected = selected(rows, events == TraceEvent.REJECT)
    in_time = np.lexsort((delivered[Column.TIME_US], delivered[Column.PEER]))
    of_delivery = (Column.PEER, Column.TIME_US, Column.REMOTE, Column.HOPS, Column.VIA)
    of_reject = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.REASON)
    publisher, published_us, size = (
        NONE if first is None else int(rows[column][first]) for column in (Column.PEER, Column.TIME_US, Column.BYTES)
    )
    return History(
        message=message,
        topic=int(topics[0]) if len(topics) else NONE,
        publisher=publisher,
        published_us=published_us,
        bytes=size,
        copies=_copies(run, rows),
        deliveries=Deliveries(*(delivered[column][in_time] for column in of_delivery)),
        rejects=PairEvents.sorted(*(rejected[column] for column in of_reject)),
    )


def _copies(run: RunFacts, rows: ColumnArrays) -> Copies:
    is_copy = rows[Column.KIND] == PartKind.PUBLISH
    sent = selected(rows, is_copy & (rows[Column.EVENT] == TraceEvent.SEND_RPC))
    dropped = selected(rows, is_copy & (rows[Column.EVENT] == TraceEvent.DROP_RPC))
    was_sent = np.isin(dropped[Column.REASON], _SENT_AND_LOST)
    lost, unsent = selected(dropped, was_sent), selected(dropped, ~was_sent)
    is_timed = sent[Column.DELAY_US] != NONE
    arrived = np.where(is_timed, sent[Column.TIME_US] + sent[Column.DELAY_US], NONE)
    fate = np.where(is_timed, np.where(arrived < run.end_us, Fate.ARRIVED, Fate.UNDER_WAY), Fate.UNSEEN)
    here, there = _matches(
        [arrived, *(sent[column] for column in _SAME)], [lost[Column.TIME_US], *(lost[column] for column in _SAME)],
        arrived, lost[Column.TIME_US],
    )  # fmt: skip
    fate[here] = _fates(lost)[there]
    came = _arrivals(rows, run.simulated)
    here, there = _matches(
        [sent[Column.PEER], sent[Column.REMOTE]], [came[Column.REMOTE], came[Column.PEER]],
        sent[Column.TIME_US], came[Column.TIME_US],
    )  # fmt: skip
    arrived[here], fate[here] = came[Column.TIME_US][there], Fate.ARRIVED
    alone = selected(came, np.setdiff1d(np.arange(len(came[Column.TIME_US])), there))
    tables = (
        (sent, Column.PEER, Column.REMOTE, sent[Column.TIME_US], arrived, fate),
        (alone, Column.REMOTE, Column.PEER, _all(alone, NONE), alone[Column.TIME_US], _all(alone, Fate.ARRIVED)),
        (unsent, Column.PEER, Column.REMOTE, unsent[Column.TIME_US], _all(unsent, NONE), _fates(unsent)),
    )
    columns = [
        np.concatenate(parts)
        for parts in zip(*(
            (table[sender], table[receiver], *times, table[Column.VIA], table[Column.HOPS], table[Column.BYTES])
            for table, sender, receiver, *times in tables
        ), strict=True)
    ]  # fmt: skip
    sender, receiver, left, arrived = columns[:4]
    order = np.lexsort((sender, left, np.where(arrived == NONE, left, arrived), receiver))
    return Copies(*(column[order] for column in columns))


def _all(rows: ColumnArrays, value: int) -> Ints:
    return np.full_like(rows[Column.TIME_US], value)


def _fates(dropped: ColumnArrays) -> Ints:
    fates = [_DROPPED_AS.get(reason, Fate.DROPPED) for reason in dropped[Column.REASON].tolist()]
    return np.array(fates, dtype=np.int64)


def _arrivals(rows: ColumnArrays, simulated: bool) -> ColumnArrays:
    """Return the arrivals that real nodes traced: receives; at a node without any, deliveries, duplicates and
    rejects.
    """
    events = rows[Column.EVENT]
    known = (
        np.full(len(events), not simulated)
        & (rows[Column.REMOTE] != NONE)
        & (rows[Column.REMOTE] != rows[Column.PEER])
    )
    received = known & (events == TraceEvent.RECV_RPC) & (rows[Column.KIND] == PartKind.PUBLISH)
    handled = known & np.isin(events, (TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT))
    handled &= ~np.isin(rows[Column.PEER], rows[Column.PEER][received])
    return selected(rows, received | handled)


def _matches(left: list[Ints], right: list[Ints], left_us: Ints, right_us: Ints) -> tuple[Ints, Ints]:
    """Match the k-th element in time on the left with the k-th on the right that has equal keys; return the indexes
    of the matched elements on the left and on the right.
    """
    count = len(left_us)
    order, in_order = group_ids([np.concatenate(both) for both in zip(left, right, strict=True)])
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = in_order
    pairs = ids * len(ids) + np.concatenate((_ranks(ids[:count], left_us), _ranks(ids[count:], right_us)))
    _, here, there = np.intersect1d(pairs[:count], pairs[count:], return_indices=True)
    return here, there


def _ranks(groups: Ints, times: Ints) -> Ints:
    """Return the rank in time of each element in its group."""
    order = np.lexsort((times, groups))
    in_order = groups[order]
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(in_order, in_order)
    return ranks
