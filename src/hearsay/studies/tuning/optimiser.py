"""The choice of the next combinations to try, and the rules for ending points early. `search.py` defines the
terms.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import ceil, inf
from random import Random
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from hearsay.studies.axes import Axis
from hearsay.studies.budgets import Budget, Judgement, judged
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.results import values_at, values_by_seed
from hearsay.studies.statistics import mean_of, paired
from hearsay.studies.tuning.space import Space, Steps
from hearsay.studies.tuning.tune_file import Tuning

_FEWEST = 3
_FIRST_SHARE = 4
"""In the first round, a point has at least `_FEWEST` seeds (or all, if there are fewer), and at least the
`_FIRST_SHARE`-th part of all seeds.
"""


class Ended(StrEnum):
    """The reason why a point gets no more seeds."""

    FINISHED = "finished"
    FAILED = "a run failed"
    UNMEASURED = "not measured"
    BREAKS = "breaks a bound"
    BEATEN = "cannot beat the best"
    OUT_OF_RUNS = "no runs left"


def rungs(seeds: int) -> list[int]:
    """Return the number of seeds of a point in each round of the race; `seeds` is the number in the last round."""
    return _doubled(min(seeds, max(_FEWEST, ceil(seeds / _FIRST_SHARE))), seeds)


def final_rungs(tuning: Tuning) -> list[int]:
    """Return the number of seeds of a finalist in each round of the finals."""
    return _doubled(len(tuning.seeds), len(tuning.seeds) + len(tuning.final_seeds))[1:]


def _doubled(count: int, last: int) -> list[int]:
    """Return `count`, twice `count`, four times `count` and so on, while they are below `last`, and then `last`."""
    return [count] if count >= last else [count, *_doubled(min(last, 2 * count), last)]


def end_reason(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> tuple[Ended, Budget | None] | None:
    """Return the reason to end a point because of its own results, without a comparison with other points. If the
    reason is `BREAKS`, also return the broken bound. Return None if the point need not end. `results` must have all
    runs of the point.
    """
    if any(results[run]["error"] is not None for run in point.run_names):
        return Ended.FAILED, None
    if len(values_at(point, results, tuning.aim.name)) < len(point.seeds):
        return Ended.UNMEASURED, None
    in_finals = len(point.seeds) > len(tuning.seeds)
    all_seeds = len(tuning.seeds) + len(tuning.final_seeds) * in_finals
    broken = next((bound for bound in tuning.bounds if _is_broken(bound, point, results, all_seeds)), None)
    return None if broken is None else (Ended.BREAKS, broken)


def is_beaten(tuning: Tuning, point: Point, leader: Point, results: Mapping[str, Row]) -> bool:
    """Return True if the aim of `point` is significantly worse than the aim of `leader`, on the seeds for which both
    have a value. Return False if there are fewer than two.
    """
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, leader))
    both = [seed for seed in ours if seed in theirs]
    if len(both) < 2:
        return False
    behind = paired([tuning.better(theirs[seed]) for seed in both], [tuning.better(ours[seed]) for seed in both])
    return behind.low > 0


def is_same(tuning: Tuning, point: Point, other: Point, results: Mapping[str, Row]) -> bool:
    """Return True if two points have the same aim on each seed for which both have a value. More seeds would hardly
    distinguish the points.
    """
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, other))
    return all(ours[seed] == theirs[seed] for seed in ours if seed in theirs)


def keeps_bounds(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> bool:
    """Return True if all bounds are held on the seeds of the point."""
    return all(judged(bound, point, results).held for bound in tuning.bounds)


def excess(judgement: Judgement) -> float:
    """Return the distance of a value from the bound that it breaks, divided by the smallest absolute bound that is
    not 0, if there is one. Return 0 if the value breaks no bound, and 1 without a value or with a failed run.
    """
    if judgement.value is None or judgement.failures:
        return 1.0
    bounds = [abs(bound) for bound in judgement.budget.bounds.values() if bound]
    return judgement.excess / min(bounds) if bounds else judgement.excess


def aim_of(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> float:
    """Return the mean of the aim over a point's seeds, so that less is better (`Tuning.better`); infinity if
    unknown.
    """
    mean = mean_of(values_at(point, results, tuning.aim.name))
    return inf if mean is None else tuning.better(mean.mean)


def _is_broken(bound: Budget, point: Point, results: Mapping[str, Row], all_seeds: int) -> bool:
    """Return True if a point breaks the bound and further seeds are unlikely to change this, or if a run has no
    value.
    """
    values = values_at(point, results, bound.figure.name)
    if len(values) < len(point.seeds):
        return True
    outside = sum(bound.excess(value) > 0 for value in values)
    match bound.judge:
        case "worst":
            return outside > 0
        case "p90":
            return outside > all_seeds - ceil(all_seeds * 9 / 10)
        case _:
            mean = mean_of(values)
            assert mean is not None
            if mean.low is None or mean.high is None:
                return False
            below = bound.at_least is not None and mean.high < bound.at_least
            return below or (bound.at_most is not None and mean.low > bound.at_most)


_ATTEMPTS_EACH = 20


def distributions(axes: Sequence[Axis]) -> dict[str, BaseDistribution]:
    """Return Optuna's distribution of the indexes of steps on each axis, by the index of the axis as text."""
    found: dict[str, BaseDistribution] = {}
    for number, axis in enumerate(axes):
        last = len(axis.steps) - 1
        numbers = axis.numbers is not None
        found[str(number)] = IntDistribution(0, last) if numbers else CategoricalDistribution(range(last + 1))
    return found


