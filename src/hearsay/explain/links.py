"""Connections, mesh links and scores between nodes over time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hearsay.explain.rows import ColumnArrays, Ints, Members, PairEvents, indexes_of, select_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.schema import Column, TraceEvent

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
LINK_EVENTS = (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER, TraceEvent.NODE_DOWN)
MAX_ROWS = 8_000_000
"""Rows about connections that are kept in memory; the connections of a run with more are not searched."""

_IN = (TraceEvent.GRAFT, TraceEvent.EAGER)
_OF_TREES = (TraceEvent.EAGER, TraceEvent.LAZY)
_OUT = (TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN)


@dataclass(frozen=True, slots=True)
class Connections:
    """Intervals [since, until) in which directed pairs of nodes (`one`, `other`) are connected, ordered by `one`."""

    one: Ints
    other: Ints
    since_us: Ints
    until_us: Ints

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.one, self.other, self.since_us, self.until_us

    def of(self, node: int) -> list[tuple[int, int, int]]:
        """Return the other node, the beginning and the end of each connection of a node."""
        there = indexes_of(self.one, node)
        return list(zip(*(column[there].tolist() for column in self.columns[1:]), strict=True))

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
        run, "node", _COLUMNS, lambda rows: np.isin(rows[Column.EVENT], LINK_EVENTS), until_us=until_us,
        max_rows=MAX_ROWS,
    )  # fmt: skip
    is_down = rows[Column.EVENT] == TraceEvent.NODE_DOWN
    peer, remote, time, adds = (
        values[~is_down]
        for values in (*(rows[column] for column in (Column.PEER, Column.REMOTE, Column.TIME_US)),
                       rows[Column.EVENT] == TraceEvent.ADD_PEER)
    )  # fmt: skip
    changes = PairEvents.sorted(peer, remote, time, adds)  # In the same microsecond, an end precedes a beginning.
    peer, remote, time, adds = changes.node, changes.other, changes.time_us, changes.value
    until = np.full(len(peer), run.end_us + 1, dtype=np.int64)
    same = (peer[1:] == peer[:-1]) & (remote[1:] == remote[:-1])
    until[:-1][same] = time[1:][same]
    in_order = np.lexsort((rows[Column.TIME_US][is_down], rows[Column.PEER][is_down]))
    down, down_us = (rows[column][is_down][in_order] for column in (Column.PEER, Column.TIME_US))
    for node in np.unique(down).tolist():
        downs, there = down_us[indexes_of(down, node)], indexes_of(peer, node)
        next_down = np.append(downs, run.end_us + 1)[np.searchsorted(downs, time[there], side="right")]
        until[there] = np.minimum(until[there], next_down)
    ends = Connections(peer, remote, time, until).select(adds)
    both = _at_both_ends(ends)
    if not run.simulated:
        one_sided = ends.select(~np.isin(ends.other, np.unique(ends.one)))
        both = both.join(one_sided).join(one_sided.reversed())
    return both.sorted()


def in_topic(connections: Connections, members: Members, holder: int) -> Connections:
    """Limit connections to the times in which `one` may send a message of the topic to `other`.

    In these times `other` is in the topic, and so is `one` unless it is `holder`.
    """
    receiving = _limited(connections, connections.other, members)
    own = receiving.one == holder
    rest = receiving.select(~own)
    return receiving.select(own).join(_limited(rest, rest.one, members)).sorted()


def _at_both_ends(ends: Connections) -> Connections:
    """Limit connections to the times in which both nodes have them; return them in both directions."""
    forth, back = ends.select(ends.one < ends.other), ends.select(ends.one > ends.other).reversed()
    here, there = _pairs_of_equal(forth.one << 32 | forth.other, back.one << 32 | back.other)
    both = _overlap(forth.select(here), back.since_us[there], back.until_us[there])
    return both.join(both.reversed())


def _limited(connections: Connections, nodes: Ints, members: Members) -> Connections:
    here, there = _pairs_of_equal(nodes, members.node)
    return _overlap(connections.select(here), members.since_us[there], members.until_us[there])


def _overlap(connections: Connections, since_us: Ints, until_us: Ints) -> Connections:
    since = np.maximum(connections.since_us, since_us)
    until = np.minimum(connections.until_us, until_us)
    return Connections(connections.one, connections.other, since, until).select(since < until)


def _pairs_of_equal(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the indexes on the left and on the right of all pairs of equal values."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - first
    ends = np.cumsum(counts)
    places = np.repeat(first - (ends - counts), counts) + np.arange(int(counts.sum()))
    return np.repeat(np.arange(len(left)), counts), order[places]


class MeshLinks:
    """Changes of mesh or tree links that have a chosen node at an end."""

    def __init__(self, run: RunFacts, topic: int, nodes: Collection[int], until_us: int) -> None:
        wanted = list(nodes)
        self.any_mesh = False
        """True if some node has a mesh of the topic, or eager links."""
        self._in_trees: set[int] = set()

        def keep(rows: ColumnArrays) -> Ints:
            kept = (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (*_IN, *_OUT))
            self.any_mesh = self.any_mesh or bool(kept.any())
            self._in_trees.update(rows[Column.PEER][kept & np.isin(rows[Column.EVENT], _OF_TREES)].tolist())
            return kept & (np.isin(rows[Column.PEER], wanted) | np.isin(rows[Column.REMOTE], wanted))

        rows = select_rows(run, "mesh", (*_COLUMNS, Column.TOPIC), keep, until_us=until_us)
        self._changes = PairEvents.sorted(
            rows[Column.PEER], rows[Column.REMOTE], rows[Column.TIME_US], np.isin(rows[Column.EVENT], _IN)
        )

    def has_tree(self, node: int) -> bool:
        """Return whether the links of a node are eager and lazy links of a tree (episub)."""
        return node in self._in_trees

    def holds(self, peer: int, remote: int, at_us: int, connected_us: int = 0) -> bool:
        """Return whether `peer` had `remote` in its mesh, or as an eager link, at a time.

        Changes before `connected_us` do not count: a node that goes down traces no change of its mesh.
        """
        there = self._changes.between(peer, remote)
        times = self._changes.time_us[there]
        place = int(np.searchsorted(times, at_us, side="right")) - 1
        return place >= 0 and bool(self._changes.value[there][place]) and bool(times[place] >= connected_us)


class ScoreSamples:
    """Sampled scores that peers gave to chosen nodes."""

    def __init__(self, run: RunFacts, nodes: Collection[int], until_us: int) -> None:
        wanted = list(nodes)
        rows = select_rows(
            run, "score", (*_COLUMNS, Column.BYTES),
            lambda rows: (rows[Column.EVENT] == TraceEvent.SCORE) & np.isin(rows[Column.REMOTE], wanted),
            until_us=until_us,
        )  # fmt: skip
        self._samples = PairEvents.sorted(
            rows[Column.REMOTE], rows[Column.PEER], rows[Column.TIME_US], rows[Column.BYTES]
        )

    def latest(self, peer: int, scored: int, until_us: int) -> float | None:
        """Return the last score that a peer gave until `until_us`, else the first one later; None without any."""
        there = self._samples.between(scored, peer)
        scores = self._samples.value[there].view(np.float64)
        place = int(np.searchsorted(self._samples.time_us[there], until_us, side="right")) - 1
        return float(scores[max(place, 0)]) if len(scores) else None
