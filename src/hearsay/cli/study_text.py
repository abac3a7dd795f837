"""A study's points as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.studies.figures import BY_NAME, COMPARED, Form
from hearsay.studies.statistics import mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at

MOST_LINES = 60


def points_text(swept: Swept) -> str:
    """The mean over seeds of the figures that comparisons ask for."""
    study = swept.study
    header = [*(axis.name for axis in study.axes), "runs", *(BY_NAME[name].title for name in COMPARED)]
    lines: list[list[str]] = []
    for point in swept.points[:MOST_LINES]:
        runs = sum(run in swept.results for run in point.runs)
        cells = [axis.labels[step] for axis, step in zip(study.axes, point.steps, strict=True)]
        for name in COMPARED:
            mean = mean_of(values_at(point, swept.results, name))
            cells.append("–" if mean is None else shown(mean.mean, BY_NAME[name].form))
        lines.append([*cells[: len(study.axes)], str(runs), *cells[len(study.axes) :]])
    text = columns([header, *lines])
    left_out = len(swept.points) - len(lines)
    return f"{text}\n… and {left_out} points more" if left_out else text


def columns(rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Columns in line: right-aligned, but those named in `left`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))


def shown(value: float, form: Form) -> str:
    match form:
        case "percent":
            return f"{value:.3%}"
        case "ms":
            return f"{value:,.0f} ms"
        case "count" | "bytes":
            return f"{value:,.0f}"
        case "s":
            return f"{value:,.1f} s"
        case "number":
            return f"{value:,.2f}"
