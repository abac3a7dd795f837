"""The tables of a tuning's answers, beside those of its runs.

| table | a row is |
| --- | --- |
| `answer` | a figure of the best on fresh seeds: its mean with a 95 % interval, and how far it is from the base |
| `front` | a point with the figure aimed at and one that is bounded, and whether anything beats it in both |
| `importance` | an axis, or the interplay of all (no axis), and the share of a figure's variance that comes of it |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hearsay.studies.one_run import Row
from hearsay.studies.statistics import Mean
from hearsay.studies.tables import axis_columns
from hearsay.studies.tuning.answer import Answer
from hearsay.studies.tuning.front import fronts
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.studies.tuning.tune_text import interplay
from hearsay.trace.folder.arrow import pa

ANSWER_TABLES = ("answer", "front", "importance")


def answer_tables(tuning: Tuning, answers: Sequence[Answer]) -> dict[str, Any]:
    """All of them by name; a condition without an answer has no row in `answer`."""
    keys, at = axis_columns(tuning.study)
    condition = [("condition", pa.string())]
    figure = ("figure", pa.string())
    numbers = pa.float64()
    schemas = {
        "answer": [
            *condition,
            *keys,
            figure,
            ("seeds", pa.int64()),
            *((name, numbers) for name in ("mean", "low", "high")),
            *((name, numbers) for name in ("base_mean", "difference", "difference_low", "difference_high")),
            ("verdict", pa.string()),
        ],
        "front": [
            *condition,
            ("point", pa.string()),
            *keys,
            ("bounded", pa.string()),
            *((f"bounded_{name}", numbers) for name in ("mean", "low", "high")),
            *((f"aim_{name}", numbers) for name in ("mean", "low", "high")),
            ("eligible", pa.bool_()),
            ("on_front", pa.bool_()),
        ],
        "importance": [*condition, figure, ("axis", pa.string()), ("share", numbers)],
    }
    rows: dict[str, list[Row]] = {
        "answer": [{**at(point), **row} for answer in answers for point, row in _answer_rows(answer)],
        "front": [{**at(point), **row} for answer in answers for point, row in _front_rows(answer)],
        "importance": [row for answer in answers for row in _importance_rows(answer)],
    }
    return {name: pa.Table.from_pylist(rows[name], schema=pa.schema(schemas[name])) for name in ANSWER_TABLES}


def _answer_rows(answer: Answer) -> Iterator[tuple[Any, Row]]:
    if answer.best is None:
        return
    for line, mean in zip(answer.lines, answer.means(), strict=True):
        row: Row = {"condition": answer.condition, "figure": line.figure.name, "verdict": str(line.verdict)}
        difference = line.difference
        if difference is not None:
            row |= {
                "base_mean": difference.mean_a,
                "difference": difference.estimate,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
        yield answer.best.point, {**row, "seeds": mean.seeds, "mean": mean.mean, "low": mean.low, "high": mean.high}


def _front_rows(answer: Answer) -> Iterator[tuple[Any, Row]]:
    for bound, spots in fronts(answer.searched):
        for spot in spots:
            row: Row = {
                "condition": answer.condition,
                "point": spot.tried.point.name,
                "bounded": bound.figure.name,
                "eligible": spot.eligible,
                "on_front": spot.on_front,
            }
            yield spot.tried.point, {**row, **_prefixed("bounded", spot.bounded), **_prefixed("aim", spot.aim)}


def _prefixed(name: str, mean: Mean) -> Row:
    return {f"{name}_mean": mean.mean, f"{name}_low": mean.low, f"{name}_high": mean.high}


def _importance_rows(answer: Answer) -> Iterator[Row]:
    for figure, shares in answer.matters.items():
        for axis, share in (*shares.items(), (None, interplay(shares))):
            yield {"condition": answer.condition, "figure": figure, "axis": axis, "share": share}
