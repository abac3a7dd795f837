"""The links of topics over time: degrees, symmetry, components, diameter, and the links of the last snapshot.

Meshsub and gossipsub have a mesh (GRAFT and PRUNE). Episub has active neighbours instead, and some links to
neighbours form a tree. Mesh, neighbours and tree are *layers* of links. If two nodes are no longer neighbours, their
link in the tree ends.

Spark computes the times of each link. A task then computes a few *snapshots* of a topic from the links that exist at
the times of these snapshots. Spark cannot compute components and diameters, so numpy and scipy do. A snapshot is a
directed graph over the members of the topic at one time. Its components and diameter are those of the undirected
graph with an edge between two nodes if at least one of them has a link to the other.

In a trace of real nodes, a link may lead to a node that wrote no trace, so that its membership is unknown. The link
counts for the degree of the node that has it. Components and diameter of the snapshot are then unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from hearsay.pipeline.output.tables import (
    COMMON,
    MESH_LAYER,
    NEIGHBOURS_LAYER,
    TABLES,
    TREE_LAYER,
    TableSchema,
    arrow_schema,
)
from hearsay.pipeline.rows import Frames
from hearsay.trace.folder.arrow import pa

sparse: Any = scipy.sparse
csgraph: Any = scipy.sparse.csgraph
Ints = NDArray[Any]
Line = dict[str, Any]

SNAPSHOTS = 40
_TOGETHER = 10
"""Maximum number of successive snapshots that one task computes. In this module, `stretch` is the number of such a
group of snapshots."""
_SECOND = 1_000_000
_ENDS, _STARTS = 0, 1
"""Order of changes at the same time: links end, then links start, then nodes go down (2)."""
_LAYERS = {
    MESH_LAYER: {"graft": _STARTS, "prune": _ENDS},
    NEIGHBOURS_LAYER: {"neighbor_up": _STARTS, "neighbor_down": _ENDS},
    TREE_LAYER: {"eager": _STARTS, "lazy": _ENDS, "neighbor_down": _ENDS},
}
_CHANGES = ", ".join(
    f"('{layer}', '{event}', {change})" for layer, events in _LAYERS.items() for event, change in events.items()
)
_LONG = 9223372036854775807
_GROUP = ("run", "topic", "layer", "stretch")
_TABLE = {table: TABLES[table].columns for table in ("mesh", "degrees", "mesh_links")}
_DRAWN = TableSchema("", {"kind": COMMON["kind"], **_TABLE["mesh"], **_TABLE["degrees"], **_TABLE["mesh_links"]})
"""The columns of all three tables. `kind` names the table of a row, and only columns of this table are filled."""
MAX_NODES_FOR_DIAMETER = 50_000
PICTURED_NODES = 300


def links(frames: Frames) -> DataFrame:
    """Return the times of all links: run, topic, layer, node, remote, since_us, exists, until_us (exclusive).

    Between these times, node `node` has the link to `remote` if `exists` is True, and has lost it if `exists` is
    False. A link ends with its PRUNE or a similar event, or when `node` goes down (`ends_us`).
    """
    return frames.query(f"""
        with layers as (select * from values {_CHANGES} as layers(layer, event, change)),
        rows as (
          select run, topic, layer, peer, remote, time_us, change, cast(null as bigint) as down_us
          from {{mesh}} join layers using (event) where topic is not null
          union all
          select run, null, null, peer, null, time_us, 2, time_us from {{node}} where event = 'node_down'),
        ended as (
          select *, last_value(down_us, true) over (
                      partition by run, peer order by time_us desc, change desc rows unbounded preceding) as ends_us
          from rows),
        turns as (
          select *, lead(time_us) over (
                      partition by run, topic, layer, peer, remote order by time_us, change) as next_us
          from ended where change <> 2)
        select run, topic, layer, peer as node, remote, time_us as since_us, change = {_STARTS} as exists,
               least(coalesce(next_us, {_LONG}), coalesce(ends_us, {_LONG})) as until_us
        from turns""")


def times(frames: Frames) -> DataFrame:
    """Return a row for each group of snapshots: run, stretch, simulated, end_us, first_us, last_us, times.

    `times` are the times of the group's snapshots, from `first_us` to `last_us`. `end_us` is the time of the run's
    last snapshot.
    """
    return frames.query(f"""
        with steps as (
          select run, run_start_us, run_end_us, simulated,
                 {_SECOND} * greatest(1, cast(ceil((run_end_us - run_start_us) / {SNAPSHOTS * _SECOND}D) as bigint))
                   as step_us
          from {{runs}}),
        moments as (
          select *, explode(if(run_end_us >= run_start_us + step_us,
                               sequence(run_start_us + step_us, run_end_us, step_us), array(run_end_us))) as time_us
          from steps),
        placed as (
          select run, simulated, time_us, max(time_us) over (partition by run) as end_us,
                 (row_number() over (partition by run order by time_us) - 1) div {_TOGETHER} as stretch from moments)
        select run, stretch, simulated, end_us, min(time_us) as first_us, max(time_us) as last_us,
               array_sort(collect_list(time_us)) as times
        from placed group by run, stretch, simulated, end_us""")


def drawn(frames: Frames) -> DataFrame:
    """Return the rows of `mesh`, `degrees` and `mesh_links` in one DataFrame; `kind` names the table of a row."""
    all_links = frames.query("""
        select l.run, l.topic, l.layer, t.stretch, l.node, l.remote, l.since_us, l.until_us,
               not t.simulated and o.node is null as unknown
        from {links} l join {times} t on l.run = t.run
        left join {observers} o on not t.simulated and l.run = o.run and l.remote = o.node
        where exists and l.since_us <= t.last_us and l.until_us > t.first_us""")
    memberships = frames.query("""
        with layers as (select distinct run, topic, layer from {links}),
        counts as (select run, count(*) as observers from {observers} group by run)
        select l.run as run, l.topic as topic, l.layer as layer, t.stretch as stretch,
               m.node, m.since_us, m.until_us, t.times, t.end_us,
               t.simulated or c.observers > 1 as has_shape
        from layers l join {times} t on l.run = t.run join counts c on l.run = c.run
        left join {memberships} m on l.run = m.run and l.topic = m.topic
             and m.since_us <= t.last_us and m.until_us >= t.first_us""")
    together: Any = all_links.groupBy(*_GROUP).cogroup(memberships.groupBy(*_GROUP))
    return together.applyInArrow(_snapshot_table, _DRAWN.ddl)


def mesh(frames: Frames) -> DataFrame:
    """Return the table `mesh`: degrees, symmetry, components and diameter of each snapshot."""
    return frames.query("select * from {drawn} where kind = 'mesh'")


def degrees(frames: Frames) -> DataFrame:
    """Return the table `degrees`: the number of nodes by degree in each snapshot."""
    return frames.query("select * from {drawn} where kind = 'degrees'")


def mesh_links(frames: Frames) -> DataFrame:
    """Return the table `mesh_links`: the links of the last snapshot, or a sample of them."""
    return frames.query("select * from {drawn} where kind = 'mesh_links'")


def _snapshot_table(key: tuple[Any, ...], all_links: Any, memberships: Any) -> Any:
    """Return the rows of one run, topic, layer and group of snapshots. Spark calls this function in a task."""
    group = dict(zip(_GROUP, (each.as_py() for each in key), strict=True))
    lines = [line | group for line in snapshot_rows(all_links, memberships)] if len(memberships) else []
    return pa.Table.from_pylist(lines, arrow_schema(_DRAWN))


def snapshot_rows(all_links: Any, memberships: Any) -> list[Line]:
    """Return rows of the tables `mesh`, `degrees` and `mesh_links` for one layer of a topic.

    `kind` names the table of a row. Both arguments are Arrow tables. `all_links` has links and the times between
    which they exist. `memberships` has the memberships of the topic. Its columns `times` (of the snapshots), `end_us`
    (the last time) and `has_shape` have the same value in all rows. `has_shape` is True if components and diameter
    can be known.
    """
    facts = memberships.slice(0, 1).to_pylist()[0]
    known = memberships.filter(memberships.column("node").is_valid())
    node, since, until = _columns(known, "node", "since_us", "until_us")
    lines: list[Line] = []
    for time in facts["times"]:
        members = Members.of(node[(since <= time) & (until >= time)])
        links = _links_at(all_links, members, time)
        lines += _lines(links, members, time, has_shape=facts["has_shape"])
        if time == facts["end_us"]:
            picture = _pictured(links)
            lines += (
                {"kind": "mesh_links", "node": one, "remote": other}
                for one, other in zip(picture.node.tolist(), picture.remote.tolist(), strict=True)
            )
    return lines


@dataclass(frozen=True, slots=True)
class Links:
    """Links that exist at one time: `node[i]` has a link to `remote[i]`."""

    node: Ints
    remote: Ints


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a topic at one time. Each has an index from 0 to `count` - 1."""

    count: int
    places: Ints
    """The index of each node, by the node's number; -1 for a node that is not a member."""

    @classmethod
    def of(cls, nodes: Ints) -> Members:
        places = np.full(int(nodes.max(initial=-1)) + 2, -1, dtype=np.int64)
        places[nodes] = 0
        is_member = places == 0
        count = int(np.count_nonzero(is_member))
        places[is_member] = np.arange(count)
        return cls(count, places)

    def place(self, nodes: Ints) -> Ints:
        return self.places[np.minimum(nodes, len(self.places) - 1)]


