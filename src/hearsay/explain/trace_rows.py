"""Rows of a trace about chosen nodes, times and links."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import Copy, Fate, History
from hearsay.explain.rows import START_US, ColumnArrays, Ints, Members, select_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

Pair = tuple[int, int]
"""Sender and receiver."""
_DROP_DELAY_US = 100_000
"""Longest time between a receive and its drop at a real node."""


def both_directions(pairs: Collection[Pair]) -> set[Pair]:
    return {pair for one, other in pairs for pair in ((one, other), (other, one))}


def of_pairs(rows: ColumnArrays, pairs: Collection[Pair]) -> Ints:
    """Return which rows have a peer and a remote that are one of the pairs."""
    keys = np.array([one << 32 | other for one, other in pairs], dtype=np.int64)
    return np.isin(rows[Column.PEER].astype(np.int64) << 32 | rows[Column.REMOTE].astype(np.int64), keys)


class RefusedRpcs:
    """RPCs that nodes dropped unread, because their sender was graylisted or gated.

    The row of such a drop has the sender, the time and the reason, but no message. It belongs to the copy that came
    from the same sender at the same time. Real nodes read their clock twice, so a slightly later drop counts too.
    """

    def __init__(self, run: RunFacts, nodes: Collection[int] | Ints, from_us: int, until_us: int) -> None:
        self._delay_us = 0 if run.simulated else _DROP_DELAY_US
        columns = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.MESSAGE,
                   Column.REASON)  # fmt: skip
        wanted = np.asarray(list(nodes), dtype=np.int64)
        rows = select_rows(
            run, "message", columns,
            lambda rows: (rows[Column.EVENT] == TraceEvent.REJECT) & (rows[Column.KIND] == PartKind.PUBLISH)
            & np.isin(rows[Column.PEER], wanted),
            from_us, until_us + self._delay_us, message=NONE,
        )  # fmt: skip
        order = np.lexsort((rows[Column.TIME_US], rows[Column.REMOTE], rows[Column.PEER]))
        self._node, self._remote, self._time_us, self._reason = (
            rows[column][order] for column in (Column.PEER, Column.REMOTE, Column.TIME_US, Column.REASON)
        )

    def reason_of(self, copy: Copy) -> int | None:
        """Return the reason why a copy that arrived was dropped unread; None if it was not."""
        if copy.fate is not Fate.ARRIVED or copy.arrived_us is None:
            return None
        first, end = np.searchsorted(self._node, [copy.receiver, copy.receiver + 1])
        after = self._time_us[first:end] - copy.arrived_us
        found = np.flatnonzero((self._remote[first:end] == copy.sender) & (after >= 0) & (after <= self._delay_us))
        return int(self._reason[first + found[0]]) if len(found) else None


class ScoreSamples:
    """Sampled scores of chosen nodes at their peers."""

    def __init__(self, run: RunFacts, nodes: Collection[int], until_us: int) -> None:
        columns = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.BYTES)
        wanted = np.array(list(nodes), dtype=np.int64)
        rows = select_rows(
            run, "score", columns,
            lambda rows: (rows[Column.EVENT] == TraceEvent.SCORE) & np.isin(rows[Column.REMOTE], wanted),
            START_US, until_us,
        )  # fmt: skip
        order = np.lexsort((rows[Column.TIME_US], rows[Column.PEER], rows[Column.REMOTE]))
        self._peer, self._scored, self._time_us = (
            rows[column][order] for column in (Column.PEER, Column.REMOTE, Column.TIME_US)
        )
        self._score = rows[Column.BYTES][order].view(np.float64)

    def latest(self, peer: int, scored: int, until_us: int) -> float | None:
        """Return the last score that a peer gave by a time, or else the first after it."""
        first, end = np.searchsorted(self._scored, [scored, scored + 1])
        low, high = first + np.searchsorted(self._peer[first:end], [peer, peer + 1])
        if low == high:
            return None
        place = low + int(np.searchsorted(self._time_us[low:high], until_us, side="right")) - 1
        return float(self._score[max(place, low)])


@dataclass(frozen=True, slots=True)
class PartialTraffic:
    """Times at which partial messages of a topic arrived or were lost. Their rows name no message."""

    due: Mapping[Pair, list[int]]
    """Arrivals, those that were lost included."""
    dropped: Mapping[Pair, list[int]]

    def arrived(self, pair: Pair, from_us: int, until_us: int) -> int:
        return _between(self.due.get(pair, ()), from_us, until_us) - self.lost(pair, from_us, until_us)

    def lost(self, pair: Pair, from_us: int, until_us: int) -> int:
        return _between(self.dropped.get(pair, ()), from_us, until_us)


def partial_traffic(
    run: RunFacts, topic: int, pairs: Collection[Pair], from_us: int, until_us: int
) -> PartialTraffic:
    """Return the partial messages between these pairs of a simulated run, in both directions."""
    wanted = both_directions(pairs)
    columns = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.DELAY_US, Column.KIND, Column.TOPIC)
    rows = select_rows(
        run, "rpc", columns,
        lambda rows: (rows[Column.KIND] == PartKind.PARTIAL) & (rows[Column.TOPIC] == topic) & of_pairs(rows, wanted),
        from_us, until_us,
    )  # fmt: skip
    due, dropped = dict[Pair, list[int]](), dict[Pair, list[int]]()
    for time, event, peer, remote, delay in zip(*(rows[column].tolist() for column in columns[:5]), strict=True):
        if event == TraceEvent.SEND_RPC and delay != NONE:
            due.setdefault((peer, remote), []).append(time + delay)
        elif event == TraceEvent.DROP_RPC:
            dropped.setdefault((peer, remote), []).append(time)
    return PartialTraffic(due, dropped)


def last_parts(run: RunFacts, history: History) -> Mapping[int, Copy]:
    """Return the partial message that completed each delivery, by the place of the delivery.

    A delivery names the peer whose part came last. The part is the last one of that peer that arrived by then.
    Deliveries that a copy of the whole message explains are left out.
    """
    deliveries = history.deliveries
    whole = set(zip(history.copies.sender.tolist(), history.copies.receiver.tolist(), strict=True))
    places: dict[Pair, int] = {}
    for place, pair in enumerate(zip(deliveries.remote.tolist(), deliveries.node.tolist(), strict=True)):
        if pair[0] != NONE and pair not in whole:
            places.setdefault(pair, place)
    if not places:
        return {}
    columns = (Column.EVENT, Column.PEER, Column.REMOTE, Column.TIME_US, Column.DELAY_US, Column.BYTES, Column.KIND,
               Column.TOPIC)  # fmt: skip
    rows = select_rows(
        run, "rpc", columns,
        lambda rows: (rows[Column.KIND] == PartKind.PARTIAL) & (rows[Column.TOPIC] == history.topic)
        & of_pairs(rows, places),
        history.start_us(), int(deliveries.time_us.max()),
    )  # fmt: skip
    arrived: dict[int, list[Copy]] = {}
    lost: set[tuple[int, int, int | None]] = set()
    for event, sender, receiver, time_us, delay_us, size in zip(
        *(rows[column].tolist() for column in columns[:6]), strict=True
    ):
        place = places[sender, receiver]
        if event == TraceEvent.DROP_RPC:
            lost.add((sender, receiver, time_us))
        elif event == TraceEvent.SEND_RPC and delay_us != NONE and time_us + delay_us <= deliveries.time_us[place]:
            hops = int(deliveries.hops[place])
            part = Copy(sender, receiver, time_us, time_us + delay_us, Fate.ARRIVED, NONE, hops, size, in_parts=True)
            arrived.setdefault(place, []).append(part)
    found: dict[int, Copy] = {}
    for place, parts in arrived.items():
        kept = [part for part in parts if (part.sender, part.receiver, part.arrived_us) not in lost]
        if kept:
            found[place] = max(kept, key=lambda part: (part.arrived_us or 0, part.sent_us or 0))
    return found


def _between(times: Sequence[int], from_us: int, until_us: int) -> int:
    return sum(from_us <= time <= until_us for time in times)


_LINK_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
LINK_EVENTS = (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER, TraceEvent.NODE_DOWN)
MAX_ROWS = 8_000_000
"""Rows about connections that are kept in memory; the connections of a run with more are not searched."""

_IN = (TraceEvent.GRAFT, TraceEvent.EAGER)
_OF_TREES = (TraceEvent.EAGER, TraceEvent.LAZY)
_OUT = (TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN)


@dataclass(frozen=True, slots=True)
class Connections:
    """Times [since, until) of directed pairs, ordered by the first end."""

    one: Ints
    other: Ints
    since_us: Ints
    until_us: Ints

    @classmethod
    def none(cls) -> Connections:
        nothing: Ints = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, nothing)

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.one, self.other, self.since_us, self.until_us

    def of(self, node: int) -> slice:
        """Return the places of the connections of a node."""
        first, end = np.searchsorted(self.one, [node, node + 1])
        return slice(int(first), int(end))

    def select(self, which: Ints) -> Connections:
        return Connections(*(column[which] for column in self.columns))

    def join(self, other: Connections) -> Connections:
        return Connections(*map(np.concatenate, zip(self.columns, other.columns, strict=True)))

    def reversed(self) -> Connections:
        return Connections(self.other, self.one, self.since_us, self.until_us)

    def sorted(self) -> Connections:
        return self.select(np.lexsort((self.since_us, self.other, self.one)))


def connections_until(run: RunFacts, until_us: int) -> Connections:
    """Return all connections until a time. Raise `TooManyRows` if there are too many to keep in memory.

    A connection without an end lasts until the end of the run.
    """
    rows = select_rows(
        run, "node", _LINK_COLUMNS, lambda rows: np.isin(rows[Column.EVENT], LINK_EVENTS), until_us=until_us,
        max_rows=MAX_ROWS,
    )  # fmt: skip
    events = rows[Column.EVENT]
    changes = np.isin(events, (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER))
    peer, remote, time = (rows[column][changes] for column in (Column.PEER, Column.REMOTE, Column.TIME_US))
    adds = events[changes] == TraceEvent.ADD_PEER
    order = np.lexsort((adds, time, remote, peer))  # At one microsecond, an end precedes a beginning.
    peer, remote, time, adds = (values[order] for values in (peer, remote, time, adds))
    until = np.full(len(peer), run.end_us + 1, dtype=np.int64)
    same = (peer[1:] == peer[:-1]) & (remote[1:] == remote[:-1])
    until[:-1][same] = time[1:][same]
    downs = events == TraceEvent.NODE_DOWN
    until = np.minimum(until, _next_down(rows, downs, peer, time, run.end_us + 1))
    ends = Connections(peer[adds], remote[adds], time[adds], until[adds])
    both = _at_both_ends(ends)
    if not run.simulated:
        one_sided = ends.select(~np.isin(ends.other, np.unique(ends.one)))
        both = both.join(one_sided).join(one_sided.reversed())
    return both.sorted()


def in_topic(connections: Connections, members: Members, holder: int) -> Connections:
    """Limit connections to the times in which a message of the topic may go from the first end to the second.

    The second end is in the topic, and the first too unless it is `holder`.
    """
    receiving = _limited(connections, connections.other, members)
    own = receiving.one == holder
    rest = receiving.select(~own)
    return receiving.select(own).join(_limited(rest, rest.one, members)).sorted()


class MeshLinks:
    """Changes of mesh or tree links that have a chosen node at an end, ordered by pair and time."""

    def __init__(self, run: RunFacts, topic: int, nodes: Collection[int], until_us: int) -> None:
        wanted = np.array(list(nodes), dtype=np.int64)
        self.any_mesh = False
        """Some node has a mesh of the topic, or eager links."""
        self._in_trees: set[int] = set()

        def keep(rows: ColumnArrays) -> Ints:
            kept = (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (*_IN, *_OUT))
            self.any_mesh = self.any_mesh or bool(kept.any())
            self._in_trees.update(
                np.unique(rows[Column.PEER][kept & np.isin(rows[Column.EVENT], _OF_TREES)]).tolist()
            )
            return kept & (np.isin(rows[Column.PEER], wanted) | np.isin(rows[Column.REMOTE], wanted))

        rows = select_rows(run, "mesh", (*_LINK_COLUMNS, Column.TOPIC), keep, START_US, until_us)
        is_in = np.isin(rows[Column.EVENT], _IN)
        order = np.lexsort((is_in, rows[Column.TIME_US], rows[Column.REMOTE], rows[Column.PEER]))
        self._peer, self._remote, self._time_us = (
            rows[column][order] for column in (Column.PEER, Column.REMOTE, Column.TIME_US)
        )
        self._is_in = is_in[order]

    def has_tree(self, node: int) -> bool:
        """Return whether the links of a node are eager and lazy links of a tree (episub)."""
        return node in self._in_trees

    def holds(self, peer: int, remote: int, at_us: int, connected_us: int = 0) -> bool:
        """Return whether a peer had a remote in its mesh at a time.

        Changes before `connected_us` do not count: a node that goes down traces no change of its mesh.
        """
        first, end = np.searchsorted(self._peer, [peer, peer + 1])
        low, high = first + np.searchsorted(self._remote[first:end], [remote, remote + 1])
        place = low + int(np.searchsorted(self._time_us[low:high], at_us, side="right")) - 1
        return bool(place >= low and self._is_in[place] and self._time_us[place] >= connected_us)


def _next_down(rows: ColumnArrays, downs: Ints, peer: Ints, since: Ints, never: int) -> Ints:
    """Return when each peer goes down next after a time; `never` if it does not."""
    nodes, times = rows[Column.PEER][downs], rows[Column.TIME_US][downs]
    if not len(nodes):
        return np.full(len(peer), never, dtype=np.int64)
    steps, at = np.unique(np.concatenate((times, since)), return_inverse=True)
    width = len(steps) + 1
    down = nodes * width + at[: len(times)]
    order = np.argsort(down)
    place = np.searchsorted(down[order], peer * width + at[len(times) :], side="right")
    found = order[np.minimum(place, len(order) - 1)]
    return np.where((place < len(order)) & (nodes[found] == peer), times[found], never)


def _at_both_ends(ends: Connections) -> Connections:
    """Return the times in which both ends have the connection, in both directions."""
    forth, back = ends.select(ends.one < ends.other), ends.select(ends.one > ends.other).reversed()
    here, there = _pairs_of_equal(forth.one << 32 | forth.other, back.one << 32 | back.other)
    both = _overlap(forth.select(here), back.since_us[there], back.until_us[there])
    return both.join(both.reversed())


def _limited(connections: Connections, nodes: Ints, members: Members) -> Connections:
    here, there = _pairs_of_equal(nodes, members.node.astype(np.int64))
    return _overlap(connections.select(here), members.since_us[there], members.until_us[there])


def _overlap(connections: Connections, since_us: Ints, until_us: Ints) -> Connections:
    since = np.maximum(connections.since_us, since_us)
    until = np.minimum(connections.until_us, until_us)
    return Connections(connections.one, connections.other, since, until).select(since < until)


def _pairs_of_equal(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the places of all pairs of equal values."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - first
    ends = np.cumsum(counts)
    places = np.repeat(first - (ends - counts), counts) + np.arange(int(counts.sum()))
    return np.repeat(np.arange(len(left)), counts), order[places]
