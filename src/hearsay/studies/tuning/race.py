"""Points against bounds and against each other, on few seeds first: who is hopeless gets no more of them.

Rules:

* Every point begins with the same few seeds; those still in the race get twice as many, until they have all.
* A point stops when a run of it failed or lacks the figure aimed at, when its seeds so far say that it breaks a
  bound, and when the paired interval between it and the leader lies on the wrong side of 0.
* The leader is the best of those whose seeds so far keep the bounds. Stopping compares on the seeds that both have.
* Finals: of those that had all seeds the few best get twice as many again and again, as long as they cannot be told
  from the leader of the finals, so that luck on a few seeds does not choose the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil, inf

from hearsay.studies.budgets import Budget, Judgement, judged
from hearsay.studies.one_run import Row
from hearsay.studies.points import Point
from hearsay.studies.statistics import mean_of, paired
from hearsay.studies.tables import values_at, values_by_seed
from hearsay.studies.tuning.tune_file import Tuning

_FEWEST = 3
_FIRST_SHARE = 4


class Ended(StrEnum):
    """How a point's race ended."""

    FINISHED = "finished"
    FAILED = "a run failed"
    UNMEASURED = "not measured"
    BREAKS = "breaks a bound"
    BEATEN = "cannot beat the best"
    OUT_OF_RUNS = "no runs left"


def rungs(seeds: int) -> list[int]:
    """How many seeds a point has had after each part of the race."""
    counts = [min(seeds, max(_FEWEST, ceil(seeds / _FIRST_SHARE)))]
    while counts[-1] < seeds:
        counts.append(min(seeds, 2 * counts[-1]))
    return counts


def final_rungs(tuning: Tuning) -> list[int]:
    """How many seeds a finalist has had after each part of the finals."""
    counts = [len(tuning.seeds)]
    last = len(tuning.seeds) + len(tuning.final_seeds)
    while counts[-1] < last:
        counts.append(min(last, 2 * counts[-1]))
    return counts[1:]


def stopped(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> tuple[Ended, Budget | None] | None:
    """Why a point by itself is out of the race, if it is."""
    if any(results[run]["error"] is not None for run in point.runs):
        return Ended.FAILED, None
    if len(values_at(point, results, tuning.aim.name)) < len(point.seeds):
        return Ended.UNMEASURED, None
    broken = next((bound for bound in tuning.bounds if _is_broken(bound, point, results, len(tuning.seeds))), None)
    return None if broken is None else (Ended.BREAKS, broken)


def is_beaten(tuning: Tuning, point: Point, leader: Point, results: Mapping[str, Row]) -> bool:
    """Whether a point is worse than another on the seeds that both have, by more than chance explains."""
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, leader))
    both = [seed for seed in ours if seed in theirs]
    if len(both) < 2:
        return False
    behind = paired([tuning.better(theirs[seed]) for seed in both], [tuning.better(ours[seed]) for seed in both])
    return behind.low > 0


def is_same(tuning: Tuning, point: Point, other: Point, results: Mapping[str, Row]) -> bool:
    """Whether two points have the same aim on every seed that both have: more seeds would hardly tell them apart."""
    ours, theirs = (values_by_seed(each, results, tuning.aim.name) for each in (point, other))
    return all(ours[seed] == theirs[seed] for seed in ours if seed in theirs)


def keeps_bounds(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> bool:
    return all(judged(bound, point, results).held for bound in tuning.bounds)


def excess(judgement: Judgement) -> float:
    """How far a figure lies outside its bound, as a share of that; 1 where nothing was measured."""
    if judgement.value is None or judgement.failures:
        return 1.0
    budget = judgement.budget
    bounds = [abs(bound) for bound in (budget.at_least, budget.at_most) if bound]
    return judgement.excess / min(bounds) if bounds else judgement.excess


def aim_of(tuning: Tuning, point: Point, results: Mapping[str, Row]) -> float:
    """The mean of the figure aimed at over a point's seeds, with the sign that makes less better."""
    mean = mean_of(values_at(point, results, tuning.aim.name))
    return inf if mean is None else tuning.better(mean.mean)


def _is_broken(bound: Budget, point: Point, results: Mapping[str, Row], all_seeds: int) -> bool:
    """Whether more seeds would hardly change that a bound is broken."""
    values = values_at(point, results, bound.figure.name)
    if len(values) < len(point.seeds):
        return True
    outside = sum(_is_outside(bound, value) for value in values)
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


def _is_outside(bound: Budget, value: float) -> bool:
    below = bound.at_least is not None and value < bound.at_least
    return below or (bound.at_most is not None and value > bound.at_most)
