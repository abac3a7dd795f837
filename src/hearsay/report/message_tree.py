"""A message as a tree: senders and receivers of first deliveries, in rings by hops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.explain import causes
from hearsay.explain.message import Message
from hearsay.explain.words import milliseconds_exactly
from hearsay.report import svg
from hearsay.report.figure import evenly
from hearsay.report.html import Html
from hearsay.trace.language.schema import NONE

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RadialTree:
    """Positions of the nodes of a tree, in a square with sides of 1. Angles are in radians."""

    x: Floats
    y: Floats
    angle: Floats
    ring: NDArray[np.int64]
    radii: Floats
    """Radii of the rings 0, 1, …; the more nodes a ring has, the larger is its distance from the ring inside it."""


def radial_tree(parents: Sequence[int], hops: Sequence[int | None]) -> RadialTree:
    """Arrange the nodes of a tree in rings. A node's ring is its hops or, if these are None, the ring after its
    parent's.

    `parents` are indexes of nodes, and a parent comes before its children; -1 is no parent. Nodes without a parent
    divide the full turn in their order, and children divide the angle of their parent.
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
    """Divide the angle `width` from `start` among siblings, by the number of leaves below each; fill `starts` and
    `widths`.
    """
    total: Any = sum(int(leaves[node]) for node in nodes)
    at = start
    for node in nodes:
        starts[node], widths[node] = at, width * int(leaves[node]) / total
        at += widths[node]


MAX_NODES = 800
_SIDE, _EDGE = 640, 16
_UNKNOWN_COLOUR = 7


@dataclass(frozen=True, slots=True)
class Tree:
    """A drawn tree. In a large network, only `drawn` of `total` nodes are in it."""

    picture: Html
    legend: Html
    drawn: int
    total: int


def message_tree(message: Message, emphasized: Collection[int]) -> Tree | None:
    """Draw the first delivery of each node; of many nodes, a sample that contains the paths to emphasized nodes.
    Return None without deliveries.
    """
    history, publisher = message.history, message.history.publisher
    deliveries = history.deliveries
    first = deliveries.first()
    order = first[np.lexsort((deliveries.node[first], deliveries.time_us[first]))]
    if not len(order):
        return None
    columns = (deliveries.node, deliveries.remote, deliveries.time_us, deliveries.hops, deliveries.via)
    rows: list[tuple[int, int, int, int, int]] = list(
        zip(*(column[order].tolist() for column in columns), strict=True)
    )
    bold = _paths({node: remote for node, remote, *_ in rows}, emphasized)
    kept = set(evenly(len(rows), MAX_NODES).tolist())
    kept |= {place for place, row in enumerate(rows) if row[0] in bold or row[0] == publisher}
    drawn: list[tuple[int, int, int, int, int]] = [rows[place] for place in sorted(kept)]
    if publisher != NONE and all(node != publisher for node, *_ in rows):
        drawn.insert(0, (publisher, NONE, history.start_us(), 0, NONE))
    places = {node: place for place, (node, *_) in reversed(list(enumerate(drawn)))}
    parents = [
        places[remote] if remote != node and places.get(remote, place) < place else -1
        for place, (node, remote, *_) in enumerate(drawn)
    ]
    hops = [0 if node == publisher else ring if ring != NONE else None for node, _, _, ring, _ in drawn]
    tree = radial_tree(parents, hops)
    room = _SIDE - 2 * _EDGE
    points = [(_EDGE + x * room, _EDGE + y * room) for x, y in zip(tree.x, tree.y, strict=True)]
    vias = sorted({via for *_, via in drawn if causes.of_via(via) is not None})
    colours = {via: min(number, _UNKNOWN_COLOUR - 1) for number, via in enumerate(vias)}
    parts = [svg.ring(_SIDE / 2, radius * room) for radius in tree.radii[1:].tolist()]
    parts += [
        svg.line(*points[parent], *points[place], "way bold" if drawn[place][0] in bold else "way")
        for place, parent in enumerate(parents)
        if parent >= 0
    ]
    for (x, y), (node, remote, time_us, _, via) in zip(points, drawn, strict=True):
        why = causes.of_via(via)
        sender = "" if remote == NONE else f", from {message.node(remote)}{f' ({why})' if why else ''}"
        words = f"{message.node(node)} after {milliseconds_exactly(message.us_after(time_us))}{sender}"
        size = 5 if node in bold or node == publisher else 3
        parts.append(svg.coloured(colours.get(via, _UNKNOWN_COLOUR), svg.dot(x, y, size, words, "mark")))
    title = "Senders and receivers of the message"
    about = f"Rings are hops away from the publisher; {len(drawn)} of {len(rows)} nodes are drawn."
    names = {colour: causes.of_via(via) or "" for via, colour in colours.items()}
    return Tree(
        svg.picture(_SIDE, _SIDE, parts, title, about), svg.legend(names, marked=False), len(drawn), len(rows)
    )


def _paths(remote_of: dict[int, int], nodes: Collection[int]) -> set[int]:
    """Return these nodes, and all nodes before them on their paths."""
    found: set[int] = set()
    for node in nodes:
        while node in remote_of and node not in found:
            found.add(node)
            node = remote_of[node]
    return found
