"""A path as a picture: a lane for each node, time to the right, steps as bars on lanes and lines between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hearsay.explain.fastest import FastPath
from hearsay.explain.message import Message
from hearsay.explain.path import Path, Step
from hearsay.explain.words import STEPS, milliseconds_exactly
from hearsay.report import svg
from hearsay.report.html import Html, tag
from hearsay.report.scales import scale_of_values

_WIDTH, _LANE = 820, 34
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
    """A step: a line between two lanes, or a bar on one."""

    lanes: tuple[int, int]
    from_us: int
    until_us: int
    colour: int
    words: str
    is_control: bool = False


def path_picture(message: Message, path: Path | FastPath, until_us: int) -> Html:
    """Draw a path from the publication to `until_us` after it."""
    if isinstance(path, Path):
        stretches, held = list(_steps(path)), list(_first_copies(message, path))
    else:
        stretches, held = list(_fast_steps(path)), list(_fast_copies(message, path))
    names = [name if len(name) <= _MAX_NAME_LENGTH else f"…{name[1 - _MAX_NAME_LENGTH :]}"
             for name in map(message.node, path.nodes)]  # fmt: skip
    left = 16 + 7 * max(len(name) for name in names)
    scale = scale_of_values([0.0, max(until_us, 1) / 1000], "ms")
    width, height = _WIDTH - left - _RIGHT, _TOP + _LANE * len(names) + _BOTTOM

    def across(us: int) -> float:
        return left + max(0.0, scale.at(message.us_after(us) / 1000)) * width

    def down(lane: int) -> float:
        return _TOP + _LANE * (lane + 0.5)

    parts = list(svg.time_axis(scale, left, width, (_TOP, height - _BOTTOM), _WIDTH))
    for lane, name in enumerate(names):
        parts.append(svg.line(left, down(lane), _WIDTH - _RIGHT, down(lane), "axis"))
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
    return svg.picture(_WIDTH, height, parts, f"The path to {message.node(path.nodes[-1])}")


def legend(path: Path | FastPath) -> Html:
    """Return the names of the steps on a path, by colour."""
    if not isinstance(path, Path):
        return Html("")
    names: dict[int, list[str]] = {}
    for step in dict.fromkeys(each.step for hop in path.hops for each in hop.times):
        names.setdefault(_COLOURS[step], []).append(STEPS[step][0])
    return svg.legend({colour: ", ".join(words) for colour, words in names.items()}, svg.BAR_KEY)


def _steps(path: Path) -> Iterator[_Stretch]:
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


def _first_copies(message: Message, path: Path) -> Iterator[tuple[int, int, str]]:
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
