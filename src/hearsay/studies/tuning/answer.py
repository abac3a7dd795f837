"""The answer of a search: what to set, what it is worth on seeds that nobody has looked at, and what is as good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearsay.studies.comparison import FigureComparison, compare
from hearsay.studies.comparison_request import ComparisonRequest
from hearsay.studies.figures import BY_NAME
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.race import is_beaten
from hearsay.studies.tuning.search import Searched, Tried
from hearsay.studies.tuning.sensitivity import explained

FOLDER = "answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """`lines` compare the base with the best on fresh seeds: the aim first, then what is bounded."""

    searched: Searched
    number: int | None
    """Which of several conditions; None if there are none."""
    lines: Sequence[FigureComparison]
    as_good: Sequence[Tried]
    """What keeps the bounds as well, and cannot be told apart from the best."""
    matters: Mapping[str, Mapping[str, float]]
    """By figure the share of its variance that each axis explains by itself, where enough was tried to say."""

    @property
    def best(self) -> Tried | None:
        return self.searched.best

    @property
    def condition(self) -> str | None:
        """What its condition is called, if there are several."""
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
        """The comparison of the base with the best on seeds that nobody has looked at."""
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
