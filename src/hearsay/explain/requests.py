"""Announcements and requests that led to a copy: IHAVE and IWANT, in episub IHAVE and GRAFT.

Rules:

* Their rows name no messages, so times decide. An IWANT is answered at once: it is the last one that had reached the
  sender when the copy was sent. Its IHAVE is the last one that had reached the receiver when it asked. In episub,
  where receivers wait before they ask, it is the first IHAVE since the sender had the message, and the last GRAFT.
* A part that was dropped led to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import Copy
from hearsay.explain.rows import START_US, Members, select_rows
from hearsay.explain.trace_rows import LINK_EVENTS, Pair, both_directions, of_pairs
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

ON_REQUEST = (Via.IWANT, Via.LAZY)
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.DELAY_US)
_KINDS = (PartKind.IHAVE, PartKind.IWANT, PartKind.GRAFT)

_Key = tuple[int, int, int]
"""Sender, receiver, kind of part."""
_Times = tuple[int, int]
"""Times of sending and arrival; `NONE` if unknown."""


@dataclass(frozen=True, slots=True)
class Request:
    """The events that led to a copy; None if the trace does not show them."""

    joined_us: int | None
    """When the receiver joined the topic, if the sender had the message before."""
    connected_us: int | None
    """When the two were connected, if the sender had the message before."""
    announced_us: int | None
    received_us: int | None
    asked_us: int | None
    reached_us: int | None


@dataclass
class Requests:
    """Announcements and requests by sender, receiver and kind, in order of time."""

    members: Members
    """Members of the message's topic."""
    sent: dict[_Key, list[_Times]] = field(default_factory=dict[_Key, list[_Times]])
    received: dict[_Key, list[int]] = field(default_factory=dict[_Key, list[int]])
    dropped: dict[_Key, list[int]] = field(default_factory=dict[_Key, list[int]])
    links: Mapping[Pair, list[tuple[int, bool]]] = field(default_factory=dict[Pair, list[tuple[int, bool]]])
    """Times at which the first of a pair got (True) or lost the connection with the second."""

    def before(self, copy: Copy, held_us: int) -> Request | None:
        """Return what led to a copy; None if it was not requested, or if the trace does not show the request."""
        if copy.via not in ON_REQUEST or copy.sent_us is None:
            return None
        is_gossip = copy.via == Via.IWANT
        asked = self._parts(copy.receiver, copy.sender, PartKind.IWANT if is_gossip else PartKind.GRAFT,
                            held_us, copy.sent_us)  # fmt: skip
        if not asked:
            return None
        asked_us, reached_us = asked[-1]
        announcements = self._parts(copy.sender, copy.receiver, PartKind.IHAVE, held_us,
                            copy.sent_us if asked_us == NONE else asked_us)  # fmt: skip
        announced_us, received_us = NONE, NONE
        if announcements:
            announced_us, received_us = announcements[-1 if is_gossip else 0]
        times = (announced_us, received_us, asked_us, reached_us)
        first_us = next((time for time in times if time != NONE), held_us)
        joined_us = self._joined(copy.receiver, held_us, first_us)
        connected_us = self._connected((copy.sender, copy.receiver), joined_us or held_us, first_us)
        return Request(joined_us, connected_us, *(None if time == NONE else time for time in times))

    def lost(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """Return how many parts that would have arrived between two times were lost."""
        return sum(from_us <= time <= until_us for time in self.dropped.get((sender, receiver, kind), ()))

    def _joined(self, node: int, from_us: int, until_us: int) -> int | None:
        since = self.members.since_us[self.members.node == node]
        between = since[(since > from_us) & (since <= until_us)]
        return int(between.max()) if len(between) else None

    def _connected(self, pair: Pair, from_us: int, until_us: int) -> int | None:
        """Return the last connection of a pair between two times, if it was not connected before."""
        changes = self.links.get(pair, [])
        before = [added for time, added in changes if time <= from_us]
        between = [time for time, added in changes if added and from_us < time <= until_us]
        return max(between) if between and not (before and before[-1]) else None

    def _parts(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> list[_Times]:
        """Return the parts that were sent since a time and had arrived by another, as far as is known."""
        return [
            times
            for times in self._arrived((sender, receiver, kind))
            if max(times) <= until_us and (times[0] if times[0] != NONE else times[1]) >= from_us
        ]

    def _arrived(self, key: _Key) -> list[_Times]:
        sent = sorted(self.sent.get(key, []))
        for time in self.dropped.get(key, []):
            lost = next((times for times in sent if times[1] == time), None)
            if lost is not None:
                sent.remove(lost)
        received = sorted(self.received.get(key, []))
        if not received:
            return sorted(sent, key=max)
        if len(sent) == len(received):
            return [(times[0], time) for times, time in zip(sent, received, strict=True)]
        return [(NONE, time) for time in received]


def requests_between(
    run: RunFacts, pairs: Collection[Pair], members: Members, from_us: int, until_us: int
) -> Requests:
    """Return announcements and requests of these pairs, in both directions."""
    found = Requests(members)
    if not pairs:
        return found
    wanted = both_directions(pairs)
    rows = select_rows(
        run, "rpc", _COLUMNS, lambda rows: np.isin(rows[Column.KIND], _KINDS) & of_pairs(rows, wanted),
        from_us, until_us,
    )  # fmt: skip
    for time, event, kind, peer, remote, delay in zip(*(rows[column].tolist() for column in _COLUMNS), strict=True):
        if event == TraceEvent.SEND_RPC:
            times = (time, NONE if delay == NONE else time + delay)
            found.sent.setdefault((peer, remote, kind), []).append(times)
        elif event == TraceEvent.RECV_RPC:
            found.received.setdefault((remote, peer, kind), []).append(time)
        elif event == TraceEvent.DROP_RPC:
            found.dropped.setdefault((peer, remote, kind), []).append(time)
    found.links = _link_changes(run, wanted, until_us)
    return found


def _link_changes(run: RunFacts, pairs: set[Pair], until_us: int) -> dict[Pair, list[tuple[int, bool]]]:
    columns = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
    remotes: dict[int, list[int]] = {}
    for peer, remote in pairs:
        remotes.setdefault(peer, []).append(remote)
    ends = list(remotes)
    rows = select_rows(
        run, "node", columns,
        lambda rows: np.isin(rows[Column.EVENT], LINK_EVENTS) & np.isin(rows[Column.PEER], ends),
        START_US, until_us,
    )  # fmt: skip
    found: dict[Pair, list[tuple[int, bool]]] = {}
    for time, event, peer, remote in zip(*(rows[column].tolist() for column in columns), strict=True):
        for other in remotes[peer] if event == TraceEvent.NODE_DOWN else [remote]:
            if (peer, other) in pairs:
                found.setdefault((peer, other), []).append((time, event == TraceEvent.ADD_PEER))
    return {pair: sorted(changes) for pair, changes in found.items()}
