"""Announcements and requests that led to a copy: IHAVE and IWANT, and episub's IHAVE and GRAFT, of chosen pairs.

Rules:

* Rows of them name no ids, so which of them led to a copy follows from times. An IWANT is answered at once: it is the
  last one that had reached the sender when the copy went, and the IHAVE the last that had reached the asker when it
  asked. In episub, whose askers wait, it is the first IHAVE since the sender had the message, and the last GRAFT.
* A part that was dropped led to nothing.
* Only rows of the time of interest are read, and of them those of the pairs are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.books import Copy
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import rows_between
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.trace.language.schema import NONE, Column, TraceEvent

ON_REQUEST = (Via.IWANT, Via.LAZY)
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.DELAY_US)
_KINDS = (PartKind.IHAVE, PartKind.IWANT, PartKind.GRAFT)

_LINK_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
_LINK_EVENTS = (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER, TraceEvent.NODE_DOWN)

Way = tuple[int, int]
"""When a part was sent and when it arrived; `NONE` where nobody says."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What led to a copy; None where the trace does not tell."""

    came_us: int | None
    """When the asker came to the topic, if the other end had the message before that."""
    connected_us: int | None
    """When the other end was connected with the asker, if it had the message before that."""
    announced_us: int | None
    heard_us: int | None
    asked_us: int | None
    reached_us: int | None


class Announcements:
    """By (sender, receiver, kind), in the order of time."""

    def __init__(
        self,
        ways: Mapping[tuple[int, int, int], list[Way]],
        dropped: Mapping[tuple[int, int, int], list[int]],
        members: Members,
        links: Mapping[tuple[int, int], list[tuple[int, bool]]],
    ) -> None:
        self._ways = ways
        self._dropped = dropped
        self._members = members
        self._links = links

    def before(self, copy: Copy, held_us: int) -> Asked | None:
        """What led to a copy that somebody asked for; None for others, and if the trace does not tell."""
        if copy.via not in ON_REQUEST or copy.sent_us is None:
            return None
        request = PartKind.IWANT if copy.via == Via.IWANT else PartKind.GRAFT
        asked = self._last(copy.receiver, copy.sender, request, copy.sent_us, held_us)
        if asked is None:
            return None
        asked_us, reached_us = asked
        until_us = copy.sent_us if asked_us == NONE else asked_us
        if copy.via == Via.IWANT:
            told = self._last(copy.sender, copy.receiver, PartKind.IHAVE, until_us, held_us)
        else:
            told = self._first(copy.sender, copy.receiver, PartKind.IHAVE, until_us, held_us)
        announced_us, heard_us = told or (NONE, NONE)
        times = (announced_us, heard_us, asked_us, reached_us)
        first_us = next((time for time in times if time != NONE), held_us)
        came_us = self._came(copy.receiver, held_us, first_us)
        connected_us = self._connected(copy.sender, copy.receiver, held_us if came_us is None else came_us, first_us)
        return Asked(came_us, connected_us, *(None if time == NONE else time for time in times))

    def _came(self, node: int, from_us: int, until_us: int) -> int | None:
        """When a node last came to the topic between two times, if it did."""
        since = self._members.since_us[self._members.node == node]
        between = since[(since > from_us) & (since <= until_us)]
        return int(between.max()) if len(between) else None

    def _connected(self, node: int, other: int, from_us: int, until_us: int) -> int | None:
        """When a node was last connected with another between two times, if it was not before."""
        changes = self._links.get((node, other), [])
        before = [added for time, added in changes if time <= from_us]
        between = [time for time, added in changes if added and from_us < time <= until_us]
        return max(between) if between and not (before and before[-1]) else None

    def lost(self, sender: int, receiver: int, kind: PartKind, from_us: int, until_us: int) -> int:
        """How many parts of a kind that would have arrived between two times did not."""
        return sum(from_us <= time <= until_us for time in self._dropped.get((sender, receiver, kind), ()))

    def _last(self, sender: int, receiver: int, kind: PartKind, until_us: int, from_us: int) -> Way | None:
        there = self._there(sender, receiver, kind, until_us, from_us)
        return there[-1] if there else None

    def _first(self, sender: int, receiver: int, kind: PartKind, until_us: int, from_us: int) -> Way | None:
        there = self._there(sender, receiver, kind, until_us, from_us)
        return there[0] if there else None

    def _there(self, sender: int, receiver: int, kind: PartKind, until_us: int, from_us: int) -> list[Way]:
        """Those sent since a time that had arrived by another, as far as is told."""
        return [
            way
            for way in self._ways.get((sender, receiver, kind), ())
            if max(way) <= until_us and (way[0] if way[0] != NONE else way[1]) >= from_us
        ]


