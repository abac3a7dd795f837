"""The whole message as a tree: who got it from whom, rings by hops, with some paths standing out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from hearsay.explain.node_words import cost
from hearsay.explain.reasons import of_via
from hearsay.explain.story import Story
from hearsay.report import thinning
from hearsay.report.layout import radial_tree
from hearsay.report.markup import Html, tag
from hearsay.report.study import drawing
from hearsay.trace.language.schema import NONE

MOST_NODES = 800
_SIDE, _EDGE = 640, 16
_UNKNOWN_COLOUR = 7


@dataclass(frozen=True, slots=True)
class Tree:
    picture: Html
    legend: Html
    drawn: int
    of: int


def message_tree(story: Story, shown: Collection[int]) -> Tree | None:
    """The first delivery of each node; nodes in `shown`, and whom they have it from, are drawn in any case."""
    deliveries, publisher = story.books.deliveries, story.books.publisher
    first = deliveries.first()
    order = first[np.lexsort((deliveries.node[first], deliveries.time_us[first]))]
    if not len(order):
        return None
    nodes: list[int] = deliveries.node[order].tolist()
    remotes: list[int] = deliveries.remote[order].tolist()
    times: list[int] = (deliveries.time_us[order] - story.books.start_us()).tolist()
    hops: list[int] = deliveries.hops[order].tolist()
    vias: list[int] = deliveries.via[order].tolist()
    bold = _with_senders(dict(zip(nodes, remotes, strict=True)), shown)
    kept = set(thinning.evenly(len(nodes), MOST_NODES).tolist())
    kept |= {place for place, node in enumerate(nodes) if node in bold or node == publisher}
    places = sorted(kept)
    at = {NONE: -1}
    parents: list[int] = []
    drawn = [(publisher, NONE, 0, 0, NONE)] if publisher != NONE and publisher not in nodes else []
    drawn += [(nodes[place], remotes[place], times[place], hops[place], vias[place]) for place in places]
    for number, (node, remote, *_) in enumerate(drawn):
        parents.append(-1 if node == remote else at.get(remote, -1))
        at.setdefault(node, number)
    rings = [0 if node == publisher else told if told != NONE else None for node, _, _, told, _ in drawn]
    tree = radial_tree(parents, rings)
    points = [
        (_EDGE + x * (_SIDE - 2 * _EDGE), _EDGE + y * (_SIDE - 2 * _EDGE))
        for x, y in zip(tree.x, tree.y, strict=True)
    ]
    known = sorted({line[4] for line in drawn if of_via(line[4]) is not None})
    colours = {via: min(place, _UNKNOWN_COLOUR - 1) for place, via in enumerate(known)}
    parts = [_ring(radius) for radius in tree.radii[1:].tolist()]
    parts += [
        drawing.join_places(points[parent], points[number], "way bold" if drawn[number][0] in bold else "way")
        for number, parent in enumerate(parents) if parent >= 0
    ]  # fmt: skip
    for number, (node, remote, after, _, via) in enumerate(drawn):
        words = f"{story.node(node)} after {cost(after)}{_whence(story, remote, via)}"
        parts.append(
            _dot(points[number], colours.get(via, _UNKNOWN_COLOUR), words, node in bold or node == publisher)
        )
    picture = drawing.svg(
        _SIDE, _SIDE, parts, "Who got the message from whom; rings are hops away from the publisher"
    )
    return Tree(picture, _legend(colours), len(drawn), len(nodes))


def _with_senders(remote_of: dict[int, int], shown: Collection[int]) -> set[int]:
    bold: set[int] = set()
    for node in shown:
        while node in remote_of and node not in bold:
            bold.add(node)
            node = remote_of[node]
    return bold


def _whence(story: Story, remote: int, via: int) -> str:
    words = of_via(via)
    return "" if remote == NONE else f", from {story.node(remote)}{f' ({words})' if words else ''}"


def _ring(radius: float) -> Html:
    middle = _SIDE / 2
    return tag("circle", cx=f"{middle:g}", cy=f"{middle:g}", r=f"{radius * (_SIDE - 2 * _EDGE):.1f}", class_="ring")


def _dot(point: tuple[float, float], colour: int, words: str, is_bold: bool) -> Html:
    size = "5" if is_bold else "3"
    dot = tag("circle", tag("title", words), cx=f"{point[0]:.1f}", cy=f"{point[1]:.1f}", r=size, class_="mark")
    return drawing.coloured(colour, dot)


def _legend(colours: Mapping[int, int]) -> Html:
    keys = [tag("span", _swatch(colour), " ", of_via(via) or "", class_="entry") for via, colour in colours.items()]
    return tag("p", *keys, class_="tools") if keys else Html("")


def _swatch(colour: int) -> Html:
    dot = tag("circle", cx="0", cy="0", r="5", class_="mark")
    return tag("svg", dot, viewBox="-6 -6 12 12", class_=f"key run-{colour}", aria_hidden="true")
