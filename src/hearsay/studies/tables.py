"""The tables of a study: the row that a run writes, and the tables that are written when a sweep ends.

| table | a row is |
| --- | --- |
| `runs` | a run: its axes, its seed, its metrics or its error |
| `points` | a metric at a point: the mean over its seeds with a 95 % interval |
| `sent` | a kind of RPC part in a run: how many were sent |
| `latency` | a bin of latencies in a run: how many deliveries fell into it |
| `resources` | a run: engine, seconds, memory, where it ran |

All tables but `resources` depend only on scenarios and seeds, and rows are in the order of points and seeds. So they
are equal to the last bit on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from hearsay.studies.packs import FIGURES, Row
from hearsay.studies.points import Point
from hearsay.studies.statistics import mean_of
from hearsay.studies.study_file import Study
from hearsay.text.escape import shown_value
from hearsay.trace.folder.arrow import pa


def fields(text: str) -> list[tuple[str, Any]]:
    """Return columns by their names and types: "run string, seed int64"."""
    return [(name, pa.type_for_alias(kind)) for name, kind in (column.split() for column in text.split(", "))]


_FIGURE_FIELDS = [(figure.name, pa.int64() if figure.is_count else pa.float64()) for figure in FIGURES]
_NAMES = fields("run string, point string, seed int64")
_RESOURCE_FIELDS = fields(
    "engine string, events int64, wall_s double, cpu_s double, peak_bytes int64, started double, "
    "host string, pid int64"
)
MEAN = fields("mean double, low double, high double")
_SENT, _LATENCY = fields("kind string, parts int64"), fields("up_to_ms int64, deliveries int64")
RESULTS = pa.schema(
    [
        *_NAMES,
        *fields("error string"),
        *_FIGURE_FIELDS,
        *fields("trace_hash string"),
        ("sent_by_kind", pa.list_(pa.struct(_SENT))),
        ("latencies", pa.list_(pa.struct(_LATENCY))),
        *_RESOURCE_FIELDS,
    ]
)
"""The row of a run in `results/` of the study folder."""

TABLES = ("runs", "points", "sent", "latency", "resources")


def tables_of(study: Study, points: Sequence[Point], results: Mapping[str, Row]) -> dict[str, Any]:
    """Return all tables by name, made from the runs that have results."""
    keys, at = axis_columns(study)
    found = [(point, results[run]) for point in points for run in point.runs if run in results]
    runs = [{**row, **at(point)} for point, row in found]
    lines = {
        "runs": runs,
        "points": [{**at(point), **line} for point in points for line in _figures_at(point, results)],
        "sent": [{**row, **part} for _, row in found for part in row.get("sent_by_kind") or ()],
        "latency": [{**row, **part} for _, row in found for part in row.get("latencies") or ()],
        "resources": [row for _, row in found],
    }
    schemas = {
        "runs": [*_NAMES, *keys, *fields("error string"), *_FIGURE_FIELDS, *fields("trace_hash string")],
        "points": [*fields("point string"), *keys, *fields("figure string, seeds int64"), *MEAN],
        "sent": [*_NAMES, *_SENT],
        "latency": [*_NAMES, *_LATENCY],
        "resources": [*_NAMES, *_RESOURCE_FIELDS],
    }  # fmt: skip
    return {name: pa.Table.from_pylist(lines[name], schema=pa.schema(schemas[name])) for name in TABLES}


def axis_columns(study: Study) -> tuple[list[tuple[str, Any]], Callable[[Point], Row]]:
    """Return a column for each key of the axes, and a function that returns their values at a point."""
    axes = [(key, number, place) for number, axis in enumerate(study.axes) for place, key in enumerate(axis.keys)]
    keys = [(key, _column_type(step[place] for step in study.axes[number].steps)) for key, number, place in axes]

    def at(point: Point) -> Row:
        return {
            key: _cell(study.axes[number].steps[point.steps[number]][place], kind)
            for (key, number, place), (_, kind) in zip(axes, keys, strict=True)
        }

    return keys, at


def values_at(point: Point, results: Mapping[str, Row], figure: str) -> list[float]:
    """Return the values of a metric in the finished runs of a point, in the order of seeds."""
    return list(values_by_seed(point, results, figure).values())


def values_by_seed(point: Point, results: Mapping[str, Row], figure: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for seed in point.seeds:
        row = results.get(point.run(seed))
        if row is not None and row["error"] is None and row.get(figure) is not None:
            found[seed] = float(row[figure])
    return found


def _figures_at(point: Point, results: Mapping[str, Row]) -> Iterator[Row]:
    for figure in FIGURES:
        mean = mean_of(values_at(point, results, figure.name))
        if mean is not None:
            yield {
                "point": point.name, "figure": figure.name, "seeds": mean.seeds,
                "mean": mean.mean, "low": mean.low, "high": mean.high,
            }  # fmt: skip


def _column_type(values: Iterable[object]) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, Decimal} else pa.string()


def _cell(value: object, kind: Any) -> object:
    if kind == pa.string():
        return value if isinstance(value, str) else shown_value(value)
    return float(value) if isinstance(value, Decimal) or kind == pa.float64() else value  # pyright: ignore[reportArgumentType]
