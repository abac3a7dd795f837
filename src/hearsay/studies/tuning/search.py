"""The search in one condition: batches of points race until runs or combinations are used up.

Terms:

* A condition is a step of an axis that is not searched, such as churn.
* The base is the scenario of the condition without steps of the searched axes.
* A combination is one step of each searched axis; its point is the base with these steps.
* The aim is the metric to optimise. Bounds limit metrics.
* A race gives the points of a batch more seeds in each round (`rungs`). A point ends when it gets no more seeds.
* The leader is the point with the best aim among the points that meet the bounds.
* The finals give more seeds to the best points (finalists) if the race does not distinguish them.
* Fresh seeds are seeds that neither the race nor the finals use.

After each round of a race, a point ends if one of its runs failed or has no value, if it breaks a bound, or if it is
significantly worse than the leader. After the last race come the finals. Then the base and the best point run with
fresh seeds.

Rules:

* All decisions depend only on the file and on the rows of runs, not on the number of parallel tasks or on runs that
  existed before. So a search that continues after a kill has the same result.
* If a point ended because a leader was better, and this leader breaks a bound with more seeds, the point returns.
* If too few runs are left for all points of a batch, the least promising points end with the seeds that they have.
* The answer is the best point that also keeps its bounds on fresh seeds. At most `CONFIRMATIONS` points are tried
  there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias

from hearsay.studies.budgets import Budget, judged
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.results import values_at
from hearsay.studies.statistics import mean_of
from hearsay.studies.tuning.optimiser import (
    Ended,
    Optimiser,
    aim_of,
    end_reason,
    excess,
    final_rungs,
    is_beaten,
    is_same,
    keeps_bounds,
    rungs,
)
from hearsay.studies.tuning.space import Space, Steps
from hearsay.studies.tuning.tune_file import CONFIRMATIONS, FINALISTS, Tuning

BATCH = 8
"""Maximum number of points in a batch. It does not depend on the machine, since the result depends on it."""

MakeRuns: TypeAlias = Callable[[Sequence[Point]], Mapping[str, Row]]
"""A function that executes the missing runs of some points, and returns the rows of all runs of the tuning."""


@dataclass(slots=True)
class Tried:
    """A point that was tried. `point.seeds` are the seeds that it has had so far."""

    steps: Steps
    point: Point
    ended: Ended | None = None
    """The reason why the point ended; None while it races."""
    broken: Budget | None = None
    """The bound that the point breaks, if `ended` is `BREAKS`."""
    beaten_by: Steps | None = None
    """The steps of the leader that was significantly better, if `ended` is `BEATEN`."""


@dataclass(slots=True)
class Searched:
    """The result of the search in one condition."""

    tuning: Tuning
    condition: int | None
    """The index of the condition; None without conditions."""
    start: Point
    """The point of the base, with all seeds of the race."""
    tried: list[Tried] = field(default_factory=list[Tried])
    runs: int = 0
    """Runs of the races, without runs of the base."""
    finalists: int = 0
    """Number of points in the finals; 0 without finals."""
    final_runs: int = 0
    """Runs of the finals, which are not in `runs`."""
    results: Mapping[str, Row] = field(default_factory=dict[str, Row])
    best: Tried | None = None
    """The best point that also meets its bounds on fresh seeds."""
    confirmed: tuple[Point, Point] | None = None
    """The base and the best point, with fresh seeds."""

    @property
    def label(self) -> str:
        """Return the label of the condition; the empty string without conditions."""
        conditions = self.tuning.conditions
        return "" if conditions is None or self.condition is None else conditions.labels[self.condition]

    @property
    def title(self) -> str:
        """Return the condition as text, such as "share of nodes away 0.1"; the empty string without conditions."""
        conditions = self.tuning.conditions
        return "" if conditions is None else f"{conditions.name} {self.label}"

    @property
    def label_words(self) -> str:
        """Return the beginning of lines about the condition, such as "share of nodes away 0.1: ", or the empty
        string.
        """
        return f"{self.title}: " if self.title else ""

    @property
    def points(self) -> list[Point]:
        """Return all points that were tried. The best point also has the fresh seeds."""
        fresh = {} if self.confirmed is None else {self.confirmed[1].name: self.confirmed[1].seeds}
        return [
            replace(each.point, seeds=(*each.point.seeds, *fresh.get(each.point.name, ()))) for each in self.tried
        ]

    @property
    def keeping(self) -> list[Tried]:
        """Return the points that had all seeds of the race and meet the bounds, the best first.

        Points with more seeds, from the finals, come first. Points with the same number of seeds are in the order of
        their aims.
        """
        finished = [each for each in self.tried if each.ended is Ended.FINISHED]
        keeping = [each for each in finished if keeps_bounds(self.tuning, each.point, self.results)]
        return sorted(
            keeping,
            key=lambda each: (-len(each.point.seeds), aim_of(self.tuning, each.point, self.results), each.steps),
        )

    @property
    def nearest(self) -> Tried | None:
        """Return the point with the smallest `excess_of`, among the points that had all seeds of the race or, without
        such a point, among all points without a failed run or missing aim. Return None if there is no such point
        either.
        """
        known = [each for each in self.tried if each.ended not in (Ended.FAILED, Ended.UNMEASURED)]
        finished = [each for each in known if each.ended is Ended.FINISHED]
        return min(finished or known, key=lambda each: self.excess_of(each.point), default=None)

    def settings(self, tried: Tried) -> dict[str, object]:
        """Return the values that the steps of a point give to keys of the scenario, by key. Decimals are floats."""
        steps = zip(self.tuning.axes, tried.steps, strict=True)
        settings = [setting for axis, step in steps for setting in axis.settings(step)]
        return {key: float(value) if isinstance(value, Decimal) else value for key, value in settings}

    def excess_of(self, point: Point) -> float:
        """Return the sum of the result of `excess` for each bound."""
        return sum(excess(judged(bound, point, self.results)) for bound in self.tuning.bounds)


class Search:
    """The search in one condition."""

    def __init__(self, space: Space, make: MakeRuns, first: Sequence[Steps]) -> None:
        """Create the search of a space. The search tries the combinations `first` before all others."""
        self._tuning = space.tuning
        self._space = space
        self._make = make
        self._found = Searched(space.tuning, space.condition, space.start)
        self._optimiser = Optimiser(space, space.tuning.search_seed, first)
        self._rungs = rungs(len(space.tuning.seeds))

    def run(self) -> Searched:
        found = self._found
        self._measure([found.start])
        while batch := self._next_batch():
            self._race(batch)
            for each in batch:
                self._report_result(each)
        self._run_finals()
        self._confirm()
        return found

    def _next_batch(self) -> list[Tried]:
        """Return the next batch: the points that return because the leader that ended them breaks a bound, and then
        new points of the optimiser. An empty batch ends the races.
        """
        back = sorted(self._points_to_return(), key=self._rank)[:BATCH]
        for each in back:
            each.ended = each.beaten_by = None
        had = [len(each.point.seeds) for each in back]
        left = self._left() - sum(next(rung for rung in self._rungs if rung > seeds) - seeds for seeds in had)
        room = min(BATCH - len(back), max(0, left) // self._rungs[0])
        asked = self._optimiser.ask(room) if room > 0 else []
        new = [Tried(steps, self._space.point(steps, ())) for steps in asked]
        self._found.tried += new
        return [*back, *new]

    def _points_to_return(self) -> list[Tried]:
        """Return the points that ended because of a leader that now breaks a bound."""
        tried, results = self._found.tried, self._found.results
        breaking = {each.steps for each in tried if not keeps_bounds(self._tuning, each.point, results)}
        return [each for each in tried if each.beaten_by in breaking]

    def _left(self) -> int:
        return self._tuning.runs - self._found.runs

    def _measure(self, points: Sequence[Point]) -> None:
        self._found.results = self._make(points)

    def _race(self, batch: Sequence[Tried]) -> None:
        for count in self._rungs:
            waiting = [each for each in batch if each.ended is None and len(each.point.seeds) < count]
            alive = self._affordable(waiting, count)
            for each in alive:
                each.point = replace(each.point, seeds=self._tuning.seeds[:count])
            if alive:
                self._measure([each.point for each in alive])
                self._end_points(alive, count)
        for each in batch:
            each.ended = each.ended or Ended.FINISHED

    def _affordable(self, waiting: list[Tried], count: int) -> list[Tried]:
        """Return the points that can get `count` seeds with the runs that are left, and add these runs to the used
        runs. End all other points.
        """
        alive: list[Tried] = []
        for each in sorted(waiting, key=self._rank):
            cost = count - len(each.point.seeds)
            if cost <= self._left():
                self._found.runs += cost
                alive.append(each)
            else:
                each.ended = Ended.OUT_OF_RUNS
        return alive

    def _rank(self, tried: Tried) -> tuple[float, float, Steps]:
        """Return a sort key that puts the most promising point first."""
        found = self._found
        return found.excess_of(tried.point), aim_of(self._tuning, tried.point, found.results), tried.steps

    def _end_points(self, alive: Sequence[Tried], seeds: int) -> None:
        results = self._found.results
        for each in alive:
            out = end_reason(self._tuning, each.point, results)
            if out is not None:
                each.ended, each.broken = out
        leader = self._leader(seeds)
        for each in alive:
            if (
                leader is not None
                and each.ended is None
                and is_beaten(self._tuning, each.point, leader.point, results)
            ):
                each.ended, each.beaten_by = Ended.BEATEN, leader.steps

    def _leader(self, seeds: int) -> Tried | None:
        """Return the point with the best aim on the first `seeds` seeds, among the points that have not ended early,
        have at least this number of seeds and meet the bounds; None if there is none.
        """
        results = self._found.results
        keeping = [
            each
            for each in self._found.tried
            if each.ended in (None, Ended.FINISHED)
            and len(each.point.seeds) >= seeds
            and keeps_bounds(self._tuning, each.point, results)
        ]

        def aim(tried: Tried) -> tuple[float, Steps]:
            point = replace(tried.point, seeds=tried.point.seeds[:seeds])
            return aim_of(self._tuning, point, results), tried.steps

        return min(keeping, key=aim, default=None)

    def _report_result(self, tried: Tried) -> None:
        found = self._found
        mean = mean_of(values_at(tried.point, found.results, self._tuning.aim.name))
        excesses = {
            bound.figure.name: excess(judged(bound, tried.point, found.results)) for bound in self._tuning.bounds
        }
        self._optimiser.tell(tried.steps, None if mean is None else self._tuning.better(mean.mean), excesses)

    def _run_finals(self) -> None:
        found, tuning = self._found, self._tuning
        finalists = self._contested(found.keeping[:FINALISTS])
        found.finalists = len(finalists)
        seeds = (*tuning.seeds, *tuning.final_seeds)
        for count in final_rungs(tuning):
            contested = self._contested(finalists)
            if not contested:
                break
            for each in contested:
                found.final_runs += count - len(each.point.seeds)
                each.point = replace(each.point, seeds=seeds[:count])
            self._measure([each.point for each in contested])
            for each in contested:
                out = end_reason(tuning, each.point, found.results)
                if out is not None:
                    each.ended, each.broken = out

    def _contested(self, finalists: Sequence[Tried]) -> list[Tried]:
        """Return the best finalist that meets the bounds, and the finalists that meet the bounds and are neither
        significantly worse than the best nor have the same aim on every seed. Return an empty list if that is fewer
        than two points.
        """
        found, tuning = self._found, self._tuning
        keeping = [each for each in found.keeping if each in finalists]
        if not keeping:
            return []
        leader = keeping[0]
        others = [
            each
            for each in keeping[1:]
            if not is_beaten(tuning, each.point, leader.point, found.results)
            and not is_same(tuning, each.point, leader.point, found.results)
        ]
        return [leader, *others] if others else []

    def _confirm(self) -> None:
        """Run the base and the best point on fresh seeds. If the point breaks its bounds there, try the next best
        point.
        """
        fresh = self._tuning.fresh_seeds
        start = replace(self._found.start, seeds=fresh)
        for tried in self._found.keeping[:CONFIRMATIONS]:
            point = replace(tried.point, seeds=fresh)
            self._measure([start, point])
            if keeps_bounds(self._tuning, point, self._found.results):
                self._found.best = tried
                self._found.confirmed = (start, point)
                return
