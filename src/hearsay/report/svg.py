"""SVG for pages about studies, scores and messages: scales of axes, and elements of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, copysign, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.number_text import Form, apart, count, figure
from hearsay.report import palette
from hearsay.report.html import Html, ReportError, asset, join, scrolling, tag, write_file

if TYPE_CHECKING:
    from hearsay.studies.axes import Axis

_LOG_FROM = 30
"""A scale of positive values is logarithmic if the highest value is at least this many times the lowest value."""
_MAX_TICKS = 6
_MAX_DENSE_RATIO = 300
_MAX_LOG_TICKS = 8
_WIDE = 100.0
_MAX_SIGNED_TICKS = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale of an axis. `at` maps a value to a position from 0 to 1. `ticks` are positions and their labels."""

    at: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def scale_of_axis(axis: Axis) -> tuple[Scale, list[float]]:
    """Return the scale of an axis of a study, and for each step of the axis the value that the scale maps."""
    numbers = axis.numbers
    steps = len(axis.steps)
    if numbers is None or steps < 2:
        ticks = tuple(((step + 0.5) / steps, label) for step, label in enumerate(axis.labels))
        return Scale(lambda value: (value + 0.5) / steps, ticks), [float(step) for step in range(steps)]
    low, high = numbers[0], numbers[-1]
    logarithmic = low > 0 and high / low >= _LOG_FROM
    at = _log(low, high) if logarithmic else _linear(low, high)
    shown = range(steps) if steps <= _MAX_TICKS else range(0, steps, ceil(steps / _MAX_TICKS))
    ticks = tuple((at(numbers[step]), _short(numbers[step], axis.labels[step])) for step in shown)
    return Scale(at, ticks), list(numbers)


def scale_of_values(values: Sequence[float], form: Form) -> Scale:
    """Return a scale for values. A scale of shares (`percent`) is linear, and ends at 1 if a share is above 0.5.

    Any other scale is logarithmic if the lowest value is positive and the highest is at least `_LOG_FROM` times the
    lowest. A linear scale begins at 0 if the lowest value is not negative and less than 0.6 times the highest.
    """
    low, high = min(values), max(values)
    if form != "percent" and low > 0 and high / low >= _LOG_FROM:
        return _logarithmic(low, high, form)
    if form == "percent":
        high = 1.0 if high > 0.5 else high
    if low >= 0 and low < 0.6 * high:
        low = 0.0
    if high <= low:
        pad = abs(high) * 0.05 or 1.0
        low, high = (low - pad, high) if form == "percent" else (low - pad, high + pad)
    step = round_step((high - low) / 4)
    bottom = floor(low / step + 1e-9) * step
    top = high if form == "percent" and high == 1 else ceil(high / step - 1e-9) * step
    at = _linear(bottom, top)
    amounts = [bottom + number * step for number in range(int((top - bottom) / step + 1e-6) + 1)]
    digits = max(0, 2 - floor(log10(step)))
    words = apart([round(amount, digits) for amount in amounts], form)
    return Scale(at, tuple(zip(map(at, amounts), words, strict=True)))


def _logarithmic(low: float, high: float, form: Form) -> Scale:
    """Return a logarithmic scale with ticks at 1, 2 and 5 in each decade, or only at 1 if there are many decades."""
    digits = (1, 2, 5) if high / low <= _MAX_DENSE_RATIO else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    rounds = [digit * 10.0**power for power in powers for digit in digits]
    bottom = max(amount for amount in rounds if amount <= low)
    top = min(amount for amount in rounds if amount >= high)
    at = _log(bottom, top)
    shown = [amount for amount in rounds if bottom <= amount <= top]
    kept = shown[:: ceil(len(shown) / _MAX_LOG_TICKS)]
    return Scale(at, tuple(zip(map(at, kept), apart(kept, form), strict=True)))


def _linear(low: float, high: float) -> Callable[[float], float]:
    return lambda value: (value - low) / (high - low)


def _log(low: float, high: float) -> Callable[[float], float]:
    return lambda value: log10(value / low) / log10(high / low)


def round_step(rough: float) -> float:
    """Return the smallest number that is 1, 2, 2.5 or 5 times a power of ten and not smaller than `rough`."""
    power = 10.0 ** floor(log10(rough))
    return next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999)


def _short(number: float, label: str) -> str:
    return count(number) if number >= 1000 and number == int(number) else label


