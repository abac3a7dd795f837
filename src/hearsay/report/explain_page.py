"""An explanation as HTML: a page of its own, parts of a report, and pictures of paths and of the tree of deliveries.

The tree has the first delivery at each node. The parent of a node is the sender of the copy that the node delivered.
The tree is drawn in rings. The ring of a node is its number of hops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.explain.answers import Explanation, Section
from hearsay.explain.copies import via_words
from hearsay.explain.fastest import FastPath
from hearsay.explain.message import Message
from hearsay.explain.path import Path as MessagePath
from hearsay.explain.path import Step
from hearsay.explain.words import heading, milliseconds_exactly, step_look
from hearsay.number_text import count
from hearsay.report import svg
from hearsay.report.figure import evenly
from hearsay.report.html import Html, capitalized, cut_table, section, tag, write_page
from hearsay.report.svg import scale_of_values
from hearsay.trace.language.schema import NONE

Floats = NDArray[np.float64]
MAX_NODES = 800
_SIDE, _EDGE = 640, 16
_UNKNOWN_COLOUR = 7
_LANE = 34
_TOP, _BOTTOM, _RIGHT = 10, 26, 16
_MAX_NAME_LENGTH = 18
_BAR = 9.0
_LANES = {"sender": (0, 0), "receiver": (1, 1), "across": (0, 1), "back": (1, 0)}
"""The lanes of the two ends of a drawn step: 0 for the sender's lane, 1 for the receiver's lane."""
MAX_ROWS = 400


def write_explained_page(out: Path, explanation: Explanation) -> None:
    """Write an explanation as one HTML file."""
    message = explanation.message
    parts = [section(each.title, each.id, *section_parts(explanation, each)) for each in explanation.sections]
    tree = _tree_card(message, explanation.paths)
    if tree is not None:
        parts.append(section("Senders and receivers", "tree", tree))
    title = f"message {message.name.number}"
    header = [
        tag("h1", capitalized(title)),
        tag("p", tag("span", heading(message).removeprefix(title), class_="name"), class_="subject"),
        tag("p", capitalized(explanation.summary), class_="verdict card"),
        *(tag("p", line, class_="faint") for line in message.unknowns()),
    ]
    write_page(out, f"{capitalized(title)} – {message.run.name}", header, parts, "explain.css")


def section_parts(explanation: Explanation, part: Section, max_rows: int = MAX_ROWS) -> Iterator[Html]:
    """Yield the parts of a section. A section with a picture has the picture and its sentences. Any other section has
    its table (with at most `max_rows` rows), its list and its sentences.
    """
    words = [tag("p", sentence) for sentence in part.sentences]
    if part.path is not None:
        draw = partial(path_picture, explanation.message, part.path, part.until_us)
        yield tag("div", legend(part.path), svg.for_screens(draw, part.title, "lanes"), *words, class_="card")
        return
    if part.table is not None:
        yield cut_table(part.table.head, part.table.rows, part.title, part.table.words, max_rows)
    if part.items:
        yield tag("ul", *(tag("li", item) for item in part.items), class_="card words")
    if words:
        yield tag("div", *words, class_="card")


def path_picture(message: Message, path: MessagePath | FastPath, until_us: int, width: int = svg.WIDE) -> Html:
    """Draw a path over time, from the publication to `until_us` microseconds later."""
    if isinstance(path, MessagePath):
        drawn_steps, copies = list(_steps(path)), list(_first_copies(message, path))
    else:
        drawn_steps, copies = list(_fast_steps(path)), list(_fast_copies(message, path))
    names = [name if len(name) <= _MAX_NAME_LENGTH else f"…{name[1 - _MAX_NAME_LENGTH :]}"
             for name in map(message.node, path.nodes)]  # fmt: skip
    left = 16 + 7 * max(len(name) for name in names)
    scale = scale_of_values([0.0, max(until_us, 1) / 1000], "ms")
    span, height = width - left - _RIGHT, _TOP + _LANE * len(names) + _BOTTOM

    def across(us: int) -> float:
        return left + max(0.0, scale.at(message.us_after(us) / 1000)) * span

    def down(lane: int) -> float:
        return _TOP + _LANE * (lane + 0.5)

    parts = list(svg.time_axis(scale, left, span, (_TOP, height - _BOTTOM), width))
    for lane, name in enumerate(names):
        parts.append(svg.line(left, down(lane), width - _RIGHT, down(lane), "axis"))
        parts.append(svg.text(name, left - 8, down(lane) + 4, class_="value", anchor="end"))
    for each in drawn_steps:
        start, end = (down(lane) for lane in each.lanes)
        x, end_x = across(each.from_us), across(each.until_us)
        if start == end:
            drawn = svg.bar(x, start - _BAR / 2, max(1.5, end_x - x), _BAR)
        else:
            drawn = svg.line(x, start, end_x, end, "flight control" if each.is_control else "flight")
        parts.append(svg.coloured(each.colour, tag("title", each.words), drawn))
    parts += [svg.circle((across(us), down(lane)), 4.5, "had", words) for lane, us, words in copies]
    about = f"A lane for each of {len(names)} nodes, from the publication to {scale.ticks[-1][1]} after it."
    return svg.picture(width, height, parts, f"The path to {message.node(path.nodes[-1])}", about)


def legend(path: MessagePath | FastPath) -> Html:
    """Return a legend with the names of the steps on a path, by colour; empty HTML for a fastest path."""
    if not isinstance(path, MessagePath):
        return Html("")
    names: dict[int, list[str]] = {}
    for step in dict.fromkeys(each.step for hop in path.hops for each in hop.times):
        names.setdefault(step_look(step)["colour"], []).append(step_look(step)["name"])
    return svg.legend({colour: ", ".join(words) for colour, words in names.items()}, marked=False)


@dataclass(frozen=True, slots=True)
class _DrawnStep:
    """A drawn step of a path: a line between the lanes of two nodes, or a bar on one lane.

    A lane is the horizontal line of a node; the lanes are in the order of the path.
    """

    lanes: tuple[int, int]
    from_us: int
    until_us: int
    colour: int
    words: str
    is_control: bool = False


def _steps(path: MessagePath) -> Iterator[_DrawnStep]:
    for lane, hop in enumerate(path.hops):
        for each in hop.times:
            look = step_look(each.step)
            start, end = _LANES[look["drawn"]]
            words = f"{look['name']}: {milliseconds_exactly(each.took_us)}"
            is_control = each.step in (Step.ANNOUNCED, Step.ASKED)
            lanes = lane + start, lane + end
            yield _DrawnStep(lanes, each.from_us, each.until_us, look["colour"], words, is_control)


def _first_copies(message: Message, path: MessagePath) -> Iterator[tuple[int, int, str]]:
    times: Sequence[int] = (path.hops[0].held_us, *(hop.delivered_us for hop in path.hops))
    for lane, (node, us) in enumerate(zip(path.nodes, times, strict=True)):
        yield lane, us, f"{message.node(node)} had it after {milliseconds_exactly(message.us_after(us))}"


def _fast_steps(path: FastPath) -> Iterator[_DrawnStep]:
    had_us = path.hops[0].sent_us
    for lane, hop in enumerate(path.hops):
        if hop.sent_us > had_us:
            words = f"waited for a connection or a copy: {milliseconds_exactly(hop.sent_us - had_us)}"
            yield _DrawnStep((lane, lane), had_us, hop.sent_us, step_look(Step.HELD)["colour"], words)
        words = f"on the link: {milliseconds_exactly(hop.arrived_us - hop.sent_us)}"
        yield _DrawnStep((lane, lane + 1), hop.sent_us, hop.arrived_us, step_look(Step.LINE)["colour"], words)
        had_us = hop.had_us


def _fast_copies(message: Message, path: FastPath) -> Iterator[tuple[int, int, str]]:
    yield 0, message.history.start_us(), f"{message.node(path.nodes[0])} published it"
    for lane, hop in enumerate(path.hops, 1):
        after = milliseconds_exactly(message.us_after(hop.had_us))
        yield lane, hop.had_us, f"{message.node(hop.receiver)} could have had it after {after}"


def _tree_card(message: Message, emphasized: Collection[int]) -> Html | None:
    """Draw the publisher and the first delivery at each node. If there are more than `MAX_NODES` nodes, draw a sample
    and the paths to the nodes `emphasized`. Return None if there is no delivery.
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
    if publisher != NONE and all(node != publisher for node, *_ in rows):
        rows.insert(0, (publisher, NONE, history.start_us(), 0, NONE))
    bold = _paths({node: remote for node, remote, *_ in rows}, emphasized)
    kept = set(evenly(len(rows), MAX_NODES).tolist())
    kept |= {place for place, row in enumerate(rows) if row[0] in bold or row[0] == publisher}
    drawn: list[tuple[int, int, int, int, int]] = [rows[place] for place in sorted(kept)]
    places = {node: place for place, (node, *_) in reversed(list(enumerate(drawn)))}
    parents = [
        places[remote] if remote != node and places.get(remote, place) < place else -1
        for place, (node, remote, *_) in enumerate(drawn)
    ]
    hops = [0 if node == publisher else ring if ring != NONE else None for node, _, _, ring, _ in drawn]
    tree = radial_tree(parents, hops)
    room = _SIDE - 2 * _EDGE
    points = [(_EDGE + x * room, _EDGE + y * room) for x, y in zip(tree.x, tree.y, strict=True)]
    vias = sorted({via for *_, via in drawn if via_words(via) is not None})
    colours = {via: min(number, _UNKNOWN_COLOUR - 1) for number, via in enumerate(vias)}
    parts = [svg.circle((_SIDE / 2, _SIDE / 2), radius * room, "ring") for radius in tree.radii[1:].tolist()]
    parts += [
        svg.line(*points[parent], *points[place], "way bold" if drawn[place][0] in bold else "way")
        for place, parent in enumerate(parents)
        if parent >= 0
    ]
    for point, (node, remote, time_us, _, via) in zip(points, drawn, strict=True):
        why = via_words(via)
        sender = "" if remote == NONE else f", from {message.node(remote)}{f' ({why})' if why else ''}"
        words = f"{message.node(node)} after {milliseconds_exactly(message.us_after(time_us))}{sender}"
        size = 5 if node in bold or node == publisher else 3
        parts.append(svg.coloured(colours.get(via, _UNKNOWN_COLOUR), svg.circle(point, size, "mark", words)))
    title = "Senders and receivers of the message"
    about = f"Rings are hops away from the publisher; {len(drawn)} of {len(rows)} nodes are drawn."
    names = {colour: via_words(via) or "" for via, colour in colours.items()}
    picture = tag("div", svg.picture(_SIDE, _SIDE, parts, title, about), class_="chart tree")
    caption = "Rings are hops away from the publisher."
    if len(drawn) < len(rows):
        caption += f" {count(len(drawn))} of {count(len(rows))} nodes are drawn."
    return tag("div", svg.legend(names, marked=False), picture, tag("p", caption, class_="faint"), class_="card")


