"""Parts of RPCs between nodes, and the announcement and the request that led to a copy.

A part, here, is a control part of an RPC or a partial message.

Rules:

* Rows of IHAVE, IWANT and GRAFT name no messages, so times show which of them led to a copy. The sender of a copy
  answers an IWANT at once, so the request for the copy is the last IWANT that had reached the sender when the sender
  sent the copy. The announcement is the last IHAVE that had reached the receiver when the receiver sent that IWANT.
  In episub, receivers wait before they request: the announcement is the first IHAVE after the sender had the message,
  and the request is the last GRAFT.
* A message that is sent in parts was completed by the last partial message that arrived before the delivery, from the
  sender that the row of the delivery names.
* A part that was dropped led to no copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import Copy, Fate, History
from hearsay.explain.links import LINK_EVENTS
from hearsay.explain.rows import ColumnArrays, Members, select_rows
from hearsay.pipeline.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

ON_REQUEST = (Via.IWANT, Via.LAZY)
"""The vias of copies that the receiver requested."""
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.DELAY_US, Column.BYTES)
REQUESTS = (PartKind.IHAVE, PartKind.IWANT, PartKind.GRAFT)
"""The kinds of announcements and requests."""

Pair = tuple[int, int]
"""Sender and receiver."""
_Key = tuple[int, int, PartKind]
"""Sender, receiver, kind of part."""


class Part(NamedTuple):
    """The times and the size of a part. An unknown time or size is `NONE`."""

    sent_us: int
    arrived_us: int
    bytes: int

    @property
    def last_us(self) -> int:
        """Return the later of `sent_us` and `arrived_us`; if one is unknown, the other one."""
        return max(self.sent_us, self.arrived_us)


class Parts:
    """Parts of RPCs by sender, receiver and kind."""

    def __init__(self) -> None:
        self._sent: dict[_Key, list[Part]] = defaultdict(list)
        self._received_us: dict[_Key, list[int]] = defaultdict(list)
        self._dropped_us: dict[_Key, list[int]] = defaultdict(list)
        """Times of the rows about dropped parts. A part that was sent would have arrived at this time."""

    def add(self, time_us: int, event: int, kind: int, peer: int, remote: int, delay_us: int, size: int) -> None:
        """Add a row of the trace."""
        key = (peer, remote, PartKind(kind))
        if event == TraceEvent.SEND_RPC:
            self._sent[key].append(Part(time_us, NONE if delay_us == NONE else time_us + delay_us, size))
        elif event == TraceEvent.RECV_RPC:
            self._received_us[remote, peer, PartKind(kind)].append(time_us)
        elif event == TraceEvent.DROP_RPC:
            self._dropped_us[key].append(time_us)

    def arrived(self, sender: int, receiver: int, kind: PartKind) -> list[Part]:
        """Return the parts that arrived, in order of time.

        If the receiver traced no receives, every sent part that was not dropped is assumed to arrive. If the receiver
        traced more or fewer parts than the sender, times of sends and sizes are unknown.
        """
        key = (sender, receiver, kind)
        sent = sorted(self._sent[key])
        for time_us in self._dropped_us[key]:
            lost = next((part for part in sent if part.arrived_us == time_us), None)
            if lost is not None:
                sent.remove(lost)
        received = sorted(self._received_us[key])
        if not received:
            return sorted(sent, key=lambda part: part.last_us)
        if len(sent) == len(received):
            return [part._replace(arrived_us=time_us) for part, time_us in zip(sent, received, strict=True)]
        return [Part(NONE, time_us, NONE) for time_us in received]

    def count(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """Return the number of parts that arrived from `from_us` to `until_us`."""
        return sum(from_us <= part.arrived_us <= until_us for part in self.arrived(sender, receiver, kind))

    def lost(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """Return the number of parts whose drop has a time from `from_us` to `until_us`."""
        return sum(from_us <= time <= until_us for time in self._dropped_us[sender, receiver, kind])


def parts_between(
    run: RunFacts,
    pairs: Collection[Pair],
    kinds: Collection[PartKind],
    topic: int | None,
    from_us: int,
    until_us: int,
) -> Parts:
    """Return the parts of these kinds that the two nodes of each pair sent to each other, by rows from `from_us` to
    `until_us`. With `topic`, return only parts of that topic.
    """
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
    """Return the partial messages that completed the message at nodes, as copies, by the index of the delivery.

    A delivery is left out if its sender is unknown, or if the trace has a copy of the whole message from the same
    sender, or no partial message. If a node has several deliveries from the same sender, only the first is
    considered.
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
    """The times of the events that led to a copy; None for an event that the trace does not show."""

    joined_us: int | None
    """Time at which the receiver joined the topic; None also if the receiver joined before the sender had the
    message.
    """
    connected_us: int | None
    """Time at which the two nodes were connected. None also if they were already connected when the sender had the
    message and the receiver was in the topic."""
    announced_us: int | None
    """Time at which the sender of the copy sent the announcement."""
    received_us: int | None
    """Time at which the announcement arrived at the receiver of the copy."""
    asked_us: int | None
    """Time at which the receiver of the copy sent the request."""
    reached_us: int | None
    """Time at which the request arrived at the sender of the copy."""


class Requests:
    """Announcements and requests between pairs of nodes, and the times at which the pairs were connected."""

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
        """Return the times of the events that led to a copy. Its sender had the message from `held_us` on; earlier
        events are ignored. Return None if the copy was not requested, or if the trace does not show the request or
        the time at which the copy was sent.
        """
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
        announced_us, received_us, _ = announcements[-1 if is_gossip else 0] if announcements else (NONE, NONE, NONE)
        times = (announced_us, received_us, asked_us, reached_us)
        first_us = next((time for time in times if time != NONE), held_us)
        joined_us = self._members.last_join(copy.receiver, held_us, first_us)
        connected_us = self._connected(copy.sender, copy.receiver, joined_us or held_us, first_us)
        return Request(joined_us, connected_us, *(None if time == NONE else time for time in times))

    def _between(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> list[Part]:
        """Return the parts that were sent at `from_us` or later and arrived at `until_us` or earlier, by their known
        times.
        """
        return [
            part
            for part in self._parts.arrived(sender, receiver, kind)
            if part.last_us <= until_us and (part.sent_us if part.sent_us != NONE else part.arrived_us) >= from_us
        ]

    def _connected(self, sender: int, receiver: int, from_us: int, until_us: int) -> int | None:
        """Return the time of a pair's last new connection after `from_us` and until `until_us`; None without one, or
        if the pair was already connected at `from_us`.
        """
        times, events, peers, remotes = self._links.values()
        mine = (peers == sender) & ((remotes == receiver) | (events == TraceEvent.NODE_DOWN))
        adds = events[mine] == TraceEvent.ADD_PEER
        changes = sorted(zip(times[mine].tolist(), adds.tolist(), strict=True))
        before = [added for time, added in changes if time <= from_us]
        between = [time for time, added in changes if added and from_us < time <= until_us]
        return max(between) if between and not (before and before[-1]) else None
