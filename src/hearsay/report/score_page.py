"""The report of a score check as one HTML file, with curves of scripted peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from hearsay.number_text import count, figure, plural, seconds
from hearsay.report import svg
from hearsay.report.html import Html, capitalized, cut_table, notes, section, tag, write_page
from hearsay.report.svg import Scale, scale_of_values, signed_scale
from hearsay.score_check.check import (
    CHECKS,
    OFFENCE_HEAD,
    SILENCE_HEAD,
    Checked,
    not_looked_at,
    offence_rows,
    silence_rows,
    summary,
)
from hearsay.score_check.curves import PARTS, Curve, Played, play_all, traffic_of
from hearsay.score_check.findings import ScoreFinding
from hearsay.score_check.offences import levels

_HIGH = 400
_CARD_WIDE, _CARD_HIGH = 460, 280
_LABEL_WIDE, _LABEL_SHARE = 150, 0.33
"""Maximum width for the names of thresholds at the right of a picture: in pixels, and as a share of the picture."""
_LINE_HEIGHT = 11
"""Height of a line of text in pixels."""


def _overview(played: Played, width: int = svg.WIDE) -> Html:
    """Draw the scores of all scripted peers over time, with the thresholds."""
    curves = played.curves
    plot = _plot(played, [score for curve in curves for score in curve.scores], "Score", width, _HIGH)
    for number, curve in enumerate(curves):
        plot.add(svg.coloured(number, *_drawn(plot, number, curve.name, curve.times_s, curve.scores)))
    return plot.svg("Scores of scripted peers over time")


def _cards(played: Played) -> Iterator[Html]:
    """Yield a picture for each scripted peer, with its score and the parts of the score over time."""
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
    after_s = curve.first_pruned_s
    pruned = "never pruned" if after_s is None else f"first pruned after {figure(after_s)} s"
    return f"{capitalized(curve.does)}; {pruned}."


def _plot(played: Played, values: Sequence[float], title: str, width: int, height: int) -> svg.Plot:
    """Return a plot with a line for each threshold, and with room for `values`, which the caller adds."""
    thresholds = played.stage.worth.subject.score.thresholds
    lines = levels(played.stage.worth) | {
        "accept_exchange": thresholds.accept_exchange, "opportunistic_graft": thresholds.opportunistic_graft,
    }  # fmt: skip
    end = max(played.curves[0].times_s)
    right = end / (1 - min(_LABEL_WIDE / width, _LABEL_SHARE))
    plot = svg.Plot(_times(end, right), signed_scale([*values, *lines.values()]), width, height, title, "time")
    plot.add(*_thresholds(plot, lines, right))
    return plot


def _times(end: float, right: float) -> Scale:
    """Return a scale of time from 0 to `right`, with ticks up to `end`. The names of thresholds are between `end` and
    `right`.
    """
    rounded = scale_of_values([0.0, end], "s")
    share = rounded.at(right)
    ticks = tuple((at / share, words) for at, words in rounded.ticks if at <= rounded.at(end))
    return Scale(lambda value: value / right, ticks)


def _thresholds(plot: svg.Plot, lines: Mapping[str, float], right: float) -> Iterator[Html]:
    """Yield a line for each threshold, and labels that end at `right`. Thresholds that are close together share one
    label, above the line of the lowest.
    """
    groups: list[tuple[float, list[str]]] = []
    for name, level in sorted(lines.items(), key=lambda line: line[1]):
        x, y = plot.place(right, level)
        yield svg.line(*plot.place(0.0, level), x, y, "threshold")
        if not groups or groups[-1][0] - y > _LINE_HEIGHT:
            groups.append((y, []))
        groups[-1][1].append("0" if name == "negative" else name)
    for y, names in groups:
        yield svg.text(", ".join(names), plot.place(right, 0.0)[0], y - 3, class_="label", anchor="end")


def _drawn(
    plot: svg.Plot, number: int, name: str, times: Sequence[float], values: Sequence[float]
) -> tuple[Html, ...]:
    """Return a line through the points, and a mark at its end. The mark has a title with the name and the range."""
    places = [plot.place(x, y) for x, y in zip(times, values, strict=True)]
    words = f"{name}: {_span(values)}"
    return svg.polyline(places, "line"), svg.mark(number, places[-1], words)


def _span(values: Sequence[float]) -> str:
    return f"from {figure(min(values))} to {figure(max(values))}, at the end {figure(values[-1])}"


_MAX_ROWS = 400


def write_score_page(checked: Checked, out: Path) -> None:
    """Play the scripted peers (`hearsay.score_check.curves`), and write the page."""
    words = tag("p", tag("span", summary(checked), class_="name"), class_="subject")
    header, sections = [tag("h1", "Score check"), words], _sections(checked, play_all(checked.worth))
    write_page(out, f"{checked.subject.name} – Hearsay score check", header, sections, "score.css")


def _facts(checked: Checked) -> str:
    expected, score = checked.subject.expected, checked.subject.score.peer
    topics = sum(group.count for group in checked.subject.topics)
    return (
        f"{plural(topics, 'topic')}, meshes of {expected.degree}, a heartbeat every "
        f"{count(expected.heartbeat_ms)} ms, "
        f"a decay every {seconds(score.decay_interval_ms / 1000)}; the best score is "
        f"{figure(checked.worth.best)}, that of an average peer {figure(checked.worth.usual)}."
    )


def _sections(checked: Checked, played: Played) -> Iterator[Html]:
    chart = svg.for_screens(partial(_overview, played), "Scores of scripted peers over time")
    legend = svg.legend(dict(enumerate(curve.name for curve in played.curves)))
    how = tag("p", _how_played(checked, played), class_="faint")
    yield section("Scores over time", "scores", tag("div", chart, legend, how, class_="card"))
    yield section("Findings", "findings", _findings(checked.findings))
    parts = tag("div", *_cards(played), class_="figures"), svg.legend(dict(enumerate(PARTS)))
    yield section("Parts of the scores", "parts", *parts)
    table = cut_table(SILENCE_HEAD, list(silence_rows(checked)), "Cost of silence in one topic", (0, 1), _MAX_ROWS)
    note = tag("p", "For a peer with the best score in all other topics.", class_="faint")
    yield section("Silence in one topic", "silence", table, note)
    label = "Number of offences to fall below each threshold"
    table = cut_table(OFFENCE_HEAD, list(offence_rows(checked)), label, (0,), _MAX_ROWS)
    yield section("Offences", "offences", table, tag("p", notes()["offences"], class_="faint"))
    facts = [_facts(checked), *not_looked_at(checked.subject)]
    yield section("Definitions", "definitions", _definitions(checked.findings), *(tag("p", words) for words in facts))


def _findings(findings: Sequence[ScoreFinding]) -> Html:
    if not findings:
        return tag("p", "Nothing.", class_="card")
    items: list[Html] = []
    for each in findings[:_MAX_ROWS]:
        place, line = f": {each.place}" if each.place else "", f", line {each.line}" if each.line else ""
        severity = tag("span", f"{each.severity}: ", class_="severity")
        where = tag("small", f"{each.check}{place}{line}")
        items.append(tag("li", severity, each.words, " ", where, class_=f"severity-{each.severity}"))
    return tag("ul", *items, class_="findings card")


def _how_played(checked: Checked, played: Played) -> str:
    words = notes()["peers"]
    unknown = [topic for topic in played.stage.played if topic.per_refresh is None]
    if unknown:
        rate = traffic_of(checked.worth, unknown[0]) / checked.worth.interval_s
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        words += (
            f"The traffic of {unknown[0].group.name}{others} is unknown; the rate is what an average member needs to "
            f"reach its caps ({figure(rate)} messages per second). "
        )
    if played.stage.left_out:
        words += f"{plural(played.stage.left_out, 'group')} of topics with the lowest weight are not played."
    return words


def _definitions(findings: Sequence[ScoreFinding]) -> Html:
    found = {each.check for each in findings}
    entries = [
        part
        for check in CHECKS
        if check.id in found
        for part in (tag("dt", check.id), tag("dd", f"{capitalized(check.meaning)}."))
    ]
    return tag("dl", *entries) if entries else tag("p", "No check found anything.")
