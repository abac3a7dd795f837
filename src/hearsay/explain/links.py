"""Connections, mesh links and scores between nodes over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hearsay.explain.rows import ColumnArrays, Ints, Members, PairEvents, indexes_of, select_rows
from hearsay.pipeline.run_facts import RunFacts
from hearsay.trace.language.schema import Column, TraceEvent

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
LINK_EVENTS = (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER, TraceEvent.NODE_DOWN)
MAX_ROWS = 8_000_000
"""Maximum rows about connections that are read into memory. With more rows, connections are not searched."""

_IN = (TraceEvent.GRAFT, TraceEvent.EAGER)
_OF_TREES = (TraceEvent.EAGER, TraceEvent.LAZY)
_OUT = (TraceEvent.PRUNE, TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN)


class Connections(NamedTuple):
    """Intervals [since, until) in which directed pairs of nodes (`one`, `other`) are connected, as columns."""

    one: Ints
    other: Ints
    since_us: Ints
    until_us: Ints

    def of(self, node: int) -> list[tuple[int, int, int]]:
        """Return `other`, `since_us` and `until_us` of each connection whose `one` is the node. The connections must
        be sorted.
        """
        there = indexes_of(self.one, node)
        return list(zip(*(column[there].tolist() for column in self[1:]), strict=True))

    def select(self, which: Ints) -> Connections:
        return Connections(*(column[which] for column in self))

    def join(self, other: Connections) -> Connections:
        return Connections(*map(np.concatenate, zip(self, other, strict=True)))

    def reversed(self) -> Connections:
        return self._replace(one=self.other, other=self.one)

    def sorted(self) -> Connections:
        """Return the connections sorted by `one`, `other` and `since_us`."""
        return self.select(np.lexsort((self.since_us, self.other, self.one)))


def connections_until(run: RunFacts, until_us: int) -> Connections:
    """Return the connections that began at `until_us` or earlier, in both directions and sorted.

    A pair is connected while both nodes trace the connection. In a run of real nodes, one node suffices if the other
    node traced no connection. Later rows than `until_us` are not read: a connection whose end is not in the rows
    lasts beyond the end of the run. Raise `TooManyRows` if there are more than `MAX_ROWS` rows.
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
    # In the same microsecond, the end of a connection comes before a beginning.
    peer, remote, time, adds = PairEvents.sorted(peer, remote, time, adds)
    until = np.full_like(peer, run.end_us + 1)
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
    """Return the intervals of connections in which `one` may send a message of a topic to `other`, sorted.

    In these intervals `other` is a member of the topic (`members`), and `one` is a member or the node `holder`.
    """
    receiving = _limited(connections, connections.other, members)
    own = receiving.one == holder
    rest = receiving.select(~own)
    return receiving.select(own).join(_limited(rest, rest.one, members)).sorted()


def _at_both_ends(ends: Connections) -> Connections:
    """Return the intervals in which both nodes of a pair traced a connection, each in both directions.

    In `ends`, a connection has the direction from the node that traced it to the other node.
    """
    forth, back = ends.select(ends.one < ends.other), ends.select(ends.one > ends.other).reversed()
    here, there = _pairs_of_equal(forth.one << 32 | forth.other, back.one << 32 | back.other)
    both = _overlap(forth.select(here), back.since_us[there], back.until_us[there])
    return both.join(both.reversed())


def _limited(connections: Connections, nodes: Ints, members: Members) -> Connections:
    """Limit each connection to the intervals in which one of its nodes is a member; `nodes` has this node of each."""
    here, there = _pairs_of_equal(nodes, members.node)
    return _overlap(connections.select(here), members.since_us[there], members.until_us[there])


def _overlap(connections: Connections, since_us: Ints, until_us: Ints) -> Connections:
    since = np.maximum(connections.since_us, since_us)
    until = np.minimum(connections.until_us, until_us)
    return Connections(connections.one, connections.other, since, until).select(since < until)


def _pairs_of_equal(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Find all pairs of equal values. Return the indexes in `left`, and the indexes in `right`."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - first
    ends = np.cumsum(counts)
    places = np.repeat(first - (ends - counts), counts) + np.arange(int(counts.sum()))
    return np.repeat(np.arange(len(left)), counts), order[places]


class MeshLinks:
    """The changes of mesh links, and of eager and lazy links of episub, between chosen nodes and their peers."""

    def __init__(self, run: RunFacts, topic: int, nodes: Sequence[int], until_us: int) -> None:
        self.any_mesh = False
        """True if the rows until `until_us` have a change of any mesh, eager or lazy link of the topic."""
        self._in_trees: set[int] = set()

        def keep(rows: ColumnArrays) -> Ints:
            kept = (rows[Column.TOPIC] == topic) & np.isin(rows[Column.EVENT], (*_IN, *_OUT))
            self.any_mesh = self.any_mesh or bool(kept.any())
            self._in_trees.update(rows[Column.PEER][kept & np.isin(rows[Column.EVENT], _OF_TREES)].tolist())
            return kept & (np.isin(rows[Column.PEER], nodes) | np.isin(rows[Column.REMOTE], nodes))

        rows = select_rows(run, "mesh", (*_COLUMNS, Column.TOPIC), keep, until_us=until_us)
        self._changes = PairEvents.sorted(
            rows[Column.PEER], rows[Column.REMOTE], rows[Column.TIME_US], np.isin(rows[Column.EVENT], _IN)
        )

    def has_tree(self, node: int) -> bool:
        """Return True if a node traced eager or lazy links, so that its links are those of a tree (episub)."""
        return node in self._in_trees

    def holds(self, peer: int, remote: int, at_us: int, connected_us: int = 0) -> bool:
        """Return True if `peer` had `remote` in its mesh, or had an eager link to `remote`, at `at_us`.

        Changes before `connected_us`, the beginning of the connection, are ignored: a node that goes down does not
        trace the end of its links.
        """
        there = self._changes.between(peer, remote)
        times = self._changes.time_us[there]
        place = int(np.searchsorted(times, at_us, side="right")) - 1
        return place >= 0 and bool(self._changes.value[there][place]) and bool(times[place] >= connected_us)


class ScoreSamples:
    """Samples of the scores that peers gave to chosen nodes."""

    def __init__(self, run: RunFacts, nodes: Sequence[int], until_us: int) -> None:
        rows = select_rows(
            run, "score", (*_COLUMNS, Column.BYTES),
            lambda rows: (rows[Column.EVENT] == TraceEvent.SCORE) & np.isin(rows[Column.REMOTE], nodes),
            until_us=until_us,
        )  # fmt: skip
        self._samples = PairEvents.sorted(
            rows[Column.REMOTE], rows[Column.PEER], rows[Column.TIME_US], rows[Column.BYTES]
        )

    def latest(self, peer: int, scored: int, until_us: int) -> float | None:
        """Return the last score that `peer` gave to `scored` at `until_us` or earlier; without one, the first later
        score. Return None if `peer` never scored `scored`.
        """
        there = self._samples.between(scored, peer)
        scores = self._samples.value[there].view(np.float64)
        place = int(np.searchsorted(self._samples.time_us[there], until_us, side="right")) - 1
        return float(scores[max(place, 0)]) if len(scores) else None
