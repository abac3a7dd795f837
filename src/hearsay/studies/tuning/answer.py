"""The answer of a search: the best settings, their effect, and what the search tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay.studies.comparison import ComparisonRequest, FigureComparison, compare
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import axis_columns, fields, values_at
from hearsay.studies.tuning.effects import explained
from hearsay.studies.tuning.optimiser import Ended, is_beaten, keeps_bounds
from hearsay.studies.tuning.search import Searched, Tried
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.trace.folder.arrow import pa

FOLDER = "answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """`lines` compare the base with the best on fresh seeds: the aim first, then what is bounded."""

    searched: Searched
    number: int | None
    """Which of several conditions; None if there are none."""
    lines: Sequence[FigureComparison]
    as_good: Sequence[Tried]
    """Other settings that keep the bounds and do not differ significantly from the best."""
    matters: Mapping[str, Mapping[str, float]]
    """By figure the share of its variance that each axis explains by itself, where enough was tried to say."""

    @property
    def best(self) -> Tried | None:
        return self.searched.best

    @property
    def condition(self) -> str | None:
        """Name of its condition, if there are several."""
        return self.searched.label or None

    def file(self, what: str) -> str:
        """The name of a scenario in the answer's folder: `start` or `best`."""
        return f"{what}.toml" if self.number is None else f"{what}-{self.number + 1}.toml"

    def means(self) -> list[Mean]:
        """The best's figures on fresh seeds."""
        if self.searched.confirmed is None:
            return []
        point, results = self.searched.confirmed[1], self.searched.results
        means = (mean_of(values_at(point, results, name)) for name in self.searched.tuning.figures)
        return [mean for mean in means if mean is not None]

    def compare_command(self, folder: Path) -> str:
        """The comparison of the base with the best on fresh seeds."""
        tuning = self.searched.tuning
        a, b = (str(folder / FOLDER / self.file(what)) for what in ("start", "best"))
        return ComparisonRequest(
            a, b, (), (), len(tuning.fresh_seeds), engine=tuning.engine, first_seed=tuning.never_seen_seed
        ).command


def answer_of(searched: Searched) -> Answer:
    tuning = searched.tuning
    lines: Sequence[FigureComparison] = ()
    as_good: list[Tried] = []
    best = searched.best
    if best is not None and searched.confirmed is not None:
        lines = compare(searched.confirmed, searched.results, tuning.figures)
        as_good = [
            each
            for each in searched.keeping
            if each is not best and not is_beaten(tuning, each.point, best.point, searched.results)
        ]
    shares = {name: explained(searched, BY_NAME[name]) for name in tuning.figures}
    matters = {name: share for name, share in shares.items() if share is not None}
    return Answer(searched, searched.condition, lines, as_good, matters)


def steps_words(searched: Searched, tried: Tried) -> str:
    """The steps in words: "router.degree 6, router.degree_low 4"."""
    axes = searched.tuning.axes
    return ", ".join(f"{axis.name} {axis.labels[step]}" for axis, step in zip(axes, tried.steps, strict=True))


def tried_table(tuning: Tuning, searches: Sequence[Searched]) -> Any:
    """A row per point and condition, in the order they were tried. Figures are means over its seeds."""
    keys, at = axis_columns(tuning.study)
    figures = [(f"{name}{end}", pa.float64()) for name in tuning.figures for end in ("", "_low", "_high")]
    tried = fields("seeds int64, ended string, bound string, keeps_bounds bool, best bool")
    schema = [*fields("point string"), *keys, *tried, *figures]
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
