"""The copies, deliveries and rejections of one message.

Rules:

* A copy is a send from one node to another. In a simulation its arrival follows from the send (`trace/language/
  derive.py`), and a drop says that it did not arrive. In traces of real nodes the k-th send of a pair belongs to the
  k-th receive; a copy that only one end traced has one time.
* A copy that would arrive after the end of the run is under way. One that was not sent has no arrival.
* Where a trace has no receives of a node, its deliveries, duplicates and rejections show what arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.explain.rows import ColumnArrays, Ints, some
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
_COPY = (Column.PEER, Column.REMOTE, Column.BYTES, Column.HOPS, Column.VIA)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the message from one node to another."""

    sender: int
    receiver: int
    sent_us: int | None
    arrived_us: int | None
    """Arrival, also of a lost copy; None if it was not sent or the time is unknown."""
    fate: Fate
    via: int
    hops: int
    bytes: int
    in_parts: bool = False
    """The partial message that completed the message."""


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
        """Return the places of the copies to a node."""
        there = _places_of(self.receiver, node)
        return slice(there.start, there.stop)

    def at(self, place: int) -> Copy:
        sent, arrived = int(self.sent_us[place]), int(self.arrived_us[place])
        return Copy(
            int(self.sender[place]),
            int(self.receiver[place]),
            None if sent == NONE else sent,
            None if arrived == NONE else arrived,
            Fate(int(self.fate[place])),
            int(self.via[place]),
            int(self.hops[place]),
            int(self.bytes[place]),
        )


@dataclass(frozen=True, slots=True)
class Deliveries:
    """All deliveries as columns, ordered by node and time."""

    node: Ints
    time_us: Ints
    remote: Ints
    hops: Ints
    via: Ints

    def of(self, node: int) -> range:
        return _places_of(self.node, node)

    def latest(self, node: int, until_us: int) -> int | None:
        """Return the place of the last delivery at a node by a time."""
        there = self.of(node)
        place = int(np.searchsorted(self.time_us[there.start : there.stop], until_us, side="right")) - 1
        return None if place < 0 else there.start + place

    def first(self) -> Ints:
        """Return the places of the first delivery at each node."""
        return np.flatnonzero(np.diff(self.node, prepend=NONE - 1))


@dataclass(frozen=True, slots=True)
class Rejects:
    """Copies that nodes rejected, ordered by node and time."""

    node: Ints
    time_us: Ints
    remote: Ints
    reason: Ints

    def of(self, node: int) -> range:
        return _places_of(self.node, node)


def _places_of(nodes: Ints, node: int) -> range:
    """Return the places of a node in an ascending array."""
    first, end = np.searchsorted(nodes, [node, node + 1])
    return range(int(first), int(end))


@dataclass(frozen=True, slots=True)
class History:
    """All that the trace says about one message."""

    message: int
    topic: int
    publisher: int
    """`NONE` if the trace has no publication."""
    published_us: int
    bytes: int
    copies: Copies
    deliveries: Deliveries
    rejects: Rejects
    last_parts: Mapping[int, Copy] = field(default_factory=dict[int, Copy])
    """Partial message that completed a delivery, by the place of the delivery."""

    @property
    def published(self) -> bool:
        return self.publisher != NONE

    def start_us(self) -> int:
        """Return the time of the publication, or of the first known event without one."""
        if self.published:
            return self.published_us
        known = [self.deliveries.time_us, self.copies.sent_us[self.copies.sent_us != NONE],
                self.copies.arrived_us[self.copies.arrived_us != NONE]]  # fmt: skip
        return min((int(times.min()) for times in known if len(times)), default=0)


def history_of(run: RunFacts, message: int, rows: ColumnArrays) -> History:
    """Return the history in all rows of a message."""
    events = rows[Column.EVENT]
    published = np.flatnonzero(events == TraceEvent.PUBLISH)
    first = published[np.argmin(rows[Column.TIME_US][published])] if len(published) else None
    topics = rows[Column.TOPIC][rows[Column.TOPIC] != NONE]
    return History(
        message=message,
        topic=int(topics[0]) if len(topics) else NONE,
        publisher=NONE if first is None else int(rows[Column.PEER][first]),
        published_us=NONE if first is None else int(rows[Column.TIME_US][first]),
        bytes=NONE if first is None else int(rows[Column.BYTES][first]),
        copies=_copies(run, rows),
        deliveries=_deliveries(rows),
        rejects=_rejects(rows),
    )


def _deliveries(rows: ColumnArrays) -> Deliveries:
    mine = some(rows, rows[Column.EVENT] == TraceEvent.DELIVER)
    order = np.lexsort((mine[Column.TIME_US], mine[Column.PEER]))
    columns = (Column.PEER, Column.TIME_US, Column.REMOTE, Column.HOPS, Column.VIA)
    return Deliveries(*(mine[column][order].astype(np.int64) for column in columns))


def _rejects(rows: ColumnArrays) -> Rejects:
    mine = some(rows, rows[Column.EVENT] == TraceEvent.REJECT)
    order = np.lexsort((mine[Column.TIME_US], mine[Column.PEER]))
    columns = (Column.PEER, Column.TIME_US, Column.REMOTE, Column.REASON)
    return Rejects(*(mine[column][order].astype(np.int64) for column in columns))


