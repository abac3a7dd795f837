"""Which nodes were connected, and both in the topic, from when to when.

Rules:

* A connection is there while both ends have it: from ADD_PEER until REMOVE_PEER, or until the end goes down.
* Real nodes tell of their own ends; a connection of which one end alone is traced counts by that end.
* Rows after the time of interest are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, Ints, rows_between
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.trace.language.columns import DTYPES
from hearsay.trace.language.schema import Column, TraceEvent

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)
_EVENTS = (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER, TraceEvent.NODE_DOWN)
MOST_ROWS = 8_000_000
"""Rows of connections that are held in memory; a run with more is not searched."""


class TooManyConnections(ValueError):
    """More rows of connections than are held in memory."""


@dataclass(frozen=True, slots=True)
class Connections:
    """Times [since, until) of directed pairs, in the order of the first end."""

    one: Ints
    other: Ints
    since_us: Ints
    until_us: Ints

    def of(self, node: int) -> slice:
        first, end = np.searchsorted(self.one, [node, node + 1])
        return slice(int(first), int(end))

    def chosen(self, which: Ints) -> Connections:
        return Connections(self.one[which], self.other[which], self.since_us[which], self.until_us[which])


def connections_until(run: RunFacts, until_us: int) -> Connections:
    """All until a time; what lasts longer ends with the run. Raises `TooManyConnections`."""
    rows = _rows(run, until_us)
    events = rows[Column.EVENT]
    changes = np.isin(events, (TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER))
    peer, remote, time = (
        rows[column][changes].astype(np.int64) for column in (Column.PEER, Column.REMOTE, Column.TIME_US)
    )
    adds = events[changes] == TraceEvent.ADD_PEER
    order = np.lexsort((adds, time, remote, peer))  # what ends at a microsecond comes before what begins
    peer, remote, time, adds = (values[order] for values in (peer, remote, time, adds))
    until = np.full(len(peer), run.end_us + 1, dtype=np.int64)
    same = (peer[1:] == peer[:-1]) & (remote[1:] == remote[:-1])
    until[:-1][same] = time[1:][same]
    downs = events == TraceEvent.NODE_DOWN
    until = np.minimum(until, _next(rows[Column.PEER][downs], rows[Column.TIME_US][downs], peer, time, run))
    ends = Connections(peer[adds], remote[adds], time[adds], until[adds])
    both = _of_both_ends(ends)
    if not run.simulated:
        traced = np.unique(ends.one)
        both = _joined(both, _one_sided(ends, traced))
    order = np.lexsort((both.since_us, both.other, both.one))
    return both.chosen(order)


def in_topic(connections: Connections, members: Members, holder: int) -> Connections:
    """Cut to the times in which the second end is in the topic, and the first too unless it is `holder`: from one end
    to the other, a message of the topic may go."""
    receiving = _cut(connections, connections.other, members)
    mine = receiving.one == holder
    rest = receiving.chosen(~mine)
    both = _joined(receiving.chosen(mine), _cut(rest, rest.one, members))
    return both.chosen(np.lexsort((both.since_us, both.other, both.one)))


def _rows(run: RunFacts, until_us: int) -> ColumnArrays:
    pieces: list[ColumnArrays] = [{column: np.empty(0, dtype=DTYPES[column]) for column in _COLUMNS}]
    count = 0
    for file in run.files("node"):
        if file.min_time_us > until_us:
            continue
        for rows in rows_between(str(run.path / file.name), file.min_time_us, until_us, _COLUMNS):
            mine = np.isin(rows[Column.EVENT], _EVENTS)
            pieces.append({column: values[mine] for column, values in rows.items()})
            count += len(pieces[-1][Column.PEER])
            if count > MOST_ROWS:
                raise TooManyConnections
    return {column: np.concatenate([piece[column] for piece in pieces]) for column in _COLUMNS}


def _next(nodes: Ints, times: Ints, peer: Ints, since: Ints, run: RunFacts) -> Ints:
    """When each peer goes down next after a time; after the end of the run if it does not."""
    never = run.end_us + 1
    if not len(nodes):
        return np.full(len(peer), never, dtype=np.int64)
    steps, at = np.unique(np.concatenate((times, since)), return_inverse=True)
    width = len(steps) + 1
    down = nodes.astype(np.int64) * width + at[: len(times)]
    order = np.argsort(down)
    place = np.searchsorted(down[order], peer * width + at[len(times) :], side="right")
    found = order[np.minimum(place, len(order) - 1)]
    return np.where((place < len(order)) & (nodes[found] == peer), times[found], never)


def _of_both_ends(ends: Connections) -> Connections:
    """The times in which both ends have the connection, in both directions."""
    forth = ends.chosen(ends.one < ends.other)
    back = ends.chosen(ends.one > ends.other)
    here, there = _pairs_of_equal(_key(forth.one, forth.other, ends), _key(back.other, back.one, ends))
    since = np.maximum(forth.since_us[here], back.since_us[there])
    until = np.minimum(forth.until_us[here], back.until_us[there])
    kept = since < until
    one, other, since, until = forth.one[here][kept], forth.other[here][kept], since[kept], until[kept]
    return Connections(
        *(np.concatenate(both) for both in ((one, other), (other, one), (since, since), (until, until)))
    )


def _one_sided(ends: Connections, traced: Ints) -> Connections:
    alone = ends.chosen(~np.isin(ends.other, traced))
    return Connections(
        np.concatenate((alone.one, alone.other)),
        np.concatenate((alone.other, alone.one)),
        np.concatenate((alone.since_us, alone.since_us)),
        np.concatenate((alone.until_us, alone.until_us)),
    )


def _cut(connections: Connections, nodes: Ints, members: Members) -> Connections:
    here, there = _pairs_of_equal(nodes, members.node.astype(np.int64))
    since = np.maximum(connections.since_us[here], members.since_us[there])
    until = np.minimum(connections.until_us[here], members.until_us[there])
    kept = since < until
    return Connections(connections.one[here][kept], connections.other[here][kept], since[kept], until[kept])


def _joined(one: Connections, other: Connections) -> Connections:
    return Connections(
        np.concatenate((one.one, other.one)),
        np.concatenate((one.other, other.other)),
        np.concatenate((one.since_us, other.since_us)),
        np.concatenate((one.until_us, other.until_us)),
    )


def _key(one: Ints, other: Ints, ends: Connections) -> Ints:
    return one * (int(max(ends.one.max(initial=0), ends.other.max(initial=0))) + 1) + other


def _pairs_of_equal(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """The places of all pairs of equal values."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    many = np.searchsorted(ordered, left, side="right") - first
    ends = np.cumsum(many)
    places = np.repeat(first - (ends - many), many) + np.arange(int(many.sum()))
    return np.repeat(np.arange(len(left)), many), order[places]