def _paths(remote_of: dict[int, int], nodes: Collection[int]) -> set[int]:
    """Return `nodes` and all nodes on the paths to them, as far as `remote_of` has the sender of their copies."""
    found: set[int] = set()
    for node in nodes:
        while node in remote_of and node not in found:
            found.add(node)
            node = remote_of[node]
    return found


@dataclass(frozen=True, slots=True)
class RadialTree:
    """Positions of the nodes of a tree, in a square with sides of 1. Angles are in radians."""

    x: Floats
    y: Floats
    angle: Floats
    ring: NDArray[np.int64]
    radii: Floats
    """Radii of the rings 0, 1, …. The more nodes a ring has, the larger is its distance from the ring inside it."""


def radial_tree(parents: Sequence[int], hops: Sequence[int | None]) -> RadialTree:
    """Arrange the nodes of a tree in rings. The ring of a node is its number in `hops`. If the number is None,
    the node is in the ring after the parent's or, without a parent, in ring 1.

    `parents` has the index of each node's parent, or -1. A parent comes before its children. Nodes without a parent
    divide the full turn among themselves, in their order; children divide the angle of their parent. Angles are in
    proportion to the numbers of leaves.
    """
    count = len(parents)
    ring = np.zeros(count, dtype=np.int64)
    for node, parent in enumerate(parents):
        known = hops[node]
        ring[node] = known if known is not None else (ring[parent] + 1 if parent >= 0 else 1)
    # The last element of each list is about a common root, whose index is -1, as in `parents`.
    children: list[list[int]] = [[] for _ in range(count + 1)]
    for node, parent in enumerate(parents):
        children[parent].append(node)
    leaves = [0 if below else 1 for below in children]
    for node in range(count - 1, -1, -1):
        leaves[parents[node]] += leaves[node]
    start, width = np.zeros(count + 1), np.zeros(count + 1)
    width[-1] = 2 * pi
    for node in (-1, *range(count)):
        at = start[node]
        for child in children[node]:
            start[child], width[child] = at, width[node] * leaves[child] / leaves[node]
            at += width[child]
    angle = (start + width / 2)[:-1]
    radii = _radii(np.bincount(ring, minlength=2))
    radius = radii[ring]
    return RadialTree(0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle), angle, ring, radii)


def _radii(nodes_per_ring: NDArray[np.int64]) -> Floats:
    gaps = 0.12 + np.sqrt(nodes_per_ring / max(1, int(nodes_per_ring[1:].max())))
    gaps[0] = 0
    radii = np.cumsum(gaps)
    return radii / radii[-1] * 0.48
