"""The links of a topic as a graph at a few times: degrees, components, diameter.

A snapshot is a graph over the members of the topic at that time; components and diameter are those of the undirected
graph that has an edge where either end has a link. Spark has no operation for them, so numpy and scipy compute them.

In a trace of real nodes, links may lead to nodes without a trace, whose membership is unknown. Such a link counts for
the degree of its node, and components and diameter are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

pa: Any = pyarrow
sparse: Any = scipy.sparse
csgraph: Any = scipy.sparse.csgraph

Ints = NDArray[Any]
Line = dict[str, Any]
MAX_NODES_FOR_DIAMETER = 50_000
PICTURED_NODES = 300


@dataclass(frozen=True, slots=True)
class Links:
    """Links that exist at one time: `node[i]` has a link to `remote[i]`."""

    node: Ints
    remote: Ints


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes of a topic at one time, with an index from 0 on for each."""

    count: int
    places: Ints
    """The index of each node by its number; -1 for nodes that are not members."""

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


def snapshot_rows(all_links: Any, memberships: Any) -> list[Line]:
    """Return rows of the tables `mesh`, `degrees` and `mesh_links` for one topic; `kind` names the table of a row.

    Both arguments are Arrow tables. `all_links` has links with the times of their existence. `memberships` has those
    of the topic; the `times` of the snapshots, `end_us` and `has_shape` are the same in all its rows.
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


def _columns(table: Any, *names: str) -> list[Ints]:
    return [table.column(name).to_numpy() for name in names]


def _links_at(all_links: Any, members: Members, time_us: int) -> Links:
    """Return the links of members that exist at a time, and lead to members or to nodes that may be members."""
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
    """Return the links among a connected sample of nodes."""
    nodes = np.unique(np.concatenate((links.node, links.remote)))
    if len(nodes) <= PICTURED_NODES:
        return links
    order = np.argsort(links.node, kind="stable")
    sorted_nodes, sorted_remotes = links.node[order], links.remote[order]
    chosen = {int(nodes[0])}
    frontier = [int(nodes[0])]
    while frontier and len(chosen) < PICTURED_NODES:
        first, last = np.searchsorted(sorted_nodes, [frontier[0], frontier[0] + 1])
        frontier.pop(0)
        for neighbour in np.sort(sorted_remotes[first:last]).tolist():
            if neighbour not in chosen and len(chosen) < PICTURED_NODES:
                chosen.add(neighbour)
                frontier.append(neighbour)
    kept = np.array([*chosen])
    inside = np.isin(links.node, kept) & np.isin(links.remote, kept)
    return Links(links.node[inside], links.remote[inside])


def largest_diameter(graph: Any, labels: Ints) -> int:
    """Return a diameter of the largest component, as the longest shortest path of four sweeps: never too large.

    Each sweep starts at the farthest node of the previous one; on random graphs the result is exact or one too small.
    """
    start = int(np.flatnonzero(labels == np.bincount(labels).argmax())[0])
    longest = 0
    for _ in range(4):
        distances = csgraph.dijkstra(graph, directed=False, indices=start, unweighted=True)
        reachable = np.where(np.isfinite(distances), distances, -1)
        longest = max(longest, int(reachable.max()))
        start = int(reachable.argmax())
    return longest
