"""The answer of a search: the best settings, their effect, and the points that were tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import optuna

from hearsay.metrics import Metric
from hearsay.studies.axes import Axis
from hearsay.studies.budgets import Budget, judged
from hearsay.studies.comparison import ComparisonRequest, FigureComparison, compare
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.statistics import Mean, is_dominated, mean_of
from hearsay.studies.tables import axis_columns, fields, values_at
from hearsay.studies.tuning.optimiser import Ended, distributions, is_beaten, keeps_bounds, rungs
from hearsay.studies.tuning.search import Searched, Tried
from hearsay.studies.tuning.tune_file import Tuning
from hearsay.trace.folder.arrow import pa


@dataclass(frozen=True, slots=True)
class Spot:
    """A point with the means of the aim and of a bounded metric, over the seeds of the point."""

    tried: Tried
    bounded: Mean
    aim: Mean
    eligible: bool
    """True if it meets the other bounds on its seeds."""
    on_front: bool


def front(searched: Searched, bound: Budget) -> list[Spot]:
    """Return all points with values of the aim and of the bounded metric.

    An eligible point is on the front unless another eligible point is at least as good in both and better in one.
    """
    tuning = searched.tuning
    falling = bound.at_most is None
    others = [other for other in tuning.bounds if other is not bound]
    measured: list[tuple[Tried, Mean, Mean, bool]] = []
    for tried in searched.tried:
        bounded = mean_of(values_at(tried.point, searched.results, bound.figure.name))
        aim = mean_of(values_at(tried.point, searched.results, tuning.aim.name))
        if bounded is not None and aim is not None:
            eligible = all(judged(other, tried.point, searched.results).held for other in others)
            measured.append((tried, bounded, aim, eligible))

    def cost(bounded: Mean, aim: Mean) -> tuple[float, float]:
        return -bounded.mean if falling else bounded.mean, tuning.better(aim.mean)

    eligible_costs = [cost(bounded, aim) for _, bounded, aim, eligible in measured if eligible]

    return [
        Spot(tried, bounded, aim, eligible, eligible and not is_dominated(cost(bounded, aim), eligible_costs))
        for tried, bounded, aim, eligible in measured
    ]


def fronts(searched: Searched) -> list[tuple[Budget, list[Spot]]]:
    """Return the points of `front` for the bound of each metric except the aim."""
    aim = searched.tuning.aim
    found = [(bound, front(searched, bound)) for bound in searched.tuning.bounds if bound.figure is not aim]
    return [(bound, spots) for bound, spots in found if spots]


FEWEST_POINTS = 10
_FOREST_SEED = 1


def explained(searched: Searched, figure: Metric) -> Mapping[str, float] | None:
    """Return the share of a metric's variance that each axis explains, by the axis's name, the largest first. Return
    None with fewer than `FEWEST_POINTS` measured points, or if all have the same value.
    """
    axes = searched.tuning.axes
    seeds = searched.tuning.seeds[: rungs(len(searched.tuning.seeds))[0]]
    space = distributions(axes)
    trials: list[Any] = []
    for each in searched.tried:
        values = values_at(replace(each.point, seeds=seeds), searched.results, figure.name)
        if len(values) == len(seeds):
            steps = dict(zip(space, each.steps, strict=True))
            mean = sum(values) / len(values)
            trials.append(optuna.trial.create_trial(params=steps, distributions=space, value=mean))
    if len(trials) < FEWEST_POINTS or len({trial.value for trial in trials}) < 2:
        return None
    study = optuna.create_study()
    study.add_trials(trials)
    return _shares(axes, study)


def _shares(axes: Sequence[Axis], study: optuna.Study) -> dict[str, float]:
    # Imported here, because it imports scikit-learn, which takes seconds. Small searches do not call this function.
    importance: Any = import_module("optuna.importance")
    evaluator = importance.FanovaImportanceEvaluator(seed=_FOREST_SEED)
    found = importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    return {axes[int(number)].name: float(share) for number, share in found.items()}


FOLDER = "answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer in a condition. `lines` compare base and best on fresh seeds: the aim, then the bounded metrics."""

    searched: Searched
    number: int | None
    """The index of the condition; None without conditions."""
    lines: Sequence[FigureComparison]
    as_good: Sequence[Tried]
    """Other settings that meet the bounds and do not differ significantly from the best."""
    matters: Mapping[str, Mapping[str, float]]
    """The share of a metric's variance that each axis explains alone, by metric; of metrics with enough points."""

    @property
    def best(self) -> Tried | None:
        return self.searched.best

    @property
    def condition(self) -> str | None:
        """Return the name of the condition; None without conditions."""
        return self.searched.label or None

    def file(self, what: str) -> str:
        """Return the name of a scenario in the answer's folder; `what` is `start` or `best`."""
        return f"{what}.toml" if self.number is None else f"{what}-{self.number + 1}.toml"

    def means(self) -> list[Mean]:
        """Return the means of the best point's metrics on fresh seeds; empty without a best point."""
        if self.searched.confirmed is None:
            return []
        point, results = self.searched.confirmed[1], self.searched.results
        means = (mean_of(values_at(point, results, name)) for name in self.searched.tuning.figures)
        return [mean for mean in means if mean is not None]

    def compare_command(self, folder: Path) -> str:
        """Return the command that compares base and best on seeds that the tuning has not used."""
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
    """Return the steps in words: "router.degree 6, router.degree_low 4"."""
    axes = searched.tuning.axes
    return ", ".join(f"{axis.name} {axis.labels[step]}" for axis, step in zip(axes, tried.steps, strict=True))


def tried_table(tuning: Tuning, searches: Sequence[Searched]) -> Any:
    """Return a table with a row per point and condition, in the order of trial. Metrics are means over seeds."""
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