def _copies(run: RunFacts, rows: ColumnArrays) -> Copies:
    events, kinds = rows[Column.EVENT], rows[Column.KIND]
    sent = some(rows, (events == TraceEvent.SEND_RPC) & (kinds == PartKind.PUBLISH))
    dropped = some(rows, (events == TraceEvent.DROP_RPC) & (kinds == PartKind.PUBLISH))
    never_left = some(dropped, ~np.isin(dropped[Column.REASON], _SENT_AND_LOST))
    lost = some(dropped, np.isin(dropped[Column.REASON], _SENT_AND_LOST))
    timed = sent[Column.DELAY_US] != NONE
    tables = [
        _simulated(some(sent, timed), lost, run.end_us),
        _recorded(some(sent, ~timed), _arrivals(rows, run.simulated)),
        _unsent(never_left),
    ]
    columns = [np.concatenate([table[place] for table in tables]) for place in range(len(tables[0]))]
    sender, receiver, left, arrived = columns[:4]
    order = np.lexsort((sender, left, np.where(arrived == NONE, left, arrived), receiver))
    return Copies(*(column[order] for column in columns))


def _simulated(sent: ColumnArrays, lost: ColumnArrays, end_us: int) -> list[Ints]:
    """Return copies with a delay; each drop takes one of the equal sends."""
    arrival = sent[Column.TIME_US] + sent[Column.DELAY_US]
    fate = np.where(arrival < end_us, Fate.ARRIVED, Fate.UNDER_WAY).astype(np.int64)
    if len(lost[Column.TIME_US]):
        keys = [np.concatenate((arrival, lost[Column.TIME_US]))]
        keys += [np.concatenate((sent[column], lost[column])).astype(np.int64) for column in _COPY]
        order, in_order = group_ids(keys)
        ids = np.empty(len(order), dtype=np.intp)
        ids[order] = in_order
        mine, theirs = ids[: len(arrival)], ids[len(arrival) :]
        fates = np.array([_DROPPED_AS[reason] for reason in lost[Column.REASON].tolist()])
        by_group = np.argsort(theirs, kind="stable")
        first = np.searchsorted(theirs[by_group], mine)
        place = first + _ranks(mine)
        taken = (place < len(theirs)) & (theirs[by_group[np.minimum(place, len(theirs) - 1)]] == mine)
        fate[taken] = fates[by_group[place[taken]]]
    return _table(sent, Column.PEER, Column.REMOTE, sent[Column.TIME_US], arrival, fate)


def _recorded(sent: ColumnArrays, came: ColumnArrays) -> list[Ints]:
    """Match sends and receives of real nodes, each traced by its own end."""
    keys = [np.concatenate((sent[Column.PEER], came[Column.REMOTE])).astype(np.int64),
            np.concatenate((sent[Column.REMOTE], came[Column.PEER])).astype(np.int64)]  # fmt: skip
    count = len(sent[Column.PEER])
    if not len(keys[0]):
        nothing = np.empty(0, dtype=np.int64)
        return _table(sent, Column.PEER, Column.REMOTE, nothing, nothing, nothing)
    order, in_order = group_ids(keys)
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = in_order
    pair = ids * len(ids) + np.concatenate((
        _ranks_in_time(ids[:count], sent[Column.TIME_US]), _ranks_in_time(ids[count:], came[Column.TIME_US])
    ))  # fmt: skip
    mine, theirs = pair[:count], pair[count:]
    _, here, there = np.intersect1d(mine, theirs, return_indices=True)
    arrived = np.full(count, NONE, dtype=np.int64)
    arrived[here] = came[Column.TIME_US][there]
    fate = np.where(arrived == NONE, Fate.UNSEEN, Fate.ARRIVED).astype(np.int64)
    alone = some(came, ~np.isin(theirs, mine))
    lonely = len(alone[Column.PEER])
    unknown = np.full(lonely, NONE, dtype=np.int64)
    received = _table(
        alone, Column.REMOTE, Column.PEER, unknown, alone[Column.TIME_US], np.full(lonely, Fate.ARRIVED)
    )
    matched = _table(sent, Column.PEER, Column.REMOTE, sent[Column.TIME_US], arrived, fate)
    return [np.concatenate(both) for both in zip(matched, received, strict=True)]


def _arrivals(rows: ColumnArrays, simulated: bool) -> ColumnArrays:
    """Return the arrivals that real nodes traced: receives, or without any the handling of messages."""
    events = rows[Column.EVENT]
    known = (
        np.full(len(events), not simulated)
        & (rows[Column.REMOTE] != NONE)
        & (rows[Column.REMOTE] != rows[Column.PEER])
    )
    received = known & (events == TraceEvent.RECV_RPC) & (rows[Column.KIND] == PartKind.PUBLISH)
    handled = known & np.isin(events, (TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT))
    handled &= ~np.isin(rows[Column.PEER], rows[Column.PEER][received])
    return some(rows, received | handled)


def _unsent(dropped: ColumnArrays) -> list[Ints]:
    fates = [_DROPPED_AS.get(reason, Fate.DROPPED) for reason in dropped[Column.REASON].tolist()]
    never = np.full(len(fates), NONE, dtype=np.int64)
    return _table(
        dropped, Column.PEER, Column.REMOTE, dropped[Column.TIME_US], never, np.array(fates, dtype=np.int64)
    )


def _table(rows: ColumnArrays, sender: Column, receiver: Column, sent: Ints, arrived: Ints, fate: Ints) -> list[Ints]:
    more = (rows[Column.VIA], rows[Column.HOPS], rows[Column.BYTES])
    return [values.astype(np.int64) for values in (rows[sender], rows[receiver], sent, arrived, fate, *more)]


def _ranks(groups: Ints) -> Ints:
    """Return the rank of each element in its group, in order of place."""
    return _ranks_in_time(groups, np.zeros(len(groups), dtype=np.int64))


def _ranks_in_time(groups: Ints, times: Ints) -> Ints:
    order = np.lexsort((times, groups))
    in_order = groups[order]
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(in_order, in_order)
    return ranks
