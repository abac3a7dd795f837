"""An explanation as HTML: a page of its own, parts of a report, and a path as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hearsay.explain.answers import Explanation, Section
from hearsay.explain.fastest import FastPath
from hearsay.explain.message import Message
from hearsay.explain.path import Path as MessagePath
from hearsay.explain.path import Step
from hearsay.explain.words import STEPS, Table, heading, milliseconds_exactly
from hearsay.report import svg
from hearsay.report.html import (
    Html,
    capitalized,
    labelled_table,
    section,
    tag,
    write_page,
)
from hearsay.report.message_tree import message_tree
from hearsay.report.svg import scale_of_values
from hearsay.text.numbers import count

_LANE = 34
_TOP, _BOTTOM, _RIGHT = 10, 26, 16
_MAX_NAME_LENGTH = 18
_BAR = 9.0
_COLOURS = {
    Step.LINE: 0, Step.FLIGHT: 0, Step.QUEUE: 1, Step.VALIDATION: 2, Step.HANDLING: 2, Step.HEARTBEAT: 3,
    Step.NEXT_IHAVE: 3, Step.HELD: 3, Step.UPLINK: 4, Step.ANNOUNCED: 5, Step.ASKED: 5, Step.ASKING: 6,
    Step.ANSWERING: 6, Step.ABSENT: 7, Step.UNCONNECTED: 7, Step.UNKNOWN: 7,
}  # fmt: skip
_TO_RECEIVER = (Step.LINE, Step.FLIGHT, Step.ANNOUNCED, Step.UNKNOWN)
_TO_SENDER = (Step.ASKED,)
_AT_RECEIVER = (Step.VALIDATION, Step.HANDLING, Step.ASKING)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A drawn step of a path: a line between the lanes of two nodes, or a bar on one lane.

    A lane is the horizontal line of a node; the lanes are in the order of the path.
    """

    lanes: tuple[int, int]
    from_us: int
    until_us: int
    colour: int
    words: str
    is_control: bool = False


def path_picture(message: Message, path: MessagePath | FastPath, until_us: int, width: int = svg.WIDE) -> Html:
    """Draw a path over the first `until_us` microseconds after the publication."""
    if isinstance(path, MessagePath):
        stretches, held = list(_steps(path)), list(_first_copies(message, path))
    else:
        stretches, held = list(_fast_steps(path)), list(_fast_copies(message, path))
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
    for each in stretches:
        start, end = (down(lane) for lane in each.lanes)
        x, end_x = across(each.from_us), across(each.until_us)
        if start == end:
            drawn = svg.bar(x, start - _BAR / 2, max(1.5, end_x - x), _BAR)
        else:
            drawn = svg.line(x, start, end_x, end, "flight control" if each.is_control else "flight")
        parts.append(svg.coloured(each.colour, tag("title", each.words), drawn))
    parts += [svg.dot(across(us), down(lane), 4.5, words, "had") for lane, us, words in held]
    about = f"A lane for each of {len(names)} nodes, from the publication to {scale.ticks[-1][1]} after it."
    return svg.picture(width, height, parts, f"The path to {message.node(path.nodes[-1])}", about)


def legend(path: MessagePath | FastPath) -> Html:
    """Return the names of the steps on a path, by colour."""
    if not isinstance(path, MessagePath):
        return Html("")
    names: dict[int, list[str]] = {}
    for step in dict.fromkeys(each.step for hop in path.hops for each in hop.times):
        names.setdefault(_COLOURS[step], []).append(STEPS[step][0])
    return svg.legend({colour: ", ".join(words) for colour, words in names.items()}, marked=False)


def _steps(path: MessagePath) -> Iterator[_Stretch]:
    for number, hop in enumerate(path.hops):
        for each in hop.times:
            sender, receiver = number, number + 1
            if each.step in _TO_RECEIVER:
                lanes = (sender, receiver)
            elif each.step in _TO_SENDER:
                lanes = (receiver, sender)
            else:
                lanes = (receiver, receiver) if each.step in _AT_RECEIVER else (sender, sender)
            words = f"{STEPS[each.step][0]}: {milliseconds_exactly(each.took_us)}"
            is_control = each.step in (Step.ANNOUNCED, Step.ASKED)
            yield _Stretch(lanes, each.from_us, each.until_us, _COLOURS[each.step], words, is_control)


