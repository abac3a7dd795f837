"""A path as a picture: a lane for each node, time to the right, what waited on the lanes and what flew between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hearsay.explain.fastest import FastPath
from hearsay.explain.node_words import STEP_WORDS, cost
from hearsay.explain.path import Path, Spell, Step
from hearsay.explain.story import Story
from hearsay.report.markup import Html, tag
from hearsay.report.study import drawing
from hearsay.report.study.scales import Scale, scale_of_values

_WIDE, _LANE = 820, 34
_TOP, _BOTTOM, _RIGHT = 10, 26, 16
_LONGEST_NAME = 18
_BAR = 9.0
_COLOURS = {
    Step.LINE: 0, Step.FLIGHT: 0, Step.QUEUE: 1, Step.VALIDATION: 2, Step.HANDLING: 2, Step.HEARTBEAT: 3,
    Step.NEXT_IHAVE: 3, Step.HELD: 3, Step.UPLINK: 4, Step.ANNOUNCED: 5, Step.ASKED: 5, Step.ASKING: 6,
    Step.ANSWERING: 6, Step.ABSENT: 7, Step.UNCONNECTED: 7, Step.UNTOLD: 7,
}  # fmt: skip
_THERE = (Step.LINE, Step.FLIGHT, Step.ANNOUNCED, Step.UNTOLD)
"""From the sender's lane to the receiver's."""
_AT_THE_RECEIVER = (Step.VALIDATION, Step.HANDLING, Step.ASKING)


class Lanes:
    """Where nodes and times are in a picture."""

    def __init__(self, names: Sequence[str], end_us: int) -> None:
        self._names = [name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME + 1 :]}" for name in names]
        self._left = 16 + 7 * max(len(name) for name in self._names)
        self._scale: Scale = scale_of_values([0.0, max(end_us, 1) / 1000], "ms")
        self.height = _TOP + _LANE * len(names) + _BOTTOM

    def across(self, us: int) -> float:
        share = max(0.0, self._scale.at(us / 1000))
        return self._left + share * (_WIDE - self._left - _RIGHT)

    def down(self, lane: int) -> float:
        return _TOP + _LANE * (lane + 0.5)

    def frame(self) -> Iterator[Html]:
        bottom = self.height - _BOTTOM
        end = -1.0
        for share, words in self._scale.ticks:
            at = self._left + share * (_WIDE - self._left - _RIGHT)
            yield drawing.line(at, _TOP, at, bottom, "grid")
            if at - drawing.LETTER * len(words) > end:
                yield drawing.text(words, min(at, _WIDE - 4 * len(words)), bottom + 16, anchor="middle")
                end = at + drawing.LETTER * len(words) + 4
        for lane, name in enumerate(self._names):
            yield drawing.line(self._left, self.down(lane), _WIDE - _RIGHT, self.down(lane), "axis")
            yield drawing.text(name, self._left - 8, self.down(lane) + 4, class_="value", anchor="end")


def timeline(story: Story, path: Path) -> Html:
    """The path of a first copy."""
    start = story.books.start_us()
    lanes = Lanes([story.node(node) for node in path.nodes], path.delivered_us - start)
    parts = [*lanes.frame()]
    for number, hop in enumerate(path.hops):
        parts += [_spell(story, lanes, number, spell) for spell in hop.spells]
    for lane, (node, had_us) in enumerate(_havings(path)):
        words = f"{story.node(node)} had it after {cost(had_us - start)}"
        parts.append(_mark(lanes, lane, had_us - start, words))
    return drawing.svg(_WIDE, lanes.height, parts, f"The path of the first copy to {story.node(path.node)}")


def fast_timeline(story: Story, path: FastPath, end_us: int) -> Html:
    """The fastest path, on the same scale of time."""
    start = story.books.start_us()
    lanes = Lanes([story.node(node) for node in path.nodes], end_us)
    parts = [*lanes.frame(), _mark(lanes, 0, 0, f"{story.node(path.nodes[0])} published it")]
    had_us = path.hops[0].sent_us
    for number, hop in enumerate(path.hops):
        if hop.sent_us > had_us:
            waiting = _bar(lanes, number, had_us - start, hop.sent_us - start)
            title = tag("title", f"waited for the connection, or until a copy went: {cost(hop.sent_us - had_us)}")
            parts.append(tag("g", title, waiting, class_="run-3"))
        had_us = hop.had_us
        line = drawing.join_places(
            (lanes.across(hop.sent_us - start), lanes.down(number)),
            (lanes.across(hop.arrived_us - start), lanes.down(number + 1)),
            "flight",
        )
        title = tag("title", f"on the line {cost(hop.arrived_us - hop.sent_us)}")
        parts.append(tag("g", title, line, class_="run-0"))
        words = f"{story.node(hop.receiver)} could have had it after {cost(hop.had_us - start)}"
        parts.append(_mark(lanes, number + 1, hop.had_us - start, words))
    return drawing.svg(_WIDE, lanes.height, parts, "The path that would have been fastest")


def legend(path: Path) -> Html:
    there = dict.fromkeys(spell.step for hop in path.hops for spell in hop.spells)
    by_colour: dict[int, list[str]] = {}
    for step in there:
        by_colour.setdefault(_COLOURS[step], []).append(STEP_WORDS[step])
    keys = [_key(colour, ", ".join(words)) for colour, words in by_colour.items()]
    return tag("p", *keys, class_="tools")


def _key(colour: int, words: str) -> Html:
    bar = tag("rect", x="-6", y="-3", width="12", height="6", class_="mark")
    picture = tag("svg", bar, viewBox="-6 -6 12 12", class_=f"key run-{colour}", aria_hidden="true")
    return tag("span", picture, " ", words, class_="entry")


def _havings(path: Path) -> Iterator[tuple[int, int]]:
    if path.hops:
        yield path.hops[0].sender, path.hops[0].held_us
    for hop in path.hops:
        yield hop.receiver, hop.delivered_us


def _spell(story: Story, lanes: Lanes, number: int, spell: Spell) -> Html:
    start = story.books.start_us()
    left, right = lanes.across(spell.from_us - start), lanes.across(spell.until_us - start)
    sender, receiver = lanes.down(number), lanes.down(number + 1)
    words = f"{STEP_WORDS[spell.step]}: {cost(spell.took_us)}"
    between = spell.step in _THERE or spell.step is Step.ASKED
    if between:
        ends = (sender, receiver) if spell.step in _THERE else (receiver, sender)
        control = " control" if spell.step in (Step.ANNOUNCED, Step.ASKED) else ""
        drawn = drawing.line(left, ends[0], right, ends[1], f"flight{control}")
    else:
        lane = number + (spell.step in _AT_THE_RECEIVER)
        drawn = _bar(lanes, lane, spell.from_us - start, spell.until_us - start)
    return tag("g", tag("title", words), drawn, class_=f"run-{_COLOURS[spell.step]}")


def _bar(lanes: Lanes, lane: int, from_us: int, until_us: int) -> Html:
    left, top = lanes.across(from_us), lanes.down(lane) - _BAR / 2
    width = max(1.5, lanes.across(until_us) - left)
    return tag("rect", x=f"{left:.1f}", y=f"{top:.1f}", width=f"{width:.1f}", height=f"{_BAR:g}", class_="mark")


def _mark(lanes: Lanes, lane: int, us: int, words: str) -> Html:
    return tag("circle", tag("title", words), cx=f"{lanes.across(us):.1f}", cy=f"{lanes.down(lane):.1f}", r="4.5",
               class_="had")  # fmt: skip