class Optimiser:
    """The choice of combinations by Optuna's sampler TPE, which learns from the results of earlier combinations."""

    def __init__(self, space: Space, seed: int, first: Sequence[Steps]) -> None:
        """Create the optimiser. `ask` returns the combinations `first` before all others. `seed` is the
        random seed.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")
        self._space = space
        self._chance = Random(seed)
        self._distributions = distributions(space.axes)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._asked: dict[Steps, Any] = {}
        """Optuna's trial of each combination that `ask` returned; None if the combination has a result."""
        self._best: tuple[float, float, Steps] | None = None
        """The excess (summed over metrics), aim and steps of the best combination: that with the smallest excess and,
        among equal ones, the smallest aim.
        """
        for steps in first:
            self._study.enqueue_trial(self._parameters(steps))

    def ask(self, count: int) -> list[Steps]:
        """Return at most `count` valid combinations that no call has returned before."""
        batch: list[Steps] = []
        for _ in range(count * _ATTEMPTS_EACH):
            if len(batch) == count:
                return batch
            trial = self._study.ask(self._distributions)
            steps: Steps = tuple(trial.params[name] for name in self._distributions)
            if steps in self._asked or not self._space.has(steps):
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._asked[steps] = trial
                batch.append(steps)
        near = None if self._best is None else self._best[-1]
        for steps in self._space.others(near, self._chance):
            if len(batch) == count:
                break
            if steps not in self._asked:
                self._study.enqueue_trial(self._parameters(steps))
                self._asked[steps] = self._study.ask(self._distributions)
                batch.append(steps)
        return batch

    def tell(self, steps: Steps, aim: float | None, excesses: Mapping[str, float]) -> None:
        """Record the first result of a combination; ignore further results. A lower `aim` is better; None is an aim
        without a value. `excesses` has the result of `excess` for each bounded metric.
        """
        trial = self._asked[steps]
        if trial is None:
            return
        self._asked[steps] = None
        for name, excess in excesses.items():
            trial.set_constraint(name, excess)
        trial.set_constraint("measured", float(aim is None))
        self._study.tell(trial, 0.0 if aim is None else aim)
        if aim is not None:
            candidate = (sum(excesses.values()), aim, steps)
            self._best = candidate if self._best is None else min(self._best, candidate)

    def _parameters(self, steps: Steps) -> dict[str, int]:
        return dict(zip(self._distributions, steps, strict=True))
