"""Pieces of SVG that the charts of studies are made of. Titles inside are what a pointer shows and a reader reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hearsay.report.markup import Html, join, tag
from hearsay.report.study.scales import Scale

COLOURS = 8
_GAP = 12
LETTER = 3.6
"""Half the width of a letter, about."""
MARKS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z",
    "M-3.2-3.2h6.4v6.4h-6.4Z",
    "M0-4.2 4 3.4H-4Z",
    "M0-4.5 4.5 0 0 4.5-4.5 0Z",
    "M0 4.2 4-3.4H-4Z",
    "M-1.3-4.2h2.6v2.9h2.9v2.6h-2.9v2.9h-2.6v-2.9h-2.9v-2.6h2.9Z",
    "M0-4.4 4.2-1.4 2.6 3.6H-2.6L-4.2-1.4Z",
    "M-4.4-1.2h8.8v2.4h-8.8Z",
)

_STYLE = """
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #5b6470 }
.grid { stroke: #e8ebef } .axis { stroke: #c9d0d8 }
.title { font-size: 13px; font-weight: 600; fill: #1b1f24 } .value { fill: #1b1f24 } .value.on { fill: #fff }
.line { stroke: currentColor; fill: none; stroke-width: 2 } .band { fill: currentColor; opacity: .15 }
.mark { fill: currentColor } .mark.hollow { fill: #fff; stroke: currentColor; stroke-width: 1.4 }
.reach { stroke: currentColor; stroke-width: 1.2; opacity: .55 } .cell { fill: currentColor }
.front { stroke: currentColor; fill: none; stroke-width: 1.6; stroke-dasharray: 5 4 }
.bound { stroke: currentColor; stroke-width: 1.4; stroke-dasharray: 2 3 }
.run-0 { color: #0067b1 } .run-1 { color: #c94f00 } .run-2 { color: #00805c } .run-3 { color: #b0478a }
.run-4 { color: #8a6d00 } .run-5 { color: #3b8fd0 } .run-6 { color: #6b4fa0 } .run-7 { color: #59636e }
"""


class Plot:
    """A plane with its axes; what is drawn on it is collected."""

    def __init__(
        self, x: Scale, y: Scale, width: int, height: int, title: str, x_label: str = "", *, part: str = ""
    ) -> None:
        """`title` says what is drawn, `part` which part of it; a page that says the first itself hides it."""
        self.width, self.height = width, height
        self._x, self._y = x, y
        self._left, self._top = 12 + 7 * max((len(words) for _, words in y.ticks), default=3), 26
        self._right = max(14.0, *(LETTER * len(words) - (1 - share) * width for share, words in x.ticks))
        self._bottom = 40 if x_label else 24
        self._parts: list[Html] = [heading(title, part)]
        for share, words in y.ticks:
            if -0.001 <= share <= 1.001:
                height_here = self._down(share)
                self._parts.append(line(self._left, height_here, width - self._right, height_here, "grid"))
                self._parts.append(text(words, self._left - 6, height_here + 4, anchor="end"))
        bottom = self._down(0)
        self._parts.append(line(self._left, bottom, width - self._right, bottom, "axis"))
        self._x_ticks(bottom)
        if x_label:
            self._parts.append(text(x_label, (self._left + width - self._right) / 2, height - 4, anchor="middle"))

    def place(self, x: float, y: float) -> tuple[float, float]:
        return self._across(self._x.at(x)), self._down(self._y.at(y))

    def upright(self, x: float, class_: str) -> Html:
        """A line at a value of the abscissa, from bottom to top."""
        across = self._across(self._x.at(x))
        return line(across, self._down(0), across, self._down(1), class_)

    def add(self, part: Html) -> None:
        self._parts.append(part)

    def svg(self, label: str) -> Html:
        return svg(self.width, self.height, self._parts, label)

    def _x_ticks(self, bottom: float) -> None:
        """Words that would run into those before are left out."""
        end = -1.0
        for share, words in self._x.ticks:
            at, half = self._across(share), LETTER * len(words)
            if at - half > end:
                self._parts.append(text(words, at, bottom + 16, anchor="middle"))
                end = at + half + 4

    def _across(self, share: float) -> float:
        return self._left + share * (self.width - self._left - self._right)

    def _down(self, share: float) -> float:
        return self._top + (1 - share) * (self.height - self._top - self._bottom)


def svg(width: int, height: int, parts: Iterable[Html], label: str) -> Html:
    return tag("svg", *parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def standalone(pictures: Sequence[Html], across: int, entries: Sequence[str]) -> str:
    """Several pictures of one size as one SVG file with a style and a legend; colours without words are not in it."""
    width, height = _size(pictures[0])
    top = 26 if any(entries) else _GAP
    placed: list[Html] = []
    for index, picture in enumerate(pictures):
        x, y = _GAP + index % across * (width + _GAP), top + index // across * (height + _GAP)
        placed.append(tag("g", _sized(picture), transform=f"translate({x} {y})"))
    full_width = _GAP + min(across, len(pictures)) * (width + _GAP)
    full_height = top + -(-len(pictures) // across) * (height + _GAP)
    at = _GAP + 8.0
    for number, words in enumerate(entries):
        if not words:
            continue
        placed.append(
            coloured(
                number, tag("path", d=MARKS[number % len(MARKS)], transform=f"translate({at} 13)", class_="mark")
            )
        )
        placed.append(text(words, at + 9, 17))
        at += 30 + 6.8 * len(words)
    body = join([tag("style", Html(_STYLE)), Html('<rect width="100%" height="100%" fill="#fff"/>'), *placed])
    attributes = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width} {full_height}" width="{full_width}"'
    return f"<svg {attributes}>{body}</svg>\n"


def _sized(picture: Html) -> Html:
    """A nested picture needs its size said."""
    width, height = _size(picture)
    return Html(picture.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1))


def _size(picture: Html) -> tuple[int, int]:
    width, height = picture.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    return int(width), int(height)


def text(words: str, x: float, y: float, *, class_: str = "", anchor: str | None = None) -> Html:
    return tag("text", words, x=_n(x), y=_n(y), class_=class_ or None, text_anchor=anchor)


def heading(title: str, part: str = "") -> Html:
    """What is drawn, and which part of it."""
    told = f"{title} – " if part else title
    return tag("text", tag("tspan", told, class_="figure-title"), part, x="2", y="14", class_="title")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), class_=class_)


def join_places(start: tuple[float, float], end: tuple[float, float], class_: str) -> Html:
    return line(*start, *end, class_)


def polyline(places: Sequence[tuple[float, float]], class_: str) -> Html:
    return tag("polyline", points=" ".join(f"{_n(x)},{_n(y)}" for x, y in places), class_=class_)


def polygon(places: Sequence[tuple[float, float]], class_: str) -> Html:
    return tag("polygon", points=" ".join(f"{_n(x)},{_n(y)}" for x, y in places), class_=class_)


def mark(number: int, x: float, y: float, title: str, *, hollow: bool = False) -> Html:
    shape = MARKS[number % len(MARKS)]
    class_ = "mark hollow" if hollow else "mark"
    return tag("path", tag("title", title), d=shape, transform=f"translate({_n(x)} {_n(y)})", class_=class_)


def coloured(number: int, *parts: Html) -> Html:
    return tag("g", *parts, class_=f"run-{number % COLOURS}")


def key(number: int, words: str) -> Html:
    """An entry of a legend."""
    shape = tag("path", d=MARKS[number % len(MARKS)], class_="mark")
    picture = tag("svg", shape, viewBox="-6 -6 12 12", class_=f"key run-{number % COLOURS}", aria_hidden="true")
    return tag("span", picture, " ", words, class_="entry")


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