def signed_scale(values: Sequence[float]) -> Scale:
    """Return a scale for scores that includes 0. It is logarithmic on both sides of 0 if a value is at least 100 or
    at most -100, or if the highest value is at least 100 times as far from 0 as the lowest, or the reverse. Otherwise
    the scale is linear.

    Honest peers have scores of tens, and thresholds may be minus tens of thousands.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low == 0:
        low, high = -1.0, 1.0
    sides = [abs(end) for end in (low, high) if end]
    if max(sides) < _WIDE and (len(sides) == 1 or max(sides) < _WIDE * min(sides)):
        return scale_of_values([low, high], "number")
    down, up = (ceil(log10(max(1.0, amount))) if amount else None for amount in (-low, high))
    start, end = (0.0 if power is None else _signed_log(10.0**power) for power in (down, up))

    def at(value: float) -> float:
        return (_signed_log(value) + start) / (end + start)

    powers = range(-(down or 0), (up or 0) + 1)
    every = ceil(len(powers) / _MAX_SIGNED_TICKS)
    shown = [copysign(10.0 ** abs(power), power) if power else 0.0 for power in powers if power % every == 0]
    return Scale(at, tuple((at(amount), figure(amount)) for amount in shown))


def _signed_log(value: float) -> float:
    """Return the logarithm of 1 + |value| with the sign of the value. It is 0 for 0, and grows with the value."""
    return copysign(log10(1.0 + abs(value)), value)


_GAP = 12
LETTER = 3.6
"""Approximate half width of a letter in pixels."""
Point = tuple[float, float]


class Plot:
    """A picture with two axes, and the parts that are drawn on the plane between them."""

    def __init__(
        self, x: Scale, y: Scale, width: int, height: int, title: str, x_label: str = "", *, part: str = ""
    ) -> None:
        """Create the plot with its axes. `width` and `height` are pixels. `title` is the title of the figure, and
        `part` the title of this picture if a figure has several. If a page shows `title` above the picture, the style
        sheet hides it in the picture.
        """
        self.width, self.height = width, height
        self._x, self._y = x, y
        axes = [(title, y.ticks), *([(x_label, x.ticks)] if x_label else [])]
        ends = [f"{name} from {ticks[0][1]} to {ticks[-1][1]}" for name, ticks in axes if ticks]
        self._about = f"Axes: {'; '.join(ends)}."
        self._left, self._top = 12 + 7 * max((len(words) for _, words in y.ticks), default=3), 26
        self._right = max(14.0, *(LETTER * len(words) - (1 - share) * width for share, words in x.ticks))
        self._bottom = 40 if x_label else 24
        self._parts: list[Html] = [heading(title, part)]
        for share, words in y.ticks:
            if -0.001 <= share <= 1.001:
                down = self._down(share)
                self._parts.append(line(self._left, down, width - self._right, down, "grid"))
                self._parts.append(text(words, self._left - 6, down + 4, anchor="end"))
        bottom = self._down(0)
        self._parts.append(line(self._left, bottom, width - self._right, bottom, "axis"))
        self._parts += tick_labels([(self._across(share), words) for share, words in x.ticks], bottom + 16)
        if x_label:
            self._parts.append(text(x_label, (self._left + width - self._right) / 2, height - 4, anchor="middle"))

    def place(self, x: float, y: float) -> Point:
        """Return the position of a point of the plane, in pixels."""
        return self._across(self._x.at(x)), self._down(self._y.at(y))

    def upright(self, x: float, class_: str) -> Html:
        """Return a vertical line at a value of the x axis."""
        across = self._across(self._x.at(x))
        return line(across, self._down(0), across, self._down(1), class_)

    def plane(self) -> tuple[float, float, float]:
        """Return the left end of the plane, the right end of the picture, and the lower end of the plane, in
        pixels.
        """
        return self._left, float(self.width), self._down(0)

    def add(self, *parts: Html) -> None:
        self._parts += parts

    def svg(self, label: str) -> Html:
        return picture(self.width, self.height, self._parts, label, self._about)

    def _across(self, share: float) -> float:
        return self._left + share * (self.width - self._left - self._right)

    def _down(self, share: float) -> float:
        return self._top + (1 - share) * (self.height - self._top - self._bottom)


def tick_labels(ticks: Iterable[tuple[float, str]], y: float) -> Iterator[Html]:
    """Yield the labels below an axis, except each label that would overlap the previous one."""
    end = -1.0
    for at, words in ticks:
        half = LETTER * len(words)
        if at - half > end:
            yield text(words, at, y, anchor="middle")
            end = at + half + 4


def time_axis(
    scale: Scale, left: float, width: float, ends: tuple[float, float], full_width: float
) -> Iterator[Html]:
    """Yield a vertical grid line at each tick of a scale, and the label of the tick below the line. `ends` are the
    upper and the lower end of the lines. Labels end at `full_width` at most.
    """
    top, bottom = ends
    ticks = [(left + share * width, words) for share, words in scale.ticks]
    for at, _ in ticks:
        yield line(at, top, at, bottom, "grid")
    yield from tick_labels([(min(at, full_width - 4 * len(words)), words) for at, words in ticks], bottom + 16)


def picture(width: int, height: int, parts: Iterable[Html], title: str, about: str) -> Html:
    """Return a picture that can have the keyboard's focus, with a title and a description for screen readers."""
    words = tag("title", title), tag("desc", about)
    return tag("svg", *words, *parts, viewBox=f"0 0 {width} {height}", role="img", tabindex=0)


