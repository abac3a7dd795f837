"""Where the nodes of a picture go: computed here, the same on every run; the page only draws.

Both layouts use the square from (0, 0) to (1, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 120


def force_layout(nodes: int, links: NDArray[np.int64]) -> Floats:
    """Fruchterman and Reingold's: links pull, nodes push each other away, and steps grow smaller round by round.

    It starts on a sunflower's spiral, so it needs no chance. A mild pull to the middle keeps pieces that are not
    linked from drifting away.
    """
    if nodes == 0:
        return np.empty((0, 2))
    ranks = np.arange(nodes) + 0.5
    angles = ranks * pi * (3 - sqrt(5))
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.sqrt(ranks / nodes)[:, None]
    ideal = sqrt(pi / nodes)
    for done in range(ROUNDS):
        apart = places[:, None, :] - places[None, :, :]
        squares = np.maximum((apart**2).sum(axis=2), 1e-6)
        moves = (apart * (ideal**2 / squares)[:, :, None]).sum(axis=1)
        along = places[links[:, 0]] - places[links[:, 1]]
        pull = along * (np.linalg.norm(along, axis=1) / ideal)[:, None]
        np.add.at(moves, links[:, 0], -pull)
        np.add.at(moves, links[:, 1], pull)
        moves -= places * ideal
        lengths = np.maximum(np.linalg.norm(moves, axis=1), 1e-9)
        step = 0.15 * (1 - done / ROUNDS) + 0.002
        places += moves * (np.minimum(lengths, step) / lengths)[:, None]
    return _into_square(places)


@dataclass(frozen=True, slots=True)
class RadialTree:
    x: Floats
    y: Floats
    ring: NDArray[np.int64]
    radii: Floats
    """Of the rings 0, 1, …: the more nodes stand on a ring, the more room it has."""


def radial_tree(parents: Sequence[int], hops: Sequence[int | None]) -> RadialTree:
    """A tree around its root: the ring is the hops (told, or counted along the tree), the angle near the parent's.

    Parents come before their children; -1 is a root. What has no parent in the picture stands where its place in
    the order puts it.
    """
    count = len(parents)
    ring = np.zeros(count, dtype=np.int64)
    for node, parent in enumerate(parents):
        told = hops[node]
        ring[node] = told if told is not None else (ring[parent] + 1 if 0 <= parent < node else 1)
    children: list[list[int]] = [[] for _ in range(count)]
    tops: list[int] = []
    for node, parent in enumerate(parents):
        (children[parent] if 0 <= parent < node else tops).append(node)
    leaves = np.array([0 if below else 1 for below in children], dtype=np.int64)
    for node in range(count - 1, -1, -1):
        if 0 <= parents[node] < node:
            leaves[parents[node]] += leaves[node]
    start, width = np.zeros(count), np.zeros(count)
    _share_out(tops, leaves, 0.0, 2 * pi, start, width)
    for node in range(count):
        _share_out(children[node], leaves, start[node], width[node], start, width)
    angle = start + width / 2
    radii = _radii(np.bincount(ring, minlength=2))
    radius = radii[ring]
    return RadialTree(0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle), ring, radii)


def _radii(crowds: NDArray[np.int64]) -> Floats:
    gaps = 0.12 + np.sqrt(crowds / max(1, int(crowds[1:].max())))
    gaps[0] = 0
    radii = np.cumsum(gaps)
    return radii / radii[-1] * 0.48


def _share_out(
    nodes: Sequence[int], leaves: NDArray[np.int64], start: float, width: float, starts: Floats, widths: Floats
) -> None:
    """Divide an angle among siblings by the leaves below them."""
    total: Any = sum(int(leaves[node]) for node in nodes)
    at = start
    for node in nodes:
        starts[node], widths[node] = at, width * int(leaves[node]) / total
        at += widths[node]


def _into_square(places: Floats) -> Floats:
    low, high = places.min(axis=0), places.max(axis=0)
    scale = max(float((high - low).max()), 1e-9)
    return 0.5 + (places - (low + high) / 2) / scale * 0.94
