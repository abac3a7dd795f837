"""A message as a tree: senders and receivers of the first deliveries, rings by hops, some paths emphasized."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hearsay.explain import causes
from hearsay.explain.message import Message
from hearsay.explain.words import milliseconds_exactly
from hearsay.report import svg, thinning
from hearsay.report.html import Html
from hearsay.report.radial_tree import radial_tree
from hearsay.trace.language.schema import NONE

MAX_NODES = 800
_SIDE, _EDGE = 640, 16
_UNKNOWN_COLOUR = 7


@dataclass(frozen=True, slots=True)
class Tree:
    """A drawn tree; of a large network `drawn` of `total` nodes."""

    picture: Html
    legend: Html
    drawn: int
    total: int


def message_tree(message: Message, emphasized: Collection[int]) -> Tree | None:
    """Draw the first delivery of each node. The paths to emphasized nodes are always drawn."""
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
    kept = set(thinning.evenly(len(rows), MAX_NODES).tolist())
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
    label = "Senders and receivers of the message; rings are hops away from the publisher"
    names = {colour: causes.of_via(via) or "" for via, colour in colours.items()}
    return Tree(svg.picture(_SIDE, _SIDE, parts, label), svg.legend(names, svg.DOT_KEY), len(drawn), len(rows))


def _paths(remote_of: dict[int, int], nodes: Collection[int]) -> set[int]:
    """Return nodes with all nodes before them on their paths."""
    found: set[int] = set()
    for node in nodes:
        while node in remote_of and node not in found:
            found.add(node)
            node = remote_of[node]
    return found
