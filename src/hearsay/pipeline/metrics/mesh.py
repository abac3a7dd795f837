"""Links over time: degrees, symmetry, components, diameter, and a picture of them.

A router has a mesh (GRAFT and PRUNE), or like episub active neighbours, and among their links those of a tree. Each
of these is a *layer*; a link of the tree ends with the neighbour at the latest.

numpy and scipy draw the snapshots (`kernels.mesh_snapshots`). One task holds the changes of mesh of its topics: some
tens of bytes for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, chosen_rows
from hearsay.pipeline.kernels.mesh_snapshots import (
    DOWN,
    GRAFT,
    PRUNE,
    Ints,
    Links,
    Snapshot,
    links_at,
    links_of,
    pictured,
    snapshot,
)
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.pipeline.metrics.knowledge import Knowledge
from hearsay.pipeline.output.tables import (
    DEGREES,
    MESH,
    MESH_LAYER,
    MESH_LINKS,
    NEIGHBOURS_LAYER,
    TREE_LAYER,
    MetricTable,
)
from hearsay.trace.language.schema import Column, TraceEvent

SNAPSHOTS = 40
_LAYERS: dict[str, tuple[TraceEvent, tuple[TraceEvent, ...]]] = {
    MESH_LAYER: (TraceEvent.GRAFT, (TraceEvent.PRUNE,)),
    NEIGHBOURS_LAYER: (TraceEvent.NEIGHBOR_UP, (TraceEvent.NEIGHBOR_DOWN,)),
    TREE_LAYER: (TraceEvent.EAGER, (TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN)),
}
"""What starts a link of a layer, and what ends it."""
_EVENTS = tuple({event for start, ends in _LAYERS.values() for event in (start, *ends)})
_COLUMNS = (Column.TIME_US, Column.PEER, Column.REMOTE, Column.TOPIC)
_NO_CHANGE = -1
SECOND = 1_000_000

TableLine = tuple[MetricTable, dict[str, Any]]
"""One of the three tables, and a line of it."""


def mesh_lines(run: RunFacts, topics: Sequence[int], members: Members, knowledge: Knowledge) -> Iterator[TableLine]:
    """The tables `mesh`, `degrees` and `mesh_links` of these topics of a run."""
    times = snapshot_times(run.start_us, run.end_us)
    observed = None if run.simulated else np.array(knowledge.observers)
    changes = chosen_rows(run, "mesh", _EVENTS, _COLUMNS)
    downs = chosen_rows(run, "node", [TraceEvent.NODE_DOWN], _COLUMNS)
    for topic in topics:
        of_topic = _kept(changes, changes[Column.TOPIC] == topic)
        owners = np.unique(of_topic[Column.PEER])
        ended = _kept(downs, np.isin(downs[Column.PEER], owners))
        rows = {column: np.concatenate([values, ended[column]]) for column, values in of_topic.items()}
        there = members.of_topic(topic)
        for layer in _LAYERS:
            for table, line in _layer_lines(layer, rows, there, times, observed):
                yield table, {"topic": topic, "layer": layer, **line}


def snapshot_times(start_us: int, end_us: int) -> list[int]:
    """Whole seconds of the run, evenly spread."""
    step = max(1, -(-(end_us - start_us) // (SNAPSHOTS * SECOND))) * SECOND
    return list(range(start_us + step, end_us + 1, step)) or [end_us]


def _kept(rows: ColumnArrays, mine: Ints) -> ColumnArrays:
    return {column: values[mine] for column, values in rows.items()}


def _layer_lines(
    layer: str, rows: ColumnArrays, members: Members, times: list[int], observed: Ints | None
) -> Iterator[TableLine]:
    changes = _changes(layer, rows[Column.EVENT])
    there = changes != _NO_CHANGE
    if not np.isin(changes, (GRAFT, PRUNE)).any():
        return
    time_us, peer, remote = (rows[column][there] for column in (Column.TIME_US, Column.PEER, Column.REMOTE))
    yield from _layer(links_of(time_us, changes[there], peer, remote), members, times, observed)


def _changes(layer: str, events: Ints) -> Ints:
    """What each row means to a layer."""
    start, ends = _LAYERS[layer]
    meaning = np.full(len(TraceEvent), _NO_CHANGE)
    meaning[TraceEvent.NODE_DOWN] = DOWN
    meaning[start] = GRAFT
    meaning[list(ends)] = PRUNE
    return meaning[events]


def _layer(links: Links, members: Members, times: list[int], observed: Ints | None) -> Iterator[TableLine]:
    for time in times:
        inside = np.unique(members.node[(members.since_us <= time) & (members.until_us >= time)])
        yield from _lines(snapshot(links, inside, time, diameter=True, observed=observed))
        if time == times[-1]:
            yield from _picture(*links_at(links, inside, time, observed))


def _lines(seen: Snapshot) -> Iterator[TableLine]:
    yield MESH, {name: getattr(seen, name) for name in MESH.names if name not in ("run", "topic", "layer")}
    for degree in np.flatnonzero(seen.degrees).tolist():
        yield DEGREES, {"time_us": seen.time_us, "degree": degree, "nodes": int(seen.degrees[degree])}


def _picture(nodes: Ints, remotes: Ints) -> Iterator[TableLine]:
    for node, remote in zip(*pictured(nodes, remotes), strict=True):
        yield MESH_LINKS, {"node": int(node), "remote": int(remote)}
