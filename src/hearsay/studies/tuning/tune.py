"""The execution of a tuning, and its answer: the best settings, their effect, and a table of the points tried.

A tuning executes a search in each condition, one after the other, with runs in packs as in a sweep. `search.py`
defines the terms. Rules:

* Rows of runs are stored as in a sweep, and found again by the names of the runs. After a kill, the same command
  requests the same runs in the same order, and executes the missing runs.
* In each condition, the combinations that were best in earlier conditions are tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import optuna

from hearsay.metrics import Metric
from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.studies.budgets import Budget, judged
from hearsay.studies.comparison import ComparisonRequest, FigureComparison, compare
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.points import Point, carried_modules
from hearsay.studies.processes import OpenPackMaker, PackMaker
from hearsay.studies.results import StudyFolder, axis_columns, fields, tables_of, values_at
from hearsay.studies.runner import Progress, Runner, tasks_of
from hearsay.studies.statistics import Mean, is_dominated, mean_of
from hearsay.studies.tuning.optimiser import Ended, distributions, is_beaten, keeps_bounds, rungs
from hearsay.studies.tuning.search import Search, Searched, Tried
from hearsay.studies.tuning.space import Space
from hearsay.studies.tuning.tune_file import CONFIRMATIONS, FINALISTS, Tuning
from hearsay.trace.folder.arrow import pa

FEWEST_POINTS = 10
"""The number of points that `explained` needs."""
_FOREST_SEED = 1
FOLDER = "answer"


def most_runs(spaces: Sequence[Space]) -> int:
    """Return an upper bound of the runs in all conditions: runs of the base, runs of the races and of the finals, and
    runs with fresh seeds.
    """
    runs = 0
    for space in spaces:
        tuning = space.tuning
        points = tuning.combinations if space.listed is None else len(space.listed)
        runs += len(tuning.seeds) + min(tuning.runs, points * len(tuning.seeds))
        runs += min(FINALISTS, points) * len(tuning.final_seeds) if points > 1 else 0
        runs += (1 + min(CONFIRMATIONS, points)) * len(tuning.fresh_seeds)
    return runs


class Tune:
    """The execution of a tuning in all conditions. The rows of runs are stored in `folder`."""

    def __init__(
        self,
        spaces: Sequence[Space],
        folder: StudyFolder,
        open_maker: OpenPackMaker,
        listen: Callable[[Progress], None],
        *,
        again: bool = False,
    ) -> None:
        """Create the execution. `listen` gets its progress. With `again`, failed runs are repeated."""
        self.tuning = spaces[0].tuning
        self.folder = folder
        self._spaces = spaces
        self._open_pack_maker = open_maker
        self._listen = listen
        self._results = folder.results()
        self._kept = {run for run, row in self._results.items() if row["error"] is None or not again}
        self._most = most_runs(spaces)
        self._asked: set[str] = set()
        self._made = self._failed = 0
        self._pace: float | None = None
        self._opened = ExitStack()
        self._maker: PackMaker | None = None

    def run(self) -> Tuned:
        searches: list[Searched] = []
        with self._opened:
            for space in self._spaces:
                winners = dict.fromkeys(found.best.steps for found in searches if found.best is not None)
                searches.append(Search(space, self._make, [steps for steps in winners if space.has(steps)]).run())
                points = [point for found in searches for point in found.points]
                tables = tables_of(self.tuning.study, points, self._results)
                self.folder.write_tables({**tables, "tried": tried_table(self.tuning, searches)})
        requested = {run: row for run, row in self._results.items() if run in self._asked}
        return Tuned(self.tuning, searches, requested, self._made)

    def _make(self, points: Sequence[Point]) -> Mapping[str, Row]:
        for point in points:
            self.folder.write_scenario(point)
        tasks = tasks_of(self.tuning.study, points)
        missing = [task for task in tasks if task.run not in self._kept]
        self._asked |= {task.run for task in tasks}
        if missing:
            runner = Runner(missing, points, self._shared_maker(), self.folder, self._report_progress)
            try:
                runner.run()
            finally:
                self._results.update({row["run"]: row for row in runner.kept})
                self._kept |= {row["run"] for row in runner.kept}
                self._made += len(runner.kept)
                self._failed += sum(row["error"] is not None for row in runner.kept)
        return self._results

    def _shared_maker(self) -> PackMaker:
        """Return the `PackMaker` for all runs. Open it at the first call, with the modules of all external routers
        that a step may need.
        """
        if self._maker is None:
            points = [point for space in self._spaces for point in (space.start, *space.examples)]
            work = self._opened.enter_context(work_folder())
            modules = carried_modules((point.scenario for point in points), work)
            self._maker = self._opened.enter_context(self._open_pack_maker(modules))
        return self._maker

    def _report_progress(self, progress: Progress) -> None:
        """Report the progress of the runs of some points as progress among all runs that the tuning may need."""
        open_runs = progress.total - progress.done
        if progress.seconds_left is not None and open_runs:
            self._pace = progress.seconds_left / open_runs
        done = len(self._asked) - open_runs
        left = None if self._pace is None else self._pace * (self._most - done)
        self._listen(Progress(self._most, done, progress.running, self._failed + progress.failed, left))


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a tuning. `searches` has the result of the search in each condition."""

    tuning: Tuning
    searches: Sequence[Searched]
    results: Mapping[str, Row]
    """The rows of all runs that the searches requested, by the name of the run."""
    made: int
    """Number of runs that this call executed."""

    @property
    def failures(self) -> list[Row]:
        """Return the rows of failed runs."""
        return [row for row in self.results.values() if row["error"] is not None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer in one condition."""

    searched: Searched
    lines: Sequence[FigureComparison]
    """The comparison of the base (A) with the best point (B) on fresh seeds: first by the aim, then by the bounded
    metrics. Empty without a best point.
    """
    as_good: Sequence[Tried]
    """The other points of `Searched.keeping` that are not significantly worse than the best point. A point that
    precedes the best point there has broken bounds on fresh seeds. Empty without a best point.
    """
    matters: Mapping[str, Mapping[str, float]]
    """The results of `explained` by metric, without None."""

    @property
    def best(self) -> Tried | None:
        return self.searched.best

    @property
    def condition(self) -> str | None:
        """Return the name of the condition; None without conditions."""
        return self.searched.label or None

    def file(self, what: str) -> str:
        """Return the name of a scenario file in the folder `FOLDER`. `what` is "start" for the base, or "best" for
        the best point.
        """
        number = self.searched.condition
        return f"{what}.toml" if number is None else f"{what}-{number + 1}.toml"

    def means(self) -> list[Mean]:
        """Return the means of the aim and the bounded metrics of the best point on fresh seeds; an empty list without
        a best point.
        """
        if self.searched.confirmed is None:
            return []
        point, results = self.searched.confirmed[1], self.searched.results
        means = (mean_of(values_at(point, results, name)) for name in self.searched.tuning.figures)
        return [mean for mean in means if mean is not None]

    def compare_command(self, folder: Path) -> str:
        """Return the command that compares the base with the best point on seeds that the tuning has not used.
        `folder` is the study's folder.
        """
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
    return Answer(searched, lines, as_good, matters)


def explained(searched: Searched, figure: Metric) -> Mapping[str, float] | None:
    """Return the share of a metric's variance that each axis explains alone, by the name of the axis, the largest
    share first. The values are means over the seeds of the first round of the race. Return None if fewer than
    `FEWEST_POINTS` points have a value on all these seeds, or if all values are equal.
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
    # Imported here, because it imports scikit-learn, which takes seconds. Small searches do not come here.
    importance: Any = import_module("optuna.importance")
    evaluator = importance.FanovaImportanceEvaluator(seed=_FOREST_SEED)
    found = importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    return {axes[int(number)].name: float(share) for number, share in found.items()}


def steps_words(searched: Searched, tried: Tried) -> str:
    """Return the steps of a point as words, such as "router.degree 6, router.degree_low 4"."""
    axes = searched.tuning.axes
    return ", ".join(f"{axis.name} {axis.labels[step]}" for axis, step in zip(axes, tried.steps, strict=True))


def tried_table(tuning: Tuning, searches: Sequence[Searched]) -> Any:
    """Return a table with a row for each point that was tried in each condition, in the order of the search. The
    columns of metrics are means over the seeds of the point, with their 95 % intervals.
    """
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


def fronts(searched: Searched) -> list[tuple[Budget, list[MeasuredPoint]]]:
    """Return each bound with the result of `front`. Leave out a bound of the aim, and bounds without points."""
    aim = searched.tuning.aim
    found = [(bound, front(searched, bound)) for bound in searched.tuning.bounds if bound.figure is not aim]
    return [(bound, spots) for bound, spots in found if spots]


def front(searched: Searched, bound: Budget) -> list[MeasuredPoint]:
    """Return all points that were tried and have values of both metrics: the aim and the metric of `bound`.

    A point is eligible if it meets all other bounds. An eligible point is on the front unless another eligible point
    is at least as good in both metrics and better in one or both.
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

    costs = [cost(bounded, aim) for _, bounded, aim, eligible in measured if eligible]

    return [
        MeasuredPoint(tried, bounded, aim, eligible, eligible and not is_dominated(cost(bounded, aim), costs))
        for tried, bounded, aim, eligible in measured
    ]


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A point that was tried, with the means of the aim and of one bounded metric over the seeds of the point."""

    tried: Tried
    bounded: Mean
    aim: Mean
    eligible: bool
    """True if the point meets all other bounds on its seeds."""
    on_front: bool
    """True if the point is eligible and no eligible point dominates it, see `front`."""
