"""The table of what a search has tried: how far each point came, why it ended, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hearsay.studies.one_run import Row
from hearsay.studies.statistics import mean_of
from hearsay.studies.tables import axis_columns, values_at
from hearsay.studies.tuning.race import Ended, keeps_bounds
from hearsay.studies.tuning.search import Searched
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.trace.folder.arrow import pa


def tried_table(tuning: Tuning, searches: Sequence[Searched]) -> Any:
    """A row per point and condition, in the order they were tried. Figures are means over its seeds."""
    keys, at = axis_columns(tuning.study)
    figures = [(f"{name}{end}", pa.float64()) for name in tuning.figures for end in ("", "_low", "_high")]
    schema = [
        ("point", pa.string()),
        *keys,
        ("seeds", pa.int64()),
        ("ended", pa.string()),
        ("bound", pa.string()),
        ("keeps_bounds", pa.bool_()),
        ("best", pa.bool_()),
        *figures,
    ]
    rows = [{**at(each.point), **row} for found in searches for each, row in _rows(found)]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def _rows(found: Searched) -> Iterator[tuple[Any, Row]]:
    for each in found.tried:
        assert each.ended is not None
        row: Row = {
            "point": each.point.name,
            "seeds": len(each.point.seeds),
            "ended": str(each.ended),
            "bound": None if each.broken is None else each.broken.figure.name,
            "keeps_bounds": each.ended is Ended.FINISHED and keeps_bounds(found.tuning, each.point, found.results),
            "best": each is found.best,
        }
        for name in found.tuning.figures:
            mean = mean_of(values_at(each.point, found.results, name))
            if mean is not None:
                row |= {name: mean.mean, f"{name}_low": mean.low, f"{name}_high": mean.high}
        yield each, row
