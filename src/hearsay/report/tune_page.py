"""The report of a tuning: the best settings, their effect, the cost of each bound, and the importance of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hearsay.metrics import Metric
from hearsay.number_text import plural, relative
from hearsay.report import svg
from hearsay.report.comparison_page import differences
from hearsay.report.html import Html, capitalized, join, labelled_table, notes, section, tag, write_page
from hearsay.report.study_charts import mean_words
from hearsay.report.study_page import mean_cell
from hearsay.report.svg import scale_of_values
from hearsay.report.what_ran import ShownRun, command_line, seed_words, what_ran
from hearsay.studies.budgets import Budget
from hearsay.studies.comparison import by_itself_words
from hearsay.studies.packs import BY_NAME
from hearsay.studies.results import values_at
from hearsay.studies.settings import settings_of
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.study_text import compared_cells
from hearsay.studies.tuning.optimiser import Ended
from hearsay.studies.tuning.output import (
    as_good_words,
    asked_words,
    best_words,
    conditions_cells,
    interplay,
    matters_words,
    searched_words,
    start_words,
)
from hearsay.studies.tuning.search import Searched, Tried
from hearsay.studies.tuning.tune import Answer, MeasuredPoint, Tuned, fronts, steps_words

MAX_ROWS = 400
_ON_FRONT, _START, _BEST, _OTHER = 0, 1, 2, 7
_ENDINGS = {Ended.FINISHED: 0, Ended.BREAKS: 1, Ended.BEATEN: 7, Ended.OUT_OF_RUNS: 4}
"""The number of a point's colour in a tuning, by the reason why the search of the point ended. Points with other
reasons are not drawn.
"""
_FRONT_ENTRIES = {_ON_FRONT: "on the front", _OTHER: "other points", _START: "start", _BEST: "best"}
_ENDED_ENTRIES = {number: str(ended) for ended, number in _ENDINGS.items()}


def write_tune_report(
    tuned: Tuned, answers: Sequence[Answer], out: Path, pictures: Path, commands: Mapping[str, str]
) -> None:
    """Write the report to `out`, and its pictures as SVG files into the folder `pictures`. `commands` has commands by
    their purpose; the end of the page shows them.
    """
    tuning = tuned.tuning
    header = tag("h1", tuning.title), tag("p", f"{capitalized(asked_words(tuning))}.", class_="subject")
    write_page(out, f"{tuning.title} – Hearsay tuning", header, _sections(tuned, answers, commands))
    bounded = [picture for answer in answers for picture in _fronts(answer.searched)]
    courses = [picture for answer in answers for picture in _search_pictures(answer.searched)]
    drawings = ("fronts", bounded, _FRONT_ENTRIES), ("search", courses, _ENDED_ENTRIES)
    svg.write_pictures(pictures, tuning.title, drawings, 2)


def _sections(tuned: Tuned, answers: Sequence[Answer], commands: Mapping[str, str]) -> Iterator[Html]:
    tuning = tuned.tuning
    charts = [
        _pictures(answers, _fronts, "Cost of each step of a bound", "fronts", _FRONT_ENTRIES, notes()["tuned_front"]),
        _pictures(answers, _search_pictures, "Course of the search", "search", _ENDED_ENTRIES, notes()["search"]),
    ]
    first, *others = [chart for chart in charts if chart] or [Html("")]
    yield first
    for answer in answers:
        label = "" if answer.best is None else answer.searched.label_words  # otherwise the text names the condition
        yield tag("p", f"{label}{best_words(answer)}", class_="card verdict")
    yield section("Effect", "worth", *(_worth(answer) for answer in answers))
    if tuning.conditions is not None:
        heads, rows = conditions_cells(tuning, answers)
        table = labelled_table(heads, rows, "The best for each condition", range(1 + len(tuning.axes)))
        yield section(f"Best settings by {tuning.conditions.name}", "conditions", table)
    if any(answer.matters for answer in answers):
        yield _matters(answers)
    yield from others
    yield section("All points", "points", *(_points(answer) for answer in answers))
    yield _what_ran(answers, commands)


def _worth(answer: Answer) -> Html:
    searched = answer.searched
    words = [searched_words(searched), start_words(answer), as_good_words(answer), matters_words(answer)]
    listed = tag("ul", *(tag("li", f"{capitalized(each)}.") for each in words if each), class_="words")
    parts: list[Html] = [_title(answer)]
    if answer.lines:
        heads, rows = compared_cells(answer.lines)
        seeds = plural(len(searched.tuning.fresh_seeds), "seed")
        note = f"On {seeds} that the search did not use. A: start, B: best. {by_itself_words(answer.lines)}".rstrip()
        table = labelled_table(heads, rows, "Start and best", (0, 4))
        parts += [differences(answer.lines), table, tag("p", note, class_="faint")]
    return tag("div", *parts, listed, class_="card")


def _fronts(searched: Searched) -> list[Html]:
    return [_tuned_front(searched, bound, spots) for bound, spots in fronts(searched)]


def _pictures(
    answers: Sequence[Answer],
    pictures_of: Callable[[Searched], list[Html]],
    title: str,
    id_: str,
    entries: Mapping[int, str],
    note: str,
) -> Html:
    drawn = [(answer, pictures_of(answer.searched)) for answer in answers]
    cards = [
        tag("figure", _title(answer), *(tag("div", picture, class_="chart") for picture in pictures), class_="card")
        for answer, pictures in drawn
        if pictures
    ]
    if not cards:
        return Html("")
    below = svg.legend(entries), tag("p", note, class_="faint")
    return section(title, id_, tag("div", *cards, class_="tuned"), *below)


def _matters(answers: Sequence[Answer]) -> Html:
    """Return a table with the share of the variance of each metric that each axis explains."""
    tuning = answers[0].searched.tuning
    names = [axis.name for axis in tuning.axes]
    heads = [*([] if tuning.conditions is None else [tuning.conditions.name]), "metric", *names, "interactions"]
    rows: list[list[object]] = []
    for answer in answers:
        for figure, shares in answer.matters.items():
            cells = [*(relative(shares[name]) for name in names), relative(interplay(shares))]
            rows.append(
                [*([] if tuning.conditions is None else [answer.searched.label]), BY_NAME[figure].title, *cells]
            )
    text = range(len(heads) - len(names) - 1)
    table = labelled_table(heads, rows, "Importance of axes", text)
    return section("Importance of axes", "matters", table, tag("p", notes()["importance"], class_="faint"))


def _points(answer: Answer) -> Html:
    searched = answer.searched
    tuning = searched.tuning
    figures = [BY_NAME[name] for name in tuning.figures]
    heads = ["point", *(axis.name for axis in tuning.axes), *(figure.title for figure in figures), "seeds", "ended"]
    rows: list[list[object]] = []
    for number, each in enumerate(searched.tried[:MAX_ROWS], 1):
        cells: list[object] = [axis.labels[step] for axis, step in zip(tuning.axes, each.steps, strict=True)]
        for figure in figures:
            cells.append(mean_cell(mean_of(values_at(each.point, searched.results, figure.name)), figure))
        rows.append([str(number), *cells, str(len(each.point.seeds)), _ending(answer, each)])
    table = labelled_table(heads, rows, "All points", (*range(1 + len(tuning.axes)), len(heads) - 1))
    more = len(searched.tried) - len(rows)
    note = "Means over the seeds of a point; the interval shows on hover."
    rest = f" {more} more are in tables/tried.parquet." if more > 0 else ""
    return join([_title(answer), table, tag("p", f"{note}{rest}", class_="faint")])


def _ending(answer: Answer, tried: Tried) -> str:
    if tried is answer.best:
        return "best"
    return f"{tried.ended}: {tried.broken.figure.title}" if tried.broken is not None else str(tried.ended)


def _what_ran(answers: Sequence[Answer], commands: Mapping[str, str]) -> Html:
    ran: list[ShownRun] = []
    for answer in answers:
        label = f" ({answer.searched.label})" if answer.searched.label else ""
        facts = {"seeds": seed_words(answer.searched.tuning.seeds)}
        ran.append(ShownRun(tag("b", f"start{label}"), settings_of(answer.searched.start.scenario), facts))
        if answer.best is not None:
            ran.append(ShownRun(tag("b", f"best{label}"), settings_of(answer.best.point.scenario), facts))
    intro = [part for words, command in commands.items() for part in (tag("p", f"{words}:"), command_line(command))]
    return what_ran(ran, intro)


def _title(answer: Answer) -> Html:
    title = answer.searched.title
    return tag("h3", title) if title else Html("")


def _tuned_front(searched: Searched, bound: Budget, spots: Sequence[MeasuredPoint]) -> Html:
    """Draw the aim of a tuning against the metric of a bound. The bound is dotted, the Pareto front dashed."""
    aim, bounded = searched.tuning.aim, bound.figure
    start_x, start_y = (mean_of(values_at(searched.start, searched.results, each.name)) for each in (bounded, aim))
    ends = [end for end in (bound.at_least, bound.at_most) if end is not None]
    x_values = [spot.bounded.mean for spot in spots] + ([] if start_x is None else [start_x.mean]) + ends
    y_values = [spot.aim.mean for spot in spots] + ([] if start_y is None else [start_y.mean])
    x, y = scale_of_values(x_values, bounded.form), scale_of_values(y_values, aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, bounded.title)
    plot.add(*(svg.coloured(_START, plot.upright(end, "bound")) for end in ends))
    members = sorted((spot for spot in spots if spot.on_front), key=lambda spot: spot.bounded.mean)
    front = svg.polyline([plot.place(spot.bounded.mean, spot.aim.mean) for spot in members], "front")
    plot.add(svg.coloured(_ON_FRONT, front))
    for spot in sorted(spots, key=lambda spot: spot.on_front):
        number = _BEST if spot.tried is searched.best else _ON_FRONT if spot.on_front else _OTHER
        words = f"{_value(spot.bounded, bounded)}, {_value(spot.aim, aim)}"
        place = plot.place(spot.bounded.mean, spot.aim.mean)
        plot.add(_tried(searched, spot.tried, number, place, words, hollow=number == _OTHER))
    if start_x is not None and start_y is not None:
        plot.add(svg.coloured(_START, svg.mark(_START, plot.place(start_x.mean, start_y.mean), "start")))
    return plot.svg(f"{aim.title} against {bounded.title}")


def _search_pictures(searched: Searched) -> list[Html]:
    """Draw the aim of each point in the order of the search, and the best value so far. Return one picture, or none
    if no point was measured.
    """
    aim = searched.tuning.aim
    measured: list[tuple[int, Tried, Ended, Mean]] = []
    for number, each in enumerate(searched.tried, 1):
        mean, ended = mean_of(values_at(each.point, searched.results, aim.name)), each.ended
        if mean is not None and ended is not None and ended in _ENDINGS:
            measured.append((number, each, ended, mean))
    if not measured:
        return []
    x = scale_of_values([0.0, float(len(searched.tried))], "count")
    y = scale_of_values([mean.mean for *_, mean in measured], aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, "points in the order of the search")
    keeping = {each.steps for each in searched.keeping}
    kept = [(number, mean.mean) for number, each, _, mean in measured if each.steps in keeping]
    stairs = _best_so_far(searched, kept)
    plot.add(svg.coloured(_BEST, svg.polyline([plot.place(*step) for step in stairs], "front")))
    for number, each, ended, mean in measured:
        colour = _ENDINGS[ended]
        hollow = each.steps not in keeping or colour == _OTHER
        words = f"{_value(mean, aim)}, {ended}"
        plot.add(_tried(searched, each, colour, plot.place(number, mean.mean), words, hollow=hollow))
    return [plot.svg(f"{aim.title}, point by point")]


def _tried(searched: Searched, tried: Tried, number: int, place: svg.Point, words: str, *, hollow: bool) -> Html:
    return svg.coloured(number, svg.mark(number, place, f"{steps_words(searched, tried)}: {words}", hollow=hollow))


def _value(mean: Mean, metric: Metric) -> str:
    return f"{metric.title} {mean_words(mean, metric)}"


def _best_so_far(searched: Searched, values: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return the corners of a stepped line for the best value so far, up to the end of the search. `values` are pairs
    of the number of a point and its value, in the order of the search.
    """
    better = searched.tuning.better
    steps: list[tuple[float, float]] = []
    best: float | None = None
    for number, value in values:
        if best is None or better(value) < better(best):
            steps += [(number, step) for step in ((value,) if best is None else (best, value))]
            best = value
    return steps if best is None else [*steps, (len(searched.tried), best)]