def _columns(table: Any, *names: str) -> list[Ints]:
    return [table.column(name).to_numpy() for name in names]


def _links_at(all_links: Any, members: Members, time_us: int) -> Links:
    """Return the links that exist at a time and lead from members to members, or to nodes with unknown membership."""
    node, remote, since, until, unknown = _columns(all_links, "node", "remote", "since_us", "until_us", "unknown")
    existing = (since <= time_us) & (until > time_us)
    inside = existing & (members.place(node) >= 0) & ((members.place(remote) >= 0) | unknown)
    return Links(node[inside], remote[inside])


def _lines(links: Links, members: Members, time_us: int, *, has_shape: bool) -> Iterator[Line]:
    size = members.count
    line: Line = {"kind": "mesh", "time_us": time_us, "members": size, "links": len(links.node)}
    if not size:
        yield line
        return
    place, other = members.place(links.node), members.place(links.remote)
    degree = np.bincount(place, minlength=size)
    seen = other >= 0
    graph = _graph(place[seen], other[seen], size)
    line |= {
        "degree_mean": len(links.node) / size,
        "degree_min": int(degree.min()),
        "degree_max": int(degree.max()),
        "symmetric_share": float(graph.multiply(graph.T).nnz / graph.nnz) if graph.nnz else None,
    }
    yield line | (_shape(graph) if has_shape and seen.all() else {})
    counts = np.bincount(degree)
    for number in np.flatnonzero(counts).tolist():
        yield {"kind": "degrees", "time_us": time_us, "degree": number, "nodes": int(counts[number])}


