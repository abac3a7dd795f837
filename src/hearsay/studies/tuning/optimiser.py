"""The choice of the combinations to try next, and the rules by which hopeless points end early."""

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
from hearsay.studies.statistics import mean_of, paired
from hearsay.studies.tables import values_at, values_by_seed
from hearsay.studies.tuning.space import Space, Steps
from hearsay.studies.tuning.tune_file import Tuning

_FEWEST = 3
_FIRST_SHARE = 4


class Ended(StrEnum):
    """The reason why a point gets no more seeds."""

    FINISHED = "finished"
    FAILED = "a run failed"
    UNMEASURED = "not measured"
    BREAKS = "breaks a bound"
    BEATEN = "cannot beat the best"
    OUT_OF_RUNS = "no runs left"


def rungs(seeds: int) -> list[int]:
    """Return the number of seeds that a point has after each round of the race."""
    return _doubled(min(seeds, max(_FEWEST, ceil(seeds / _FIRST_SHARE))), seeds)


def final_rungs(tuning: Tuning) -> list[int]:
    """Return the number of seeds that a finalist has after each round of the finals."""
    return _doubled(len(tuning.seeds), len(tuning.seeds) + len(tuning.final_seeds))[1:]


def _doubled(count: int, last: int) -> list[int]:
    """Return a number, its double, and so on up to the last."""
    return [count] if count >= last else [count, *_doubled(min(last, 2 * count), last)]


def stopped(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> tuple[Ended, Budget | None] | None:
    """Return the reason to end a point, whatever other points achieve, and the bound that it breaks; None if none."""
    if any(results[run]["error"] is not None for run in point.runs):
        return Ended.FAILED, None
    if len(values_at(point, results, tuning.aim.name)) < len(point.seeds):
        return Ended.UNMEASURED, None
    broken = next((bound for bound in tuning.bounds if _is_broken(bound, point, results, len(tuning.seeds))), None)
    return None if broken is None else (Ended.BREAKS, broken)


def is_beaten(tuning: Tuning, point: Point, leader: Point, results: Mapping[str, Row]) -> bool:
    """Return True if a point is significantly worse than `leader` on their common seeds."""
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, leader))
    both = [seed for seed in ours if seed in theirs]
    if len(both) < 2:
        return False
    behind = paired([tuning.better(theirs[seed]) for seed in both], [tuning.better(ours[seed]) for seed in both])
    return behind.low > 0


def is_same(tuning: Tuning, point: Point, other: Point, results: Mapping[str, Row]) -> bool:
    """Return True if two points have the same aim on every common seed, so that more seeds hardly separate them."""
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, other))
    return all(ours[seed] == theirs[seed] for seed in ours if seed in theirs)


def keeps_bounds(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> bool:
    return all(judged(bound, point, results).held for bound in tuning.bounds)


def excess(judgement: Judgement) -> float:
    """Return how far a metric is outside its bound, as a share of the bound; 1 if it was not measured."""
    if judgement.value is None or judgement.failures:
        return 1.0
    budget = judgement.budget
    bounds = [abs(bound) for bound in (budget.at_least, budget.at_most) if bound]
    return judgement.excess / min(bounds) if bounds else judgement.excess


def aim_of(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> float:
    """Return the mean of the aim over a point's seeds, negated if more is better; infinity if it was not measured."""
    mean = mean_of(values_at(point, results, tuning.aim.name))
    return inf if mean is None else tuning.better(mean.mean)


def _is_broken(bound: Budget, point: Point, results: Mapping[str, Row], all_seeds: int) -> bool:
    """Return True if the bound is broken, and more seeds are unlikely to change that."""
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
    """Return Optuna's distribution for the steps of each axis, by the axis's index as text."""
    found: dict[str, BaseDistribution] = {}
    for number, axis in enumerate(axes):
        last = len(axis.steps) - 1
        numbers = axis.numbers is not None
        found[str(number)] = IntDistribution(0, last) if numbers else CategoricalDistribution(range(last + 1))
    return found


class Optimiser:
    def __init__(self, space: Space, seed: int, first: Sequence[Steps]) -> None:
        """Create the optimiser. It tries the combinations `first` before all others."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")
        self._space = space
        self._chance = Random(seed)
        self._distributions = distributions(space.axes)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._asked: dict[Steps, Any] = {}
        self._best: tuple[float, float, Steps] | None = None
        """Excess, aim and steps of the best combination; a smaller excess counts before a smaller aim."""
        for steps in first:
            self._study.enqueue_trial(self._parameters(steps))

    def ask(self, count: int) -> list[Steps]:
        """Return untried combinations, at most `count`."""
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
        """Record the result of a combination: the aim (less is better; None if not measured), and how far it exceeds
        each bound.
        """
        trial = self._asked[steps]
        for name, excess in excesses.items():
            trial.set_constraint(name, excess)
        trial.set_constraint("measured", float(aim is None))
        self._study.tell(trial, 0.0 if aim is None else aim)
        if aim is not None:
            worth = (sum(excesses.values()), aim, steps)
            self._best = worth if self._best is None else min(self._best, worth)

    def _parameters(self, steps: Steps) -> dict[str, int]:
        return dict(zip(self._distributions, steps, strict=True))