WIDE, NARROW = 1080, 340
"""Widths in pixels of a drawing for wide screens and of a drawing for narrow screens."""


def for_screens(draw: Callable[[int], Html], label: str, class_: str = "") -> Html:
    """Return a drawing in two widths, so that its text has the same size on all screens. The style sheet shows the
    width that fits.
    """
    wide, narrow = (
        tag("div", draw(width), class_=f"chart {class_} {shown}")
        for width, shown in ((WIDE, "on-wide"), (NARROW, "on-narrow"))
    )
    return join([scrolling(wide, label), narrow])


def write_pictures(
    folder: Path, title: str, drawings: Iterable[tuple[str, Sequence[Html], Mapping[int, str]]], across: int
) -> None:
    """Write each drawing with pictures as an SVG file, with `across` pictures in a row.

    A drawing is the name of the file, the pictures, and the entries of the legend by the numbers of their colours.
    """
    for name, pictures, entries in drawings:
        if pictures:
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise ReportError(f"{folder}: cannot write the pictures ({error.strerror})") from None
            write_file(folder / f"{name}.svg", _standalone(f"{title}: {name}", pictures, across, entries))


def _standalone(title: str, pictures: Sequence[Html], across: int, entries: Mapping[int, str]) -> str:
    """Return pictures of one size as one SVG file, with style and legend."""
    width, height = map(int, pictures[0].split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split())
    top = 26 if entries else _GAP
    placed: list[Html] = []
    for index, each in enumerate(pictures):
        x, y = _GAP + index % across * (width + _GAP), top + index // across * (height + _GAP)
        sized = each.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
        placed.append(tag("g", Html(sized), transform=f"translate({x} {y})"))
    full_width = _GAP + min(across, len(pictures)) * (width + _GAP)
    full_height = top + -(-len(pictures) // across) * (height + _GAP)
    at = _GAP + 8.0
    for number, words in entries.items():
        shape = tag("path", d=palette.MARKS[palette.mark_of(number)], transform=f"translate({at} 13)", class_="mark")
        placed += [coloured(number, shape), text(words, at + 9, 17)]
        at += 30 + 6.8 * len(words)
    colours = "".join(f".run-{number} {{ color: {colour} }} " for number, colour in enumerate(palette.LIGHT))
    style = tag("style", Html("\n" + asset("pictures.css") + colours))
    about = tag("desc", f"{len(pictures)} pictures, each with its own title.")
    body = join([tag("title", title), about, style, Html('<rect width="100%" height="100%" fill="#fff"/>'), *placed])
    attributes = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width} {full_height}" width="{full_width}"'
    return f"<svg {attributes}>{body}</svg>\n"


def text(words: str, x: float, y: float, *, class_: str = "", anchor: str | None = None) -> Html:
    return tag("text", words, x=_number(x), y=_number(y), class_=class_ or None, text_anchor=anchor)


def heading(title: str, part: str = "") -> Html:
    figure = tag("tspan", f"{title} – " if part else title, class_="figure-title")
    return tag("text", figure, part, x="2", y="14", class_="title")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=_number(x1), y1=_number(y1), x2=_number(x2), y2=_number(y2), class_=class_)


def polyline(places: Iterable[Point], class_: str, *, closed: bool = False) -> Html:
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in places)
    return tag("polygon" if closed else "polyline", points=points, class_=class_)


def bar(x: float, y: float, width: float, height: float) -> Html:
    return tag("rect", x=_number(x), y=_number(y), width=_number(width), height=_number(height), class_="mark")


def circle(place: Point, radius: float, class_: str, title: str = "") -> Html:
    words = [tag("title", title)] if title else []
    return tag("circle", *words, cx=_number(place[0]), cy=_number(place[1]), r=_number(radius), class_=class_)


def mark(number: int, place: Point, title: str, *, hollow: bool = False) -> Html:
    move = f"translate({_number(place[0])} {_number(place[1])})"
    class_ = "mark hollow" if hollow else "mark"
    shape = palette.MARKS[palette.mark_of(number)]
    return tag("path", tag("title", title), d=shape, transform=move, class_=class_)


def coloured(number: int, *parts: Html) -> Html:
    return tag("g", *parts, class_=f"run-{number % palette.COUNT}")


def legend(entries: Mapping[int, str], *, marked: bool = True) -> Html:
    """Return a legend. `entries` are names by the numbers of their colours. Each name has a mark or, if not `marked`,
    a bar.
    """
    keys = [tag("span", key(number, marked=marked), " ", words, class_="entry") for number, words in entries.items()]
    return tag("div", *keys, class_="tools") if keys else Html("")


def key(number: int, *, marked: bool = True) -> Html:
    """Return an element that precedes the name of a series in a legend. It has the colour `number` of the palette,
    and the shape of the mark with this number or, if not `marked`, of a bar."""
    shape = f" mark-{palette.mark_of(number)}" if marked else ""
    return tag("i", class_=f"key{shape} run-{number % palette.COUNT}", aria_hidden="true")


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
