"""Tables of the points of a study and of the metrics of a comparison, for terminals and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from hearsay.number_text import Form, between, plain, text_of
from hearsay.studies.comparison import (
    ComparisonRequest,
    FigureComparison,
    by_itself_words,
    interval_words,
    overall_words,
    short_verdict,
    side_words,
    uplink_words,
)
from hearsay.studies.factorial import LETTERS, Effect, changed_words, insignificant_words, significant_effects
from hearsay.studies.packs import BY_NAME, COMPARED
from hearsay.studies.results import values_at
from hearsay.studies.runner import Swept
from hearsay.studies.statistics import Mean, mean_of
from hearsay.text import table_text

MOST_LINES = 60


Cells: TypeAlias = tuple[list[str], list[list[str]]]
"""A table: the cells of its head, and the cells of each row below."""


def points_cells(swept: Swept, figures: Sequence[str] = ()) -> Cells:
    """Return a table of the first `MOST_LINES` points. It has the means of `figures` with intervals or, without
    `figures`, the means of those metrics in `COMPARED` for which a point has a value.
    """
    study = swept.study
    names = figures or [
        name for name in COMPARED if any(values_at(point, swept.results, name) for point in swept.points)
    ]
    head = [*(axis.name for axis in study.axes), "runs", *(BY_NAME[name].title for name in names)]
    lines: list[list[str]] = []
    for point in swept.points[:MOST_LINES]:
        runs = sum(run in swept.results for run in point.run_names)
        steps = [axis.labels[step] for axis, step in zip(study.axes, point.steps, strict=True)]
        cells = [_cell(mean_of(values_at(point, swept.results, name)), name, bool(figures)) for name in names]
        lines.append([*steps, str(runs), *cells])
    return head, lines


def _cell(mean: Mean | None, name: str, with_interval: bool) -> str:
    if mean is None:
        return "n/m"
    form = BY_NAME[name].form
    return mean_words(mean, form) if with_interval else text_of(mean.mean, form)


def mean_words(mean: Mean, form: Form) -> str:
    """Return a mean with its interval, such as "450 ms (430 ms … 470 ms)". Leave out an interval of width 0."""
    text = text_of(mean.mean, form)
    if mean.low is None or mean.high is None or mean.low == mean.high:
        return text
    return f"{text} ({between(mean.low, mean.high, form)})"


def points_text(swept: Swept, figures: Sequence[str] = ()) -> str:
    head, lines = points_cells(swept, figures)
    text = table_text(head, lines, left=len(swept.study.axes))
    left_out = len(swept.points) - len(lines)
    return f"{text}\n… and {left_out} points more" if left_out else text


def compared_cells(lines: Sequence[FigureComparison]) -> Cells:
    """Return a table with a row for each metric: the means of both sides, the difference and the verdict."""
    head = ["", "A", "B", "B − A (95 % interval)", "verdict"]
    rows = [[line.figure.heading, *side_words(line), interval_words(line), short_verdict(line)] for line in lines]
    return head, rows


def compared_text(lines: Sequence[FigureComparison]) -> str:
    return table_text(*compared_cells(lines))


def comparison_text(
    asked: ComparisonRequest,
    lines: Sequence[FigureComparison],
    changed: Sequence[str],
    found: Sequence[Effect],
    sentence: Callable[[str], str] = plain,
) -> str:
    """Return the whole comparison as text. `changed` are the settings that B changes, and `found` the effects in a
    factorial, if it is one. `sentence` formats the parts that are not tables.
    """
    a, b = asked.names
    words = [overall_words(lines, asked.names), changed_words(asked, changed)]
    notes = [by_itself_words(lines), uplink_words(lines)]
    paragraphs = [
        "\n".join(sentence(line) for line in words if line),
        "\n".join(sentence(line) for line in (f"A: {a}", f"B: {b}", *asked.conditions)),
        "\n".join([compared_text(lines), *(sentence(note) for note in notes if note)]),
    ]
    return "\n\n".join([*paragraphs, *_effects_text(changed, found, sentence)])


def _effects_text(changed: Sequence[str], found: Sequence[Effect], sentence: Callable[[str], str]) -> Iterator[str]:
    if not found:
        return
    yield "\n".join(sentence(f"{letter}: {text}") for letter, text in zip(LETTERS, changed, strict=False))
    shown = [each for effects in significant_effects(found).values() for each in effects]
    rows = [[each.line.figure.heading, each.name, interval_words(each.line), each.verdict] for each in shown]
    if rows:
        yield table_text(["", "", "change (95 % interval)", "verdict"], rows, left=2)
    if words := insignificant_words(found):
        yield sentence(words)
