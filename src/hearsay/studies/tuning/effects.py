"""Effects of the axes: the front of the figure against a bound, and shares of its variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import optuna

from hearsay.metrics import Metric
from hearsay.studies.axes import Axis
from hearsay.studies.budgets import Budget, judged
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.optimiser import distributions, rungs
from hearsay.studies.tuning.search import Searched, Tried


@dataclass(frozen=True, slots=True)
class Spot:
    """A point with both figures, on the seeds it had."""

    tried: Tried
    bounded: Mean
    aim: Mean
    eligible: bool
    """True if its seeds keep the other bounds."""
    on_front: bool


def front(searched: Searched, bound: Budget) -> list[Spot]:
    """All points that have both figures. On the front nothing eligible is better in one and as good in the other."""
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

    def is_beaten(costs: tuple[float, float]) -> bool:
        return any(c <= costs[0] and a <= costs[1] and (c, a) != costs for c, a in eligible_costs)

    return [
        Spot(tried, bounded, aim, eligible, eligible and not is_beaten(cost(bounded, aim)))
        for tried, bounded, aim, eligible in measured
    ]


def fronts(searched: Searched) -> list[tuple[Budget, list[Spot]]]:
    """A front for each bounded figure but the one aimed at."""
    aim = searched.tuning.aim
    found = [(bound, front(searched, bound)) for bound in searched.tuning.bounds if bound.figure is not aim]
    return [(bound, spots) for bound, spots in found if spots]


FEWEST_POINTS = 10
_FOREST_SEED = 1


def explained(searched: Searched, figure: Metric) -> Mapping[str, float] | None:
    """The share of each axis by its name, the largest first; None if too few points differ to say."""
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
    # It brings scikit-learn, which takes seconds to import; a small search has too few points to ask for it.
    importance: Any = import_module("optuna.importance")
    evaluator = importance.FanovaImportanceEvaluator(seed=_FOREST_SEED)
    found = importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    return {axes[int(number)].name: float(share) for number, share in found.items()}