def _graph(place: Ints, other: Ints, size: int) -> Any:
    return sparse.csr_matrix((np.ones(len(place), dtype=np.int8), (place, other)), shape=(size, size))


def _shape(graph: Any) -> Line:
    size = graph.shape[0]
    components, labels = csgraph.connected_components(graph, directed=False)
    return {
        "components": int(components),
        "largest_share": float(np.bincount(labels).max() / size),
        "diameter": largest_diameter(graph, labels) if graph.nnz and size <= MAX_NODES_FOR_DIAMETER else None,
    }


def _pictured(links: Links) -> Links:
    """Return the links among at most `PICTURED_NODES` nodes: all links if there are no more nodes, else those among
    the nodes that a breadth-first search from the node with the lowest number finds first."""
    nodes = np.unique(np.concatenate((links.node, links.remote)))
    if len(nodes) <= PICTURED_NODES:
        return links
    place, other = np.searchsorted(nodes, links.node), np.searchsorted(nodes, links.remote)
    graph = _graph(place, other, len(nodes))
    kept = nodes[csgraph.breadth_first_order(graph, 0, return_predecessors=False)[:PICTURED_NODES]]
    inside = np.isin(links.node, kept) & np.isin(links.remote, kept)
    return Links(links.node[inside], links.remote[inside])


def largest_diameter(graph: Any, labels: Ints) -> int:
    """Return a lower bound of the largest component's diameter: the largest distance in four sweeps.

    A sweep computes the distances of all nodes from one node. That is the farthest node of the previous sweep. On
    random graphs the bound is exact or one too small. `labels` has the component of each node.
    """
    start = int(np.flatnonzero(labels == np.bincount(labels).argmax())[0])
    longest = 0
    for _ in range(4):
        distances = csgraph.dijkstra(graph, directed=False, indices=start, unweighted=True)
        reachable = np.where(np.isfinite(distances), distances, -1)
        longest = max(longest, int(reachable.max()))
        start = int(reachable.argmax())
    return longest
