"""The copies, deliveries and rejections of one message, and the reasons why copies were sent, lost or not used.

Rules:

* A copy is one transmission of the message from one node to another.
* In a simulation, the time of arrival of a copy follows from the row of the send (`delay_us`); the row of a drop
  shows that a copy did not arrive.
* In traces of real nodes, the k-th send from one node to another belongs to the k-th receive. If only the sender or
  only the receiver traced a copy, the other time is unknown.
* A copy that would arrive at the end of the run or later is under way. A copy that was not sent has no arrival.
* If a real node traced no receives, its deliveries, duplicates and rejections show which copies arrived.

The reasons are in the words of `words.toml`, with ids of rules of routers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.rows import ColumnArrays, Ints, PairEvents, indexes_of, selected
from hearsay.pipeline.run_facts import RunFacts
from hearsay.trace.language.rows import group_ids
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name

WORDS: dict[str, dict[str, Any]] = tomllib.loads(
    files("hearsay.explain").joinpath("words.toml").read_text(encoding="utf-8")
)


class Fate(IntEnum):
    """The outcomes of a copy between sender and receiver. A copy with QUEUE_FULL or a later fate was not sent."""

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


class Cause(NamedTuple):
    """A reason in words. `rule` is the id of the router's rule from which the reason follows, or None."""

    words: str
    rule: str | None = None


CAUSES_OF_FATES = {
    Fate[name.upper()]: Cause(each["words"], each.get("rule")) for name, each in WORDS["fates"].items()
}
"""The cause for each fate of a copy, except `ARRIVED`."""
_DROPPED_AS = {int(reason): Fate[reason.name] for reason in Reason if reason.name in Fate.__members__}
"""The fates of dropped copies by the code of a `Reason`. A fate has the same name as its reason."""
REFUSALS = (Reason.REJECTED, Reason.IGNORED, Reason.BAD_SIGNATURE, Reason.UNSUPPORTED)
"""Reasons after which a node neither delivers nor forwards the message."""
_SENT_AND_LOST = (int(Reason.LOST), int(Reason.UNREACHABLE))
_SAME = (Column.PEER, Column.REMOTE, Column.BYTES, Column.HOPS, Column.VIA)
"""Columns in which the row of a send and the row of the drop of the same copy are equal."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the message from one node to another."""

    sender: int
    receiver: int
    sent_us: int | None
    arrived_us: int | None
    """Time at which the copy arrived or, if it was lost or is under way, would have arrived. None if it was not sent,
    or if unknown.
    """
    fate: Fate
    via: int
    """Code of a `Via`; `NONE` if unknown."""
    hops: int
    bytes: int
    in_parts: bool = False
    """True for the partial message with which the receiver had all parts of the message."""


class Copies(NamedTuple):
    """All copies of a message as columns. Unknown values are `NONE`.

    Copies are sorted by receiver, and then by the time of arrival or, if there is none, the time of the send.
    """

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
        """Return the copy with this index."""
        sender, receiver, sent, arrived, fate, via, hops, size = (int(column[index]) for column in self)
        sent_us, arrived_us = None if sent == NONE else sent, None if arrived == NONE else arrived
        return Copy(sender, receiver, sent_us, arrived_us, Fate(fate), via, hops, size)


class Deliveries(NamedTuple):
    """All deliveries of a message as columns, sorted by node and time."""

    node: Ints
    time_us: Ints
    remote: Ints
    hops: Ints
    via: Ints

    def of(self, node: int) -> range:
        """Return the indexes of the deliveries at a node."""
        there = indexes_of(self.node, node)
        return range(there.start, there.stop)

    def latest(self, node: int, until_us: int) -> int | None:
        """Return the index of the last delivery at a node at `until_us` or earlier; None if there is none."""
        there = indexes_of(self.node, node)
        place = int(np.searchsorted(self.time_us[there], until_us, side="right")) - 1
        return None if place < 0 else there.start + place

    def first(self) -> Ints:
        """Return the indexes of the first delivery at each node."""
        return np.flatnonzero(np.diff(self.node, prepend=NONE - 1))


