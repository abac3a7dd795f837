"""The layout of a tree around its root, in the square from (0, 0) to (1, 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RadialTree:
    """Places of the nodes of a tree."""

    x: Floats
    y: Floats
    angle: Floats
    ring: NDArray[np.int64]
    radii: Floats
    """Radii of the rings 0, 1, …; a ring with more nodes has more room."""


def radial_tree(parents: Sequence[int], hops: Sequence[int | None]) -> RadialTree:
    """Return a tree around its root: a node's ring is its hops, known or counted; its angle is near its parent's.

    Parents come before their children; -1 is a root. A node without a parent has the angle of its place in order.
    """
    count = len(parents)
    ring = np.zeros(count, dtype=np.int64)
    for node, parent in enumerate(parents):
        known = hops[node]
        ring[node] = known if known is not None else (ring[parent] + 1 if 0 <= parent < node else 1)
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
    return RadialTree(0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle), angle, ring, radii)


def _radii(crowds: NDArray[np.int64]) -> Floats:
    gaps = 0.12 + np.sqrt(crowds / max(1, int(crowds[1:].max())))
    gaps[0] = 0
    radii = np.cumsum(gaps)
    return radii / radii[-1] * 0.48


def _share_out(
    nodes: Sequence[int], leaves: NDArray[np.int64], start: float, width: float, starts: Floats, widths: Floats
) -> None:
    """Divide an angle among siblings by the number of leaves below them."""
    total: Any = sum(int(leaves[node]) for node in nodes)
    at = start
    for node in nodes:
        starts[node], widths[node] = at, width * int(leaves[node]) / total
        at += widths[node]
