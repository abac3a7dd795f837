"""The nodes of a graph that a picture shows, and their positions. Both are computed without random numbers."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 120
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def sample_of_nodes(nodes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return `nodes` if there are at most `most`; otherwise return `most` of them, sorted and chosen by a hash."""
    if len(nodes) <= most:
        return nodes
    mixed = nodes.astype(np.uint64) * _GOLDEN
    return np.sort(nodes[np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")[:most]])


def force_layout(nodes: int, links: NDArray[np.int64]) -> Floats:
    """Return the positions of the nodes 0 … `nodes` - 1 in the unit square, one row (x, y) for each.

    The method is that of Fruchterman and Reingold: links pull their two nodes together, all nodes repel each other,
    and the steps decrease. The initial positions lie on a spiral. A weak pull to the middle keeps unconnected
    parts of the graph from moving far apart.
    """
    if nodes == 0:
        return np.empty((0, 2))
    ranks = np.arange(nodes) + 0.5
    angles = ranks * pi * (3 - sqrt(5))
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.sqrt(ranks / nodes)[:, None]
    ideal = sqrt(pi / nodes)
    pushes, other = np.empty((nodes, nodes)), np.empty((nodes, nodes))
    for done in range(ROUNDS):
        across, down = places[:, 0], places[:, 1]
        np.square(np.subtract.outer(across, across, out=pushes), out=pushes)
        np.square(np.subtract.outer(down, down, out=other), out=other)
        np.maximum(np.add(pushes, other, out=pushes), 1e-6, out=pushes)
        np.divide(ideal**2, pushes, out=pushes)
        moves = places * pushes.sum(axis=1)[:, None] - pushes @ places
        along = places[links[:, 0]] - places[links[:, 1]]
        pull = along * (np.linalg.norm(along, axis=1) / ideal)[:, None]
        np.add.at(moves, links[:, 0], -pull)
        np.add.at(moves, links[:, 1], pull)
        moves -= places * ideal
        lengths = np.maximum(np.linalg.norm(moves, axis=1), 1e-9)
        step = 0.15 * (1 - done / ROUNDS) + 0.002
        places += moves * (np.minimum(lengths, step) / lengths)[:, None]
    return _into_square(places)


def _into_square(places: Floats) -> Floats:
    low, high = places.min(axis=0), places.max(axis=0)
    scale = max(float((high - low).max()), 1e-9)
    return 0.5 + (places - (low + high) / 2) / scale * 0.94