@dataclass(frozen=True, slots=True)
class History:
    """All events of one message in a trace."""

    message: int
    topic: int
    publisher: int
    """Number of the publishing node; `NONE` if the trace has no publication of the message. Then `published_us` and
    `bytes` are also `NONE`."""
    published_us: int
    bytes: int
    copies: Copies
    deliveries: Deliveries
    rejects: PairEvents
    """Rejections of copies by node and sender. A `value` is the code of a `Reason`."""
    last_parts: Mapping[int, Copy] = field(default_factory=dict[int, Copy])
    """The partial messages that completed deliveries, by the index of the delivery."""

    @property
    def published(self) -> bool:
        return self.publisher != NONE

    def start_us(self) -> int:
        """Return the time of the publication. If it is unknown, return the first time of a delivery or copy, or 0."""
        if self.published:
            return self.published_us
        known = [self.deliveries.time_us, self.copies.sent_us[self.copies.sent_us != NONE],
                self.copies.arrived_us[self.copies.arrived_us != NONE]]  # fmt: skip
        return min((int(times.min()) for times in known if len(times)), default=0)


def history_of(run: RunFacts, message: int, rows: ColumnArrays) -> History:
    """Return the history of a message. `rows` are all rows of the message."""
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
    """Return the rows that show arrivals at real nodes: receives of copies or, for a node that traced no receives,
    deliveries, duplicates and rejections. Return no rows for a simulation.
    """
    events = rows[Column.EVENT]
    known = (rows[Column.REMOTE] != NONE) & (rows[Column.REMOTE] != rows[Column.PEER]) & (not simulated)
    received = known & (events == TraceEvent.RECV_RPC) & (rows[Column.KIND] == PartKind.PUBLISH)
    handled = known & np.isin(events, (TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT))
    handled &= ~np.isin(rows[Column.PEER], rows[Column.PEER][received])
    return selected(rows, received | handled)


def _matches(left: list[Ints], right: list[Ints], left_us: Ints, right_us: Ints) -> tuple[Ints, Ints]:
    """Pair the elements of two tables. `left` and `right` are columns of keys. Among the elements with equal keys,
    the k-th in time on the left is paired with the k-th in time on the right. Return the indexes on the left and on
    the right of all pairs.
    """
    count = len(left_us)
    order, in_order = group_ids([np.concatenate(both) for both in zip(left, right, strict=True)])
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = in_order
    pairs = ids * len(ids) + np.concatenate((_ranks(ids[:count], left_us), _ranks(ids[count:], right_us)))
    _, here, there = np.intersect1d(pairs[:count], pairs[count:], return_indices=True)
    return here, there


def _ranks(groups: Ints, times: Ints) -> Ints:
    """Return the rank of each element by time among the elements of the same group."""
    order = np.lexsort((times, groups))
    in_order = groups[order]
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.searchsorted(in_order, in_order)
    return ranks


def cause_of_reason(reason: int) -> Cause:
    """Return why a node rejected or dropped a copy. `reason` is the code of a `Reason`."""
    try:
        name = wire_name(Reason(reason))
    except ValueError:
        return Cause("not used, for an unknown reason")
    known = WORDS["reasons"].get(name)
    return Cause(f"not used: {name.replace('_', ' ')}") if known is None else Cause(**known)


def why_sent(copy: Copy) -> str | None:
    """Return in words why a copy was sent, or that it is the last part of its message; None if unknown."""
    return "the last part" if copy.in_parts else via_words(copy.via)


def via_words(via: int) -> str | None:
    """Return in words why a copy was sent; None if unknown. `via` is the code of a `Via`."""
    return WORDS["vias"].get(wire_name(Via(via))) if 0 <= via < len(Via) else None
