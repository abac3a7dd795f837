"""The report of a comparison: the verdict, the differences of all metrics, and every seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hearsay.number_text import MINUS, probability, relative, text_of
from hearsay.report import svg
from hearsay.report.html import Html, folded, join, labelled_table, notes, section, tag, write_page
from hearsay.report.svg import Scale, round_step, scale_of_values
from hearsay.report.what_ran import ShownRun, command_line, seed_words, what_ran
from hearsay.studies.comparison import (
    ComparisonRequest,
    FigureComparison,
    Verdict,
    by_itself_words,
    interval_words,
    overall_words,
    short_verdict,
    side_words,
    uplink_words,
    verdict_words,
)
from hearsay.studies.factorial import (
    LETTERS,
    Effect,
    changed_words,
    insignificant_words,
    side_names,
    significant_effects,
)
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.results import values_by_seed
from hearsay.studies.settings import command_of, settings_of

MAX_HASHES = 50
_AXIS = "B − A, % of A's mean (delivered: points)"
_EFFECT_AXIS = "change, % of A's mean (of a share: points)"
_COLOURS = {Verdict.BETTER: 2, Verdict.WORSE: 1}


def write_comparison_report(
    lines: Sequence[FigureComparison],
    asked: ComparisonRequest,
    points: Sequence[Point],
    results: Mapping[str, Row],
    out: Path,
    changed: Sequence[str] = (),
    found: Sequence[Effect] = (),
) -> None:
    """Write the page. `points` are the compared sides: A, then sides with only some of the changed settings, then B.
    `found` has the effects of the settings in `changed`; it is empty if only A and B were compared.
    """
    names = asked.names
    sides = [tag("li", tag("b", f"{side} "), name) for side, name in zip("AB", names, strict=True)]
    facts = tag("ul", *sides, *(tag("li", words, class_="conditions") for words in asked.conditions), class_="facts")
    words = [overall_words(lines, names), changed_words(asked, changed), by_itself_words(lines)]
    verdict = tag("div", *(tag("p", sentence) for sentence in words if sentence), class_="card verdict", id="verdict")
    unasked, note = (tag("p", words, class_="faint") for words in (uplink_words(lines), notes()["comparison"]))
    strips = tag("div", *_strips(lines, (points[0], points[-1]), results), class_="multiples")
    sections = [
        section("Difference between B and A", "differences", tag("div", differences(lines), class_="card")),
        verdict,
        *([_effects(changed, found)] if found else []),
        section("Metrics", "figures", _table(lines)),
        folded("How to read the table", "reading", unasked, note),
        folded("Seed by seed", "seeds", strips),
        _what_ran(asked, points, results),
    ]
    title = f"{names[1]} against {names[0]} – Hearsay comparison"
    write_page(out, title, [tag("h1", "Comparison"), facts], sections)


def _what_ran(asked: ComparisonRequest, points: Sequence[Point], results: Mapping[str, Row]) -> Html:
    """Return the settings of all sides, the commands, and at most `MAX_HASHES` trace hashes of each side."""
    both_sides: list[ShownRun] = []
    hashes: list[list[object]] = []
    for side, point in zip(side_names(len(points)), points, strict=True):
        rows = [results[run] for run in point.run_names if run in results]
        engines = sorted({row["engine"] for row in rows if row.get("engine")})
        facts = {
            "seeds": seed_words(point.seeds),
            "runs finished": str(sum(row["error"] is None for row in rows)),
            "engine": ", ".join(engines) or "unknown",
        }
        command = command_of(["simulate", f"scenarios/{point.name}.toml", "--seed", point.seeds[0]])
        both_sides.append(ShownRun(tag("b", side), settings_of(point.scenario), facts, command))
        for row in rows[:MAX_HASHES]:
            hashes.append([side, str(row["seed"]), row.get("trace_hash") or "–"])
    intro = [
        tag("p", "Command of the whole comparison; those of single sides run in its folder:"),
        command_line(asked.command),
    ]
    ran = what_ran(both_sides, intro)
    table = labelled_table(["side", "seed", "trace hash"], hashes, "Trace hashes", (0, 1, 2))
    kept = tag("p", "The hash identifies the trace of a run; tables/runs.parquet has all hashes.")
    return join([ran, folded("Trace hashes", "hashes", kept, table)])


def _effects(changed: Sequence[str], found: Sequence[Effect]) -> Html:
    """Draw the effects of the changed settings: alone, on average, and together. Each metric has its own axis. A
    metric without a significant effect is only named.
    """
    legend = [tag("li", tag("b", f"{letter} "), text) for letter, text in zip(LETTERS, changed, strict=False)]
    charts: list[Html] = []
    for title, of_metric in significant_effects(found).items():
        forest = _forest([(effect.name, effect.verdict, effect.line) for effect in of_metric], _EFFECT_AXIS)
        charts.append(tag("div", tag("h3", title), forest, class_="card"))
    words = [tag("p", text, class_="faint") for text in (insignificant_words(found), notes()["effects"]) if text]
    return section("Effect of each setting", "effects", tag("ul", *legend, class_="facts"), *charts, *words)


def differences(lines: Sequence[FigureComparison]) -> Html:
    """Draw the difference of each metric with its confidence interval, all on one axis."""
    forest = _forest([(line.figure.title, short_verdict(line), line) for line in lines], _AXIS)
    return join([forest, tag("small", notes()["forest"], class_="faint")])


def _forest(named: Sequence[tuple[str, str, FigureComparison]], axis: str) -> Html:
    """Draw a row for each triple of a name, a verdict and a comparison, all on one scale with the label `axis`.
    Positions are percentages of the width, so that a narrow screen does not shrink the text.
    """
    reaches = [_relative(line) for _, _, line in named]
    bounds = [bound for reach in reaches if reach is not None for bound in reach]
    far = max((abs(bound) for bound in bounds), default=0.0) * 1.1 or 0.01

    def across(share: float) -> str:
        return f"{(share / far + 1) * 50:.2f}%"

    step = round_step(far / 4)
    ticks = [number * step for number in range(-4, 5) if abs(number * step) < far * 0.95]
    grid = [
        tag("line", x1=across(share), y1="0", x2=across(share), y2="100%", class_="grid" if share else "axis")
        for share in ticks
    ]
    rows: list[Html] = []
    for (title, verdict, line), reach in zip(named, reaches, strict=True):
        name = tag("div", tag("b", title), tag("small", verdict), class_="who")
        words = interval_words(line) if reach is not None else "not measured"
        drawn = [*grid, *_reach(line, reach, across)] if reach is not None else grid
        titles = tag("title", f"{title}: {words}"), tag("desc", verdict_words(line))
        picture = tag("svg", *titles, *drawn, role="img", tabindex=0)
        rows.append(tag("div", name, picture, tag("div", words, class_="interval"), class_="difference"))
    labels: list[Html] = []
    for share in ticks:
        words = f"{'+' if share > 0 else MINUS}{relative(abs(share))}" if share else "0"
        labels.append(tag("text", words, x=across(share), y=14, text_anchor="middle"))
    labels.append(tag("text", axis, x="50%", y=32, text_anchor="middle", class_="value"))
    titles = tag("title", "Axis of the intervals"), tag("desc", axis)
    scale = tag("div", tag("span"), tag("svg", *titles, *labels, role="img"), tag("span"), class_="difference scale")
    return tag("div", *rows, scale, class_="differences chart")


def _reach(
    line: FigureComparison, reach: tuple[float, float, float, float], across: Callable[[float], str]
) -> list[Html]:
    """Draw an interval with its estimate, over a grey bar for the differences that the test would not detect.
    `across` maps a difference to a position.
    """
    low, middle, high, least = reach
    wide = f"{float(across(least)[:-1]) - float(across(-least)[:-1]):.2f}%"
    unseen = tag("rect", x=across(-least), y=6, width=wide, height=16, class_="unseen-range")
    drawn = [
        tag("line", x1=across(low), y1=14, x2=across(high), y2=14, class_="line"),
        tag("circle", tag("title", interval_words(line)), cx=across(middle), cy=14, r="4.5", class_="mark"),
    ]
    return [unseen, svg.coloured(_COLOURS.get(line.verdict, 7), *drawn)]


def _relative(line: FigureComparison) -> tuple[float, float, float, float] | None:
    """Return the low end of the interval, the estimate, the high end, and the smallest detectable difference; None if
    the metric was not compared.

    The numbers are shares of A's mean. If the metric is a share (`percent`) or A's mean is 0, the numbers are in the
    unit of the metric.
    """
    difference = line.difference
    if difference is None:
        return None
    amounts = (difference.low, difference.estimate, difference.high, line.detectable)
    if line.figure.form == "percent" or not difference.mean_a:
        return amounts
    low, middle, high, least = (amount / abs(difference.mean_a) for amount in amounts)
    return low, middle, high, least


def _table(lines: Sequence[FigureComparison]) -> Html:
    heads = ["metric", "A", "B", "B − A (95 % interval)", "p", "verdict"]
    rows: list[list[object]] = []
    for line in lines:
        p = "–" if line.difference is None else probability(line.difference.p)
        rows.append([line.figure.title, *side_words(line), interval_words(line), p, verdict_words(line)])
    return labelled_table(heads, rows, "Metrics of both sides", (0, 5))


def _strips(lines: Sequence[FigureComparison], points: Sequence[Point], results: Mapping[str, Row]) -> list[Html]:
    """Draw the value of every seed on both sides, with a line between the values of a seed if both sides have the
    same seeds. Leave out metrics that a side lacks.
    """
    pictures: list[Html] = []
    for line in lines:
        sides = [values_by_seed(point, results, line.figure.name) for point in points]
        if not all(sides):
            continue
        y = scale_of_values([*sides[0].values(), *sides[1].values()], line.figure.form)
        x = Scale(lambda value: 0.25 + value / 2, ((0.25, "A"), (0.75, "B")))
        plot = svg.Plot(x, y, 300, 220, line.figure.title)
        places = [{seed: plot.place(side, value) for seed, value in sides[side].items()} for side in (0, 1)]
        if points[0].seeds == points[1].seeds:
            for seed in (seed for seed in places[0] if seed in places[1]):
                plot.add(svg.line(*places[0][seed], *places[1][seed], "grid"))
        for side in (0, 1):
            marks = [
                svg.mark(side, places[side][seed], text_of(value, line.figure.form))
                for seed, value in sides[side].items()
            ]
            plot.add(svg.coloured(side, *marks))
        pictures.append(tag("div", plot.svg(f"{line.figure.title}, seed by seed"), class_="chart card"))
    return pictures