def _first_copies(message: Message, path: MessagePath) -> Iterator[tuple[int, int, str]]:
    times: Sequence[int] = (path.hops[0].held_us, *(hop.delivered_us for hop in path.hops))
    for lane, (node, us) in enumerate(zip(path.nodes, times, strict=True)):
        yield lane, us, f"{message.node(node)} had it after {milliseconds_exactly(message.us_after(us))}"


def _fast_steps(path: FastPath) -> Iterator[_Stretch]:
    had_us = path.hops[0].sent_us
    for lane, hop in enumerate(path.hops):
        if hop.sent_us > had_us:
            words = f"waited for a connection or a copy: {milliseconds_exactly(hop.sent_us - had_us)}"
            yield _Stretch((lane, lane), had_us, hop.sent_us, _COLOURS[Step.HELD], words)
        words = f"on the link: {milliseconds_exactly(hop.arrived_us - hop.sent_us)}"
        yield _Stretch((lane, lane + 1), hop.sent_us, hop.arrived_us, _COLOURS[Step.LINE], words)
        had_us = hop.had_us


def _fast_copies(message: Message, path: FastPath) -> Iterator[tuple[int, int, str]]:
    yield 0, message.history.start_us(), f"{message.node(path.nodes[0])} published it"
    for lane, hop in enumerate(path.hops, 1):
        after = milliseconds_exactly(message.us_after(hop.had_us))
        yield lane, hop.had_us, f"{message.node(hop.receiver)} could have had it after {after}"


MAX_ROWS = 400


def write_explained_page(out: Path, explanation: Explanation) -> None:
    """Write an explanation as one HTML file."""
    message = explanation.message
    parts = [section(each.title, each.id, *section_parts(explanation, each)) for each in explanation.sections]
    tree = message_tree(message, explanation.paths)
    if tree is not None:
        caption = "Rings are hops away from the publisher."
        if tree.drawn < tree.total:
            caption += f" {count(tree.drawn)} of {count(tree.total)} nodes are drawn."
        picture = tag("div", tree.picture, class_="chart tree")
        card = tag("div", tree.legend, picture, tag("p", caption, class_="faint"), class_="card")
        parts.append(section("Senders and receivers", "tree", card))
    title = f"message {message.name.number}"
    header = [
        tag("h1", capitalized(title)),
        tag("p", tag("span", heading(message).removeprefix(title), class_="name"), class_="subject"),
        tag("p", capitalized(explanation.summary), class_="verdict card"),
        *(tag("p", line, class_="faint") for line in message.unknowns()),
    ]
    write_page(out, f"{capitalized(title)} – {message.run.name}", header, parts, "explain.css")


def section_parts(explanation: Explanation, shown: Section, max_rows: int = MAX_ROWS) -> Iterator[Html]:
    """Yield the picture, or the table (at most `max_rows` rows) and the list, and the sentences of a section."""
    words = [tag("p", sentence) for sentence in shown.sentences]
    if shown.path is not None:
        draw = partial(path_picture, explanation.message, shown.path, shown.until_us)
        yield tag("div", legend(shown.path), svg.for_screens(draw, shown.title, "lanes"), *words, class_="card")
        return
    if shown.table is not None:
        yield from _table(shown.title, shown.table, max_rows)
    if shown.items:
        yield tag("ul", *(tag("li", item) for item in shown.items), class_="card words")
    if words:
        yield tag("div", *words, class_="card")


def _table(title: str, table: Table, max_rows: int) -> Iterator[Html]:
    yield labelled_table(table.head, table.rows[:max_rows], title, table.words)
    more = len(table.rows) - max_rows
    if more > 0:
        yield tag("p", f"{count(more)} more are in the output of --json.", class_="faint")