def announcements_between(
    run: RunFacts, pairs: Collection[tuple[int, int]], members: Members, from_us: int, until_us: int
) -> Announcements:
    """Those between these pairs, in either direction; `members` are those of the message's topic."""
    if not pairs:
        return Announcements({}, {}, members, {})
    both = {pair for one, other in pairs for pair in ((one, other), (other, one))}
    ends = np.array(sorted({end for pair in both for end in pair}), dtype=np.int64)
    sent: dict[tuple[int, int, int], list[Way]] = {}
    received: dict[tuple[int, int, int], list[int]] = {}
    dropped: dict[tuple[int, int, int], list[int]] = {}
    for file in run.files("rpc"):
        if file.min_time_us > until_us or file.max_time_us < from_us:
            continue
        for rows in rows_between(str(run.path / file.name), from_us, until_us, _COLUMNS):
            mine = np.isin(rows[Column.KIND], _KINDS)
            mine &= np.isin(rows[Column.PEER], ends) & np.isin(rows[Column.REMOTE], ends)
            for time, event, kind, peer, remote, delay in zip(
                *(rows[column][mine].tolist() for column in _COLUMNS), strict=True
            ):
                if (peer, remote) not in both:
                    continue
                if event == TraceEvent.SEND_RPC:
                    way = (time, NONE if delay == NONE else time + delay)
                    sent.setdefault((peer, remote, kind), []).append(way)
                elif event == TraceEvent.RECV_RPC:
                    received.setdefault((remote, peer, kind), []).append(time)
                elif event == TraceEvent.DROP_RPC:
                    dropped.setdefault((peer, remote, kind), []).append(time)
    ways = {key: _ways(key, sent, received, dropped) for key in sent.keys() | received.keys()}
    return Announcements(ways, dropped, members, _links(run, both, until_us))


def _links(
    run: RunFacts, pairs: Collection[tuple[int, int]], until_us: int
) -> Mapping[tuple[int, int], list[tuple[int, bool]]]:
    """When the first of a pair got the connection with the second, and when it lost it, in the order of time."""
    firsts: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        firsts.setdefault(pair[0], []).append(pair)
    found: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    for file in run.files("node"):
        if file.min_time_us > until_us:
            continue
        for rows in rows_between(str(run.path / file.name), file.min_time_us, until_us, _LINK_COLUMNS):
            mine = np.isin(rows[Column.EVENT], _LINK_EVENTS) & np.isin(rows[Column.PEER], list(firsts))
            for time, event, peer, remote in zip(
                *(rows[column][mine].tolist() for column in _LINK_COLUMNS), strict=True
            ):
                changed = firsts[peer] if event == TraceEvent.NODE_DOWN else [(peer, remote)]
                for pair in changed:
                    if pair in pairs:
                        found.setdefault(pair, []).append((time, event == TraceEvent.ADD_PEER))
    return {pair: sorted(changes) for pair, changes in found.items()}


def _ways(
    key: tuple[int, int, int],
    sent: Mapping[tuple[int, int, int], list[Way]],
    received: Mapping[tuple[int, int, int], list[int]],
    dropped: Mapping[tuple[int, int, int], list[int]],
) -> list[Way]:
    left = sorted(sent.get(key, []))
    for time in dropped.get(key, []):
        gone = next((way for way in left if way[1] == time), None)
        if gone is not None:
            left.remove(gone)
    came = sorted(received.get(key, []))
    if not came:
        return sorted(left, key=max)
    if len(left) == len(came):
        return [(way[0], time) for way, time in zip(left, came, strict=True)]
    return [(NONE, time) for time in came]
