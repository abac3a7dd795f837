"""The report of a tuning: the best settings, their effect, the cost of each bound, and the importance of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hearsay.report import svg
from hearsay.report.comparison_page import differences
from hearsay.report.html import (
    Html,
    capitalized,
    join,
    labelled_table,
    section,
    tag,
    write_page,
)
from hearsay.report.study_page import mean_cell
from hearsay.report.study_svg import ENDED_ENTRIES, FRONT_ENTRIES, search_picture, tuned_front
from hearsay.report.what_ran import ShownRun, command_line, seed_words, what_ran
from hearsay.studies.comparison import by_itself_words
from hearsay.studies.packs import BY_NAME
from hearsay.studies.settings import settings_of
from hearsay.studies.statistics import mean_of
from hearsay.studies.study_text import compared_cells
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import Answer, fronts
from hearsay.studies.tuning.search import Tried
from hearsay.studies.tuning.tune import Tuned
from hearsay.studies.tuning.tune_text import (
    as_good_words,
    asked_words,
    best_words,
    conditions_cells,
    interplay,
    matters_words,
    searched_words,
    start_words,
)
from hearsay.text.numbers import plural, relative

MAX_ROWS = 400
_FRONT_NOTE = "Dashed: Pareto front of the points that keep the other bounds. Dotted: bounds."
_SEARCH_NOTE = "Hollow: breaks a bound or ended early. Dashed: the best so far of points that keep the bounds."


def write_tune_report(
    tuned: Tuned, answers: Sequence[Answer], out: Path, pictures: Path, commands: Mapping[str, str]
) -> None:
    """Write the report, and the pictures as SVG files. `commands` are shown at the end, by their purpose."""
    tuning = tuned.tuning
    header = tag("h1", tuning.title), tag("p", f"{capitalized(asked_words(tuning))}.", class_="subject")
    write_page(out, f"{tuning.title} – Hearsay tuning", header, _sections(tuned, answers, commands))
    bounded = [picture for answer in answers for picture in _fronts(answer)]
    courses = [picture for answer in answers for picture in _search(answer)]
    drawings = ("fronts", bounded, FRONT_ENTRIES), ("search", courses, ENDED_ENTRIES)
    svg.write_pictures(pictures, tuning.title, drawings, 2)


def _sections(tuned: Tuned, answers: Sequence[Answer], commands: Mapping[str, str]) -> Iterator[Html]:
    tuning = tuned.tuning
    charts = [
        _pictures(answers, _fronts, "Cost of each step of a bound", "fronts", FRONT_ENTRIES, _FRONT_NOTE),
        _pictures(answers, _search, "Course of the search", "search", ENDED_ENTRIES, _SEARCH_NOTE),
    ]
    first, *others = [chart for chart in charts if chart] or [Html("")]
    yield first
    yield from (tag("p", _verdict(answer), class_="card verdict") for answer in answers)
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


def _fronts(answer: Answer) -> list[Html]:
    return [tuned_front(answer.searched, bound, spots) for bound, spots in fronts(answer.searched)]


def _search(answer: Answer) -> list[Html]:
    picture = search_picture(answer.searched)
    return [] if picture is None else [picture]


def _pictures(
    answers: Sequence[Answer],
    pictures_of: Callable[[Answer], list[Html]],
    title: str,
    id_: str,
    entries: Mapping[int, str],
    note: str,
) -> Html:
    drawn = [(answer, pictures_of(answer)) for answer in answers]
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
    """Return the share of the variance of each metric that each axis explains."""
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
    note = (
        "Shares of the variance over the whole space, by a functional analysis of variance on a random forest "
        "over all points tried, with the seeds that all of them had."
    )
    text = range(len(heads) - len(names) - 1)
    table = labelled_table(heads, rows, "Importance of axes", text)
    return section("Importance of axes", "matters", table, tag("p", note, class_="faint"))


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


def _verdict(answer: Answer) -> str:
    label = "" if answer.best is None else answer.searched.label_words  # without a best, the text names the condition
    return f"{label}{best_words(answer)}"
