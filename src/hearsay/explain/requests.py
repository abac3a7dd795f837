"""Parts of RPCs between nodes, and the announcement and request that led to a copy.

Rules:

* Rows of IHAVE, IWANT and GRAFT name no messages, so they are matched by time. An IWANT is answered at once, so the
  request for a copy is the last IWANT that had reached the sender when it sent the copy. The announcement is the last
  IHAVE that had reached the receiver when it sent the IWANT. In episub, receivers wait before they ask: the
  announcement is the first IHAVE after the sender had the message, and the request is the last GRAFT.
* A message in parts was completed by the last partial message of the sender that arrived before the delivery.
* A part that was dropped led to no copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import Copy, Fate, History
from hearsay.explain.links import LINK_EVENTS
from hearsay.explain.rows import ColumnArrays, Members, select_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

ON_REQUEST = (Via.IWANT, Via.LAZY)
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.DELAY_US, Column.BYTES)
REQUESTS = (PartKind.IHAVE, PartKind.IWANT, PartKind.GRAFT)

Pair = tuple[int, int]
"""Sender and receiver."""
_Key = tuple[int, int, PartKind]
"""Sender, receiver, kind of part."""


class Part(NamedTuple):
    """A part of an RPC; its times are `NONE` if unknown."""

    sent_us: int
    arrived_us: int
    bytes: int

    @property
    def last_us(self) -> int:
        return max(self.sent_us, self.arrived_us)


@dataclass
class Parts:
    """Parts by sender, receiver and kind."""

    _sent: dict[_Key, list[Part]] = field(default_factory=dict[_Key, list[Part]])
    _received: dict[_Key, list[int]] = field(default_factory=dict[_Key, list[int]])
    _dropped: dict[_Key, list[int]] = field(default_factory=dict[_Key, list[int]])

    def add(self, time_us: int, event: int, kind: int, peer: int, remote: int, delay_us: int, size: int) -> None:
        key = (peer, remote, PartKind(kind))
        if event == TraceEvent.SEND_RPC:
            arrived_us = NONE if delay_us == NONE else time_us + delay_us
            self._sent.setdefault(key, []).append(Part(time_us, arrived_us, size))
        elif event == TraceEvent.RECV_RPC:
            self._received.setdefault((remote, peer, PartKind(kind)), []).append(time_us)
        elif event == TraceEvent.DROP_RPC:
            self._dropped.setdefault(key, []).append(time_us)

    def arrived(self, sender: int, receiver: int, kind: PartKind) -> list[Part]:
        """Return the parts that arrived, in order of time, as far as is known."""
        key = (sender, receiver, kind)
        sent = sorted(self._sent.get(key, []))
        for time_us in self._dropped.get(key, []):
            lost = next((part for part in sent if part.arrived_us == time_us), None)
            if lost is not None:
                sent.remove(lost)
        received = sorted(self._received.get(key, []))
        if not received:
            return sorted(sent, key=lambda part: part.last_us)
        if len(sent) == len(received):
            return [part._replace(arrived_us=time_us) for part, time_us in zip(sent, received, strict=True)]
        return [Part(NONE, time_us, NONE) for time_us in received]

    def count(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """Return how many parts arrived between two times."""
        return sum(from_us <= part.arrived_us <= until_us for part in self.arrived(sender, receiver, kind))

    def lost(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """Return how many parts that would have arrived between two times were lost."""
        return sum(from_us <= time <= until_us for time in self._dropped.get((sender, receiver, kind), ()))


def parts_between(
    run: RunFacts,
    pairs: Collection[Pair],
    kinds: Collection[PartKind],
    topic: int | None,
    from_us: int,
    until_us: int,
) -> Parts:
    """Return parts of these kinds between pairs, in both directions; of one topic unless it is None."""
    found = Parts()
    if not pairs:
        return found
    keys = np.array([one << 32 | other for pair in pairs for one, other in (pair, pair[::-1])], dtype=np.int64)

    def keep(rows: ColumnArrays) -> np.ndarray:
        kept = np.isin(rows[Column.KIND], list(kinds))
        kept &= np.isin(rows[Column.PEER].astype(np.int64) << 32 | rows[Column.REMOTE].astype(np.int64), keys)
        return kept if topic is None else kept & (rows[Column.TOPIC] == topic)

    rows = select_rows(run, "rpc", (*_COLUMNS, Column.TOPIC), keep, from_us, until_us)
    for row in zip(*(rows[column].tolist() for column in _COLUMNS), strict=True):
        found.add(*row)
    return found


def last_parts(run: RunFacts, history: History) -> Mapping[int, Copy]:
    """Return the partial message that completed each delivery, by the index of the delivery.

    Deliveries that a copy of the whole message explains are left out.
    """
    deliveries = history.deliveries
    whole = set(zip(history.copies.sender.tolist(), history.copies.receiver.tolist(), strict=True))
    places: dict[Pair, int] = {}
    for place, pair in enumerate(zip(deliveries.remote.tolist(), deliveries.node.tolist(), strict=True)):
        if pair[0] != NONE and pair not in whole:
            places.setdefault(pair, place)
    until_us = int(deliveries.time_us.max(initial=0))
    parts = parts_between(run, places, (PartKind.PARTIAL,), history.topic, history.start_us(), until_us)
    found: dict[int, Copy] = {}
    for (sender, receiver), place in places.items():
        arrived = parts.arrived(sender, receiver, PartKind.PARTIAL)
        by_then = [part for part in arrived if NONE < part.arrived_us <= deliveries.time_us[place]]
        if by_then:
            last = max(by_then, key=lambda part: (part.arrived_us, part.sent_us))
            hops = int(deliveries.hops[place])
            found[place] = Copy(
                sender, receiver, last.sent_us, last.arrived_us, Fate.ARRIVED, NONE, hops, last.bytes, in_parts=True
            )
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """The times of the events that led to a copy; None for those that the trace does not show."""

    joined_us: int | None
    """Time at which the receiver joined the topic, if the sender had the message before."""
    connected_us: int | None
    """Time at which the two nodes were connected, if the sender had the message before."""
    announced_us: int | None
    received_us: int | None
    asked_us: int | None
    reached_us: int | None


class Requests:
    """Announcements and requests of pairs of nodes, and when the pairs were connected."""

    def __init__(self, run: RunFacts, pairs: Collection[Pair], members: Members, from_us: int, until_us: int) -> None:
        self._members = members
        self._parts = parts_between(run, pairs, REQUESTS, None, from_us, until_us)
        senders = [sender for sender, _ in pairs]
        self._links = select_rows(
            run, "node", (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE),
            lambda rows: np.isin(rows[Column.EVENT], LINK_EVENTS) & np.isin(rows[Column.PEER], senders),
            until_us=until_us,
        )  # fmt: skip

    def before(self, copy: Copy, held_us: int) -> Request | None:
        """Return the events that led to a copy; None if it was not requested, or if the trace does not show that."""
        if copy.via not in ON_REQUEST or copy.sent_us is None:
            return None
        is_gossip = copy.via == Via.IWANT
        request = PartKind.IWANT if is_gossip else PartKind.GRAFT
        asked = self._between(copy.receiver, copy.sender, request, held_us, copy.sent_us)
        if not asked:
            return None
        asked_us, reached_us, _ = asked[-1]
        until_us = copy.sent_us if asked_us == NONE else asked_us
        announcements = self._between(copy.sender, copy.receiver, PartKind.IHAVE, held_us, until_us)
        announced_us, received_us = NONE, NONE
        if announcements:
            announced_us, received_us, _ = announcements[-1 if is_gossip else 0]
        times = (announced_us, received_us, asked_us, reached_us)
        first_us = next((time for time in times if time != NONE), held_us)
        joined_us = self._joined(copy.receiver, held_us, first_us)
        connected_us = self._connected(copy.sender, copy.receiver, joined_us or held_us, first_us)
        return Request(joined_us, connected_us, *(None if time == NONE else time for time in times))

    def _between(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> list[Part]:
        """Return the parts that were sent since a time and had arrived by another, as far as is known."""
        return [
            part
            for part in self._parts.arrived(sender, receiver, kind)
            if part.last_us <= until_us and (part.sent_us if part.sent_us != NONE else part.arrived_us) >= from_us
        ]

    def _joined(self, node: int, from_us: int, until_us: int) -> int | None:
        since = self._members.since_us[self._members.node == node]
        between = since[(since > from_us) & (since <= until_us)]
        return int(between.max()) if len(between) else None

    def _connected(self, sender: int, receiver: int, from_us: int, until_us: int) -> int | None:
        """Return the time of a pair's last connection between two times; None if it was connected before."""
        times, events, peers, remotes = self._links.values()
        mine = (peers == sender) & ((remotes == receiver) | (events == TraceEvent.NODE_DOWN))
        adds = events[mine] == TraceEvent.ADD_PEER
        changes = sorted(zip(times[mine].tolist(), adds.tolist(), strict=True))
        before = [added for time, added in changes if time <= from_us]
        between = [time for time, added in changes if added and from_us < time <= until_us]
        return max(between) if between and not (before and before[-1]) else None
