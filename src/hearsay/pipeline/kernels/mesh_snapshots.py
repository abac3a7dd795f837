"""The links of one topic at sampled times, from the grafts and prunes of its nodes or what else is like them.

A link (node -> remote) exists from the node's graft until its prune, or until the node goes down. Snapshots are
graphs over the members of the topic at that time; components and diameter are those of the undirected graph that
has an edge where either end has a link.

In the trace of real nodes links lead to nodes that did not trace, and nobody knows whether these are members: such
links count for the degree of the node that has them, and the shape of the graph is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

from hearsay.pipeline.kernels.graph_snapshots import contains, largest_diameter

sparse: Any = scipy.sparse
csgraph: Any = scipy.sparse.csgraph

Ints = NDArray[Any]

GRAFT, PRUNE, DOWN = 0, 1, 2
LARGEST_FOR_DIAMETER = 50_000
"""Nodes; the diameter of a larger graph is not computed."""
PICTURED_NODES = 300


@dataclass(frozen=True, slots=True)
class Links:
    """Links over their time of existence [since, until), until = the largest integer for those that stay."""

    node: Ints
    remote: Ints
    since_us: Ints
    until_us: Ints


@dataclass(frozen=True, slots=True)
class Snapshot:
    time_us: int
    members: int
    links: int
    degree_mean: float | None
    degree_min: int | None
    degree_max: int | None
    symmetric_share: float | None
    components: int | None
    largest_share: float | None
    diameter: int | None
    degrees: Ints
    """How many nodes have degree 0, 1, …"""


FOREVER = (1 << 63) - 1


def links_of(times: Ints, changes: Ints, nodes: Ints, remotes: Ints) -> Links:
    """Links from GRAFT, PRUNE and DOWN rows (a DOWN has no remote and ends all links of its node)."""
    down = changes == DOWN
    is_link = ~down
    order = np.lexsort((changes[is_link] == GRAFT, times[is_link], remotes[is_link], nodes[is_link]))
    node, remote = nodes[is_link][order], remotes[is_link][order]
    time, change = times[is_link][order], changes[is_link][order]
    until = np.full(len(node), FOREVER, dtype=np.int64)
    same = (node[1:] == node[:-1]) & (remote[1:] == remote[:-1])
    until[:-1][same] = time[1:][same]
    starts = change == GRAFT
    node, remote, time, until = node[starts], remote[starts], time[starts], until[starts]
    down_node, down_time = nodes[down], times[down]
    order = np.lexsort((down_time, down_node))
    down_node, down_time = down_node[order], down_time[order]
    if len(down_node):
        # The first DOWN of the node at or after the graft.
        place = _first_at_or_after(down_node, down_time, node, time)
        found = np.minimum(place, len(down_node) - 1)
        ends = (place < len(down_node)) & (down_node[found] == node)
        until = np.where(ends, np.minimum(until, down_time[found]), until)
    return Links(node, remote, time, until)


def snapshot(links: Links, members: Ints, time_us: int, diameter: bool, observed: Ints | None = None) -> Snapshot:
    """The links at a time; `members` are the nodes in the topic then, `observed` those that traced, both ascending.
    Without `observed` all nodes did."""
    node, remote = links_at(links, members, time_us, observed)
    size = len(members)
    degree = np.bincount(np.searchsorted(members, node), minlength=size) if size else np.empty(0, dtype=np.int64)
    seen = contains(members, remote)
    whole = bool(seen.all()) and (observed is None or len(observed) > 1)
    place, other = np.searchsorted(members, node[seen]), np.searchsorted(members, remote[seen])
    if not size:
        return Snapshot(time_us, 0, 0, None, None, None, None, None, None, None, degree)
    graph = sparse.coo_matrix((np.ones(len(place), dtype=np.int8), (place, other)), shape=(size, size)).tocsr()
    components, labels = csgraph.connected_components(graph, directed=False)
    backward = other.astype(np.int64) * size + place
    symmetric = np.isin(place.astype(np.int64) * size + other, backward)
    return Snapshot(
        time_us,
        size,
        len(node),
        float(len(node) / size),
        int(degree.min()),
        int(degree.max()),
        float(np.count_nonzero(symmetric) / len(place)) if len(place) else None,
        int(components) if whole else None,
        float(np.bincount(labels).max() / size) if whole else None,
        largest_diameter(graph, labels)
        if whole and diameter and len(place) and size <= LARGEST_FOR_DIAMETER
        else None,
        np.bincount(degree),
    )


def links_at(links: Links, members: Ints, time_us: int, observed: Ints | None = None) -> tuple[Ints, Ints]:
    """The links that exist at a time, of members to members and to those that may be."""
    there = (links.since_us <= time_us) & (links.until_us > time_us)
    node, remote = links.node[there], links.remote[there]
    reached = contains(members, remote)
    if observed is not None:
        reached |= ~contains(observed, remote)
    inside = contains(members, node) & reached
    return node[inside], remote[inside]


def pictured(node: Ints, remote: Ints) -> tuple[Ints, Ints]:
    """The links among an evenly spread sample of nodes, grown from its links so that the picture hangs together."""
    nodes = np.unique(np.concatenate((node, remote)))
    if len(nodes) <= PICTURED_NODES:
        return node, remote
    chosen = {int(nodes[0])}
    frontier = [int(nodes[0])]
    order = np.argsort(node, kind="stable")
    sorted_nodes, sorted_remotes = node[order], remote[order]
    while frontier and len(chosen) < PICTURED_NODES:
        current = frontier.pop(0)
        first, last = np.searchsorted(sorted_nodes, [current, current + 1])
        for neighbour in sorted_remotes[first:last].tolist():
            if neighbour not in chosen and len(chosen) < PICTURED_NODES:
                chosen.add(neighbour)
                frontier.append(neighbour)
    kept = np.array(sorted(chosen))
    inside = contains(kept, node) & contains(kept, remote)
    return node[inside], remote[inside]


def _first_at_or_after(keys: Ints, times: Ints, wanted: Ints, since: Ints) -> Ints:
    """For each wanted key and time the first place in (keys, times), sorted, that is not before it."""
    ranks = np.unique(np.concatenate((times, since)), return_inverse=True)[1].astype(np.int64)
    own, asked = ranks[: len(times)], ranks[len(times) :]
    width = len(ranks) + 1
    return np.searchsorted(keys.astype(np.int64) * width + own, wanted.astype(np.int64) * width + asked)
