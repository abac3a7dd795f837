"""The report of a comparison: one page with the verdict, how far the sides differ, and every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hearsay.report.document import asset, document, footer, scrolling
from hearsay.report.markup import Html, tag
from hearsay.report.study import drawing
from hearsay.report.study.scales import Scale, round_step, scale_of_values
from hearsay.report.study.study_page import write_page
from hearsay.studies.comparison import Compared, Verdict
from hearsay.studies.comparison_words import interval_words, overall_words, value_words, verdict_words
from hearsay.studies.one_run import Row
from hearsay.studies.points import Point
from hearsay.studies.tables import values_at

WIDTH, ROW = 760, 46
_LEFT = 170
_COLOURS = {Verdict.BETTER: 2, Verdict.WORSE: 1}


def write_comparison_report(
    lines: Sequence[Compared], names: tuple[str, str], points: Sequence[Point], results: Mapping[str, Row], out: Path
) -> None:
    seeds = max((line.difference.seeds for line in lines if line.difference is not None), default=0)
    is_paired = points[0].seeds == points[1].seeds
    way = "the same seeds on both sides, compared seed by seed" if is_paired else "different seeds on either side"
    differences = tag("div", tag("div", _forest(lines), class_="chart front"), _forest_note(), class_="card")
    header = tag(
        "header",
        tag("h1", "Comparison"),
        tag("p", "A: ", tag("b", names[0]), Html("<br>"), "B: ", tag("b", names[1])),
        tag("p", f"{seeds} seeds; {way}.", class_="faint"),
    )
    sections = [
        tag("section", tag("p", overall_words(lines, names), class_="card verdict"), id="verdict"),
        tag("section", tag("h2", "How far B is from A"), differences, id="differences"),
        tag("section", tag("h2", "In figures"), _table(lines), _note(), id="figures"),
        tag(
            "section",
            tag("h2", "Seed by seed"),
            tag("div", *_strips(lines, points, results), class_="multiples"),
            id="seeds",
        ),
    ]
    body = [header, tag("main", *sections), footer()]
    title = f"{names[1]} against {names[0]} – Hearsay comparison"
    write_page(out, document(title, body, style=asset("page.css") + asset("study.css")))


def _forest(lines: Sequence[Compared]) -> Html:
    """Each figure's difference on one scale."""
    reaches = [_relative(line) for line in lines]
    bounds = [bound for reach in reaches if reach is not None for bound in reach]
    far = max((abs(bound) for bound in bounds), default=0.0) * 1.1 or 0.01
    height = 30 + ROW * len(lines) + 30

    def across(share: float) -> float:
        return _LEFT + (share / far + 1) / 2 * (WIDTH - _LEFT - 20)

    parts = [drawing.line(across(0), 20, across(0), height - 30, "axis")]
    step = round_step(far / 3)
    for share in (-2 * step, -step, step, 2 * step):
        parts.append(drawing.line(across(share), 20, across(share), height - 30, "grid"))
        parts.append(drawing.text(f"{share * 100:+.3g} %", across(share), height - 10, anchor="middle"))
    parts.append(drawing.text("no difference", across(0), height - 10, anchor="middle"))
    for number, (line, reach) in enumerate(zip(lines, reaches, strict=True)):
        y = 30 + ROW * (number + 0.4)
        parts.append(drawing.text(line.figure.title, _LEFT - 12, y + 4, class_="value", anchor="end"))
        if reach is None:
            parts.append(drawing.text("not measured", across(0) + 8, y + 4))
            continue
        low, middle, high, least = reach
        left, wide = across(-least), across(least) - across(-least)
        bar = tag("rect", x=f"{left:.1f}", y=f"{y - 8:.1f}", width=f"{wide:.1f}", height=16, class_="unseen-range")
        colour = _COLOURS.get(line.verdict, 7)
        reach_line = drawing.line(across(low), y, across(high), y, "line")
        parts += [bar, drawing.coloured(colour, reach_line, drawing.mark(0, across(middle), y, interval_words(line)))]
        parts.append(drawing.text(str(line.verdict), _LEFT - 12, y + 18, anchor="end"))
    return drawing.svg(WIDTH, height, parts, "Differences with their intervals")


def _relative(line: Compared) -> tuple[float, float, float, float] | None:
    """Low, estimate, high and the least detectable, as shares of A's mean."""
    difference = line.difference
    if difference is None:
        return None
    amounts = (difference.low, difference.estimate, difference.high, line.detectable)
    if line.figure.form == "percent" or not difference.mean_a:
        return amounts
    low, middle, high, least = (amount / abs(difference.mean_a) for amount in amounts)
    return low, middle, high, least


def _table(lines: Sequence[Compared]) -> Html:
    head = [tag("th", title, scope="col") for title in ("", "A", "B", "B − A (95 % interval)", "p", "verdict")]
    body: list[Html] = []
    for line in lines:
        difference = line.difference
        cells = ["–", "–", "–", "–"]
        if difference is not None:
            cells = [value_words(line, value) for value in (difference.mean_a, difference.mean_b)]
            cells += [interval_words(line), f"{difference.p:.2g}"]
        body.append(
            tag(
                "tr",
                tag("th", line.figure.title, scope="row"),
                *(tag("td", cell, class_="number") for cell in cells),
                tag("td", verdict_words(line)),
            )
        )
    return scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body)), "Both sides in figures")


def _forest_note() -> Html:
    return tag(
        "p",
        "Bars are 95 % intervals, in shares of A's mean (delivered: in percentage points). "
        "Grey: differences so small that fewer than 80 of 100 such comparisons would see them.",
        class_="faint",
    )


def _note() -> Html:
    return tag(
        "p",
        "Each interval by itself holds the true difference in 95 of 100 cases. The verdicts go by Holm's method over "
        "all figures together, so that of 100 comparisons of equals at most 5 call any figure better or worse. "
        "“Would see” is the difference that 80 of 100 such comparisons would call one.",
        class_="faint",
    )


def _strips(lines: Sequence[Compared], points: Sequence[Point], results: Mapping[str, Row]) -> list[Html]:
    """The value of every seed on both sides; joined by a line where seeds are the same."""
    pictures: list[Html] = []
    for line in lines:
        sides = [values_at(point, results, line.figure.name) for point in points]
        if not all(sides):
            continue
        y = scale_of_values([*sides[0], *sides[1]], line.figure.form)
        x = Scale(lambda value: 0.25 + value / 2, ((0.25, "A"), (0.75, "B")))
        plot = drawing.Plot(x, y, 300, 220, line.figure.title)
        places = [[plot.place(side, value) for value in sides[side]] for side in (0, 1)]
        if points[0].seeds == points[1].seeds and len(sides[0]) == len(sides[1]):
            for before, after in zip(*places, strict=True):
                plot.add(drawing.join_places(before, after, "grid"))
        for side in (0, 1):
            marks = [
                drawing.mark(side, across, down, value_words(line, value))
                for (across, down), value in zip(places[side], sides[side], strict=True)
            ]
            plot.add(drawing.coloured(side, *marks))
        pictures.append(tag("div", plot.svg(f"{line.figure.title}, seed by seed"), class_="chart card"))
    return pictures
