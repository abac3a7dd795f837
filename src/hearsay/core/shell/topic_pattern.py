"""Regular expressions over topics' names, in a time that no peer can stretch.

Peers choose the names, and an expression that goes back and tries again may take for ever on a name made for it. So
all ways through an expression are followed side by side, a character at a time (Thompson, 1968): a name costs at most
its length times `MOST_STEPS`.

Understood is what Python writes: characters and `.`, classes, `\\d \\w \\s` and their opposites, groups, `|`, `* + ?`
and `{m,n}`, `^ $ \\A \\Z`. What cannot be done so, such as `\\1` or `(?=…)`, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

MOST_STEPS = 500
_MOST_DEPTH = 50
_COUNTED = re.compile(r"\{(?:(\d{1,4})(,(\d{0,4}))?|,(\d{1,4}))\}", re.ASCII)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_KINDS: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_EDGES = {"A": "start", "Z": "end"}


@dataclass(frozen=True, slots=True)
class _Chars:
    """One character of a class."""

    ranges: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, bool], ...] = ()
    """`d`, `w` or `s`, and whether it is what is not of that kind."""
    negated: bool = False

    def has(self, char: str) -> bool:
        found = any(low <= char <= high for low, high in self.ranges)
        found = found or any(_KINDS[kind](char) != opposite for kind, opposite in self.kinds)
        return found != self.negated


@dataclass(frozen=True, slots=True)
class _Edge:
    """`start`, `end`, or `last`: the end, or before a line break that ends the text."""

    where: str

    def holds(self, place: int, text: str) -> bool:
        if self.where == "start":
            return place == 0
        return place == len(text) or (self.where == "last" and place == len(text) - 1 and text[place] == "\n")


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    ways: tuple[_Part, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Part
    least: int
    most: int | None


_Part: TypeAlias = _Chars | _Edge | _Sequence | _Either | _Repeat


@dataclass(slots=True)
class _Fork:
    """Go on at each of these steps."""

    ways: list[int]


_Step: TypeAlias = _Chars | _Edge | _Fork | None


class TopicPattern:
    """`ValueError` says what is wrong with an expression."""

    __slots__ = ("_steps",)

    def __init__(self, expression: str) -> None:
        self._steps: list[_Step] = []
        self._add(_Reader(expression).whole())
        self._steps.append(None)

    def is_in(self, text: str) -> bool:
        """Whether it is found anywhere in a text."""
        here: set[int] = set()
        for place in range(len(text) + 1):
            if self._reach(here, 0, place, text):
                return True
            if place == len(text):
                return False
            there: set[int] = set()
            for number in here:
                step = self._steps[number]
                if (
                    isinstance(step, _Chars)
                    and step.has(text[place])
                    and self._reach(there, number + 1, place + 1, text)
                ):
                    return True
            here = there
        return False

    def _reach(self, reached: set[int], first: int, place: int, text: str) -> bool:
        """Add a step and all that follow without a character; whether the end is one of them."""
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            match self._steps[number]:
                case None:
                    return True
                case _Fork(ways):
                    waiting += ways
                case _Edge() as edge:
                    if edge.holds(place, text):
                        waiting.append(number + 1)
                case _Chars():
                    pass
        return False

    def _add(self, part: _Part) -> None:
        match part:
            case _Chars() | _Edge():
                self._append(part)
            case _Sequence(parts):
                for each in parts:
                    self._add(each)
            case _Either(ways):
                self._add_either(ways)
            case _Repeat(inner, least, most):
                for _ in range(least):
                    before = len(self._steps)
                    self._add(inner)
                    if len(self._steps) == before:
                        break  # nothing, however often
                if most is None:
                    begin, fork = len(self._steps), self._fork()
                    self._add(inner)
                    self._append(_Fork([begin]))
                    fork.ways.append(len(self._steps))
                else:
                    forks: list[_Fork] = []
                    for _ in range(most - least):
                        forks.append(self._fork())
                        self._add(inner)
                    for fork in forks:
                        fork.ways.append(len(self._steps))

    def _add_either(self, ways: Sequence[_Part]) -> None:
        ends: list[_Fork] = []
        for way in ways[:-1]:
            fork = self._fork()
            self._add(way)
            ends.append(_Fork([]))
            self._append(ends[-1])
            fork.ways.append(len(self._steps))
        self._add(ways[-1])
        for end in ends:
            end.ways.append(len(self._steps))

    def _fork(self) -> _Fork:
        """A fork of which one way goes on behind it."""
        fork = _Fork([len(self._steps) + 1])
        self._append(fork)
        return fork

    def _append(self, step: _Step) -> None:
        if len(self._steps) >= MOST_STEPS:
            raise ValueError(f"takes more than {MOST_STEPS} steps")
        self._steps.append(step)


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0

    def whole(self) -> _Part:
        part = self._either()
        if self._place < len(self._text):
            raise ValueError("has a ) without a (")
        return part

    @property
    def _next(self) -> str:
        """The next character; nothing at the end."""
        return self._text[self._place : self._place + 1]

    def _take(self) -> str:
        char = self._next
        self._place += 1
        return char

    def _either(self) -> _Part:
        ways = [self._sequence()]
        while self._next == "|":
            self._take()
            ways.append(self._sequence())
        return ways[0] if len(ways) == 1 else _Either(tuple(ways))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._next and self._next not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Sequence(tuple(parts))

    def _repeated(self, part: _Part) -> _Part:
        counts = self._counts()
        if counts is None:
            return part
        if isinstance(part, _Edge):
            raise ValueError("repeats an edge")
        least, most = counts
        if most is not None and most < least:
            raise ValueError(f"repeats {least} to {most} times")
        if self._next == "?":
            self._take()  # whether more or fewer are tried first does not matter for what is found
        if self._next == "+" or self._counts() is not None:
            raise ValueError("repeats what is repeated; put it into a group")
        return _Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """How often what stands before is repeated; None if it is not."""
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._next)
        if simple is not None:
            self._take()
            return simple
        found = _COUNTED.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        exact, several, most, at_most = found.groups()
        if at_most is not None:
            return 0, int(at_most)
        if several is None:
            return int(exact), int(exact)
        return int(exact), int(most) if most else None

    def _atom(self) -> _Part:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _Chars((("\n", "\n"),), negated=True)
            case "^":
                return _Edge("start")
            case "$":
                return _Edge("last")
            case "\\":
                if self._next in _EDGES:
                    return _Edge(_EDGES[self._take()])
                return self._escaped()
            case "*" | "+" | "?":
                raise ValueError(f"repeats nothing: {char}")
            case _:
                return _one(char)

    def _group(self) -> _Part:
        if self._next == "?":
            if not self._text.startswith("?:", self._place):
                raise ValueError("has a group that is not understood: (?…; only (…) and (?:…) are")
            self._place += 2
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError(f"has more than {_MOST_DEPTH} groups in each other")
        part = self._either()
        self._depth -= 1
        if self._take() != ")":
            raise ValueError("has a ( without a )")
        return part

    def _escaped(self) -> _Chars:
        char = self._take()
        if char.lower() in _KINDS:
            return _Chars((), ((char.lower(), char.isupper()),))
        if char in _CONTROL:
            return _one(_CONTROL[char])
        if not char or (char.isascii() and char.isalnum()):
            raise ValueError(f"has an escape that is not understood: \\{char}")
        return _one(char)

    def _class(self) -> _Chars:
        negated = self._next == "^"
        self._place += negated
        ranges: list[tuple[str, str]] = []
        kinds: list[tuple[str, bool]] = []
        first = True
        while first or self._next != "]":
            first = False
            low = self._member()
            if self._next == "-" and self._text[self._place + 1 : self._place + 2] != "]":
                self._take()
                high = self._member()
                if low.kinds or high.kinds or low.ranges > high.ranges:
                    raise ValueError("has a class with a range that is none")
                ranges.append((low.ranges[0][0], high.ranges[0][0]))
            else:
                ranges += low.ranges
                kinds += low.kinds
        self._take()
        return _Chars(tuple(ranges), tuple(kinds), negated)

    def _member(self) -> _Chars:
        char = self._take()
        if not char:
            raise ValueError("has a [ without a ]")
        return self._escaped() if char == "\\" else _one(char)


def _one(char: str) -> _Chars:
    return _Chars(((char, char),))
