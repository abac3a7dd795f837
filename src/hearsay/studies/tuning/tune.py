"""Tuning from beginning to end: the search in each condition, with runs in packs as in a sweep.

Rules:

* Runs are stored as in a sweep, and found again by their names. After a kill, the same command requests the same runs
  in the same order, and executes the missing ones.
* The best points of earlier conditions are tried first in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.studies.folder import StudyFolder
from hearsay.studies.packs import PackMaker, Row
from hearsay.studies.points import Point, carried_modules
from hearsay.studies.processes import OpenPackMaker
from hearsay.studies.runner import Progress, Runner, tasks_of
from hearsay.studies.tables import tables_of
from hearsay.studies.tuning.answer import tried_table
from hearsay.studies.tuning.search import Search, Searched
from hearsay.studies.tuning.space import Space
from hearsay.studies.tuning.tune_file import CONFIRMATIONS, FINALISTS, Tuning


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a tuning: a search for each condition."""

    tuning: Tuning
    searches: Sequence[Searched]
    results: Mapping[str, Row]
    made: int
    """Number of runs that this tuning executed."""

    @property
    def failures(self) -> list[Row]:
        """Return the failed runs, of all that were requested."""
        asked = {run for found in self.searches for point in (found.start, *found.points) for run in point.runs}
        return [row for run, row in self.results.items() if run in asked and row["error"] is not None]


def most_runs(spaces: Sequence[Space]) -> int:
    """Return the maximum number of runs: base, search, finals and fresh seeds in each condition."""
    return sum(map(_most_in, spaces))


def _most_in(space: Space) -> int:
    tuning = space.tuning
    points = tuning.combinations if space.listed is None else len(space.listed)
    searched = min(tuning.runs, points * len(tuning.seeds))
    finals = min(FINALISTS, points) * len(tuning.final_seeds) if points > 1 else 0
    return len(tuning.seeds) + searched + finals + (1 + min(CONFIRMATIONS, points)) * len(tuning.fresh_seeds)


class Tune:
    """A running tuning."""

    def __init__(
        self,
        spaces: Sequence[Space],
        folder: StudyFolder,
        open_maker: OpenPackMaker,
        listen: Callable[[Progress], None],
        *,
        again: bool = False,
    ) -> None:
        """Create the tuning. `again` repeats failed runs."""
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
                self._write_tables(searches)
        return Tuned(self.tuning, searches, self._results, self._made)

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
        """Open one `PackMaker` for all runs, with the modules of the routers of all steps."""
        if self._maker is None:
            points = [point for space in self._spaces for point in (space.start, *space.examples)]
            work = self._opened.enter_context(work_folder())
            modules = carried_modules((point.scenario for point in points), work)
            self._maker = self._opened.enter_context(self._open_pack_maker(modules))
        return self._maker

    def _report_progress(self, progress: Progress) -> None:
        """Report the progress of a few runs as progress of all possible runs."""
        open_runs = progress.total - progress.done
        if progress.seconds_left is not None and open_runs:
            self._pace = progress.seconds_left / open_runs
        done = len(self._asked) - open_runs
        left = None if self._pace is None else self._pace * (self._most - done)
        self._listen(Progress(self._most, done, progress.running, self._failed + progress.failed, left))

    def _write_tables(self, searches: Sequence[Searched]) -> None:
        points = [point for found in searches for point in found.points]
        tables = tables_of(self.tuning.study, points, self._results)
        self.folder.write_tables({**tables, "tried": tried_table(self.tuning, searches)})
