"""The pictures of a check of scores: all scripted peers in one, and each peer with the parts of its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hearsay.report import svg
from hearsay.report.html import Html, capitalized, tag
from hearsay.report.scales import Scale, scale_of_values, signed_scale
from hearsay.score_check.curves import PARTS, Curve, Played
from hearsay.score_check.offences import levels
from hearsay.text.numbers import figure

_WIDE, _HIGH = 760, 380
_CARD_WIDE, _CARD_HIGH = 460, 280
_ROOM = 1.25
_LETTERS = 11
"""Height of a line of text."""


def overview(played: Played) -> Html:
    """Draw the scores of all peers, with the thresholds."""
    curves = played.curves
    plot = _plot(played, [score for curve in curves for score in curve.scores], "Score", _WIDE, _HIGH)
    for number, curve in enumerate(curves):
        plot.add(svg.coloured(number, *_drawn(plot, number, curve.name, curve.times_s, curve.scores)))
    return plot.svg("Scores of scripted peers over time")


def cards(played: Played) -> Iterator[Html]:
    """Yield a picture of each peer."""
    for curve in played.curves:
        there = [number for number in range(len(PARTS)) if any(curve.parts[number])]
        values = [value for number in there for value in curve.parts[number]]
        plot = _plot(played, [*values, *curve.scores], curve.name, _CARD_WIDE, _CARD_HIGH)
        for number in there:
            drawn = _drawn(plot, number, PARTS[number], curve.times_s, curve.parts[number])
            plot.add(svg.coloured(number, *drawn))
        places = [plot.place(x, y) for x, y in zip(curve.times_s, curve.scores, strict=True)]
        plot.add(tag("g", tag("title", f"score: {_span(curve.scores)}"), svg.polyline(places, "line whole")))
        yield tag(
            "figure",
            tag("figcaption", tag("h3", curve.name), tag("p", _caption(curve), class_="question")),
            tag("div", plot.svg(f"Score of the peer “{curve.name}” and its parts"), class_="chart"),
            class_="card",
        )


def _caption(curve: Curve) -> str:
    pruned = (
        "never pruned" if curve.first_pruned_s is None else f"first pruned after {figure(curve.first_pruned_s)} s"
    )
    return f"{capitalized(curve.does)}; {pruned}."


def _plot(played: Played, values: Sequence[float], title: str, width: int, height: int) -> svg.Plot:
    """Return a plane with the thresholds."""
    lines = levels(played.stage.worth) | {
        name: getattr(played.stage.worth.subject.score.thresholds, name)
        for name in ("accept_exchange", "opportunistic_graft")
    }
    end = max(played.curves[0].times_s)
    plot = svg.Plot(_times(end), signed_scale([*values, *lines.values()]), width, height, title, "time")
    plot.add(*_thresholds(plot, lines, end * _ROOM))
    return plot


def _times(end: float) -> Scale:
    """With room at the right for what the thresholds are called."""
    rounded = scale_of_values([0.0, end], "s")
    share = rounded.at(end) * _ROOM
    ticks = tuple((at / share, words) for at, words in rounded.ticks if at <= rounded.at(end))
    return Scale(lambda value: value / (end * _ROOM), ticks)


def _thresholds(plot: svg.Plot, lines: Mapping[str, float], right: float) -> Iterator[Html]:
    """Yield a line for each threshold; close ones share a label above the lowest."""
    groups: list[tuple[float, list[str]]] = []
    for name, level in sorted(lines.items(), key=lambda line: line[1]):
        x, y = plot.place(right, level)
        yield svg.line(*plot.place(0.0, level), x, y, "threshold")
        if not groups or groups[-1][0] - y > _LETTERS:
            groups.append((y, []))
        groups[-1][1].append("0" if name == "negative" else name)
    for y, names in groups:
        yield svg.text(", ".join(names), plot.place(right, 0.0)[0], y - 3, class_="label", anchor="end")


def _drawn(
    plot: svg.Plot, number: int, name: str, times: Sequence[float], values: Sequence[float]
) -> tuple[Html, ...]:
    """Return a line with a mark at its end."""
    places = [plot.place(x, y) for x, y in zip(times, values, strict=True)]
    words = f"{name}: {_span(values)}"
    return svg.polyline(places, "line"), svg.mark(number, places[-1], words)


def _span(values: Sequence[float]) -> str:
    return f"from {figure(min(values))} to {figure(max(values))}, at the end {figure(values[-1])}"
