"""Sweeps: execute the missing runs of a study in packs of suitable size, and store the rows of each finished pack."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.place import SparkUnavailable
from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.studies.checked_file import StudyFolderError
from hearsay.studies.folder import StudyFolder
from hearsay.studies.packs import PackMaker, Row, Task, failed
from hearsay.studies.points import Point, carried_modules
from hearsay.studies.processes import GONE, OpenPackMaker
from hearsay.studies.study_file import Study
from hearsay.studies.tables import tables_of

LEAST_S = 1.0
MOST_S = 4.0
"""Bounds of the expected seconds of a pack, apart from packs of one run."""
_TASKS_LEFT_PER_SLOT = 4


@dataclass(slots=True)
class _MeasuredRuns:
    seconds: float = 0.0
    runs: int = 0


class RunQueue:
    """The runs that wait for a pack."""

    def __init__(self, tasks: Sequence[Task], estimates: Mapping[str, float]) -> None:
        """Create the queue. `estimates` has seconds by point; once a run is measured, only their ratios matter."""
        self._estimates = estimates
        self._tasks = deque(sorted(tasks, key=lambda task: -estimates[task.point]))
        self._alone: deque[Task] = deque()
        self._left = Counter(task.point for task in tasks)
        self._measured: dict[str, _MeasuredRuns] = {}
        self._measured_s = self._estimated_s = 0.0

    def __len__(self) -> int:
        return len(self._tasks) + len(self._alone)

    def take(self, slots: int) -> list[Task]:
        """Remove and return the runs of the next pack; empty when none are left."""
        worth = min(MOST_S, max(LEAST_S, self.seconds_left() / (slots * _TASKS_LEFT_PER_SLOT)))
        taken: list[Task] = []
        seconds = 0.0
        if self._alone:
            taken.append(self._alone.popleft())
        else:
            while self._tasks and (not taken or seconds + self.seconds(self._tasks[0].point) / 2 < worth):
                taken.append(self._tasks.popleft())
                seconds += self.seconds(taken[-1].point)
        self._left.subtract(task.point for task in taken)
        return taken

    def requeue_separately(self, tasks: Sequence[Task]) -> None:
        """Queue the runs of a pack whose process died, each as a pack of its own, to find the run that kills it."""
        self._alone.extend(tasks)
        self._left.update(task.point for task in tasks)

    def learn(self, point: str, seconds: float) -> None:
        """Record the measured time of a run of this point."""
        measured = self._measured.setdefault(point, _MeasuredRuns())
        measured.seconds += seconds
        measured.runs += 1
        self._measured_s += seconds
        self._estimated_s += self._estimates[point]

    def seconds(self, point: str) -> float:
        """Return the expected seconds of a run of this point."""
        measured = self._measured.get(point)
        if measured is not None:
            return measured.seconds / measured.runs
        pace = self._measured_s / self._estimated_s if self._estimated_s else 1.0
        return self._estimates[point] * pace

    def seconds_left(self) -> float:
        """Return the expected seconds of all waiting runs, one after the other."""
        return sum(count * self.seconds(point) for point, count in self._left.items() if count)


ATTEMPTS = 3
MOST_JOBS = 1024
_TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    total: int
    done: int
    running: int
    failed: int
    seconds_left: float | None
    """Expected seconds until the end; None before the first run has ended."""


def tasks_of(study: Study, points: Iterable[Point]) -> list[Task]:
    """Return the runs of a study, each once even if several points share it."""
    found: dict[str, Task] = {}
    for point in points:
        for seed in point.seeds:
            run = point.run(seed)
            found[run] = Task(
                run, point.name, seed, point.scenario, point.files, study.engine, study.traces, study.cores_per_task
            )
    return list(found.values())


def missing(tasks: Iterable[Task], folder: StudyFolder, *, again: bool) -> list[Task]:
    """Return the runs whose row, or requested trace, is not in the folder; with `again`, failed runs, too."""
    results = folder.results()
    return [task for task in tasks if not _made(task, results.get(task.run), folder, again)]


def _made(task: Task, row: Row | None, folder: StudyFolder, again: bool) -> bool:
    if row is None:
        return False
    if row["error"] is not None:
        return not again
    return not task.trace or folder.has_trace(task.run)


class Runner:
    """An executor of packs of runs, several packs at a time. If a pack fails, its runs are tried again one by one."""

    def __init__(
        self,
        tasks: Sequence[Task],
        points: Iterable[Point],
        maker: PackMaker,
        folder: StudyFolder,
        listen: Callable[[Progress], None],
    ) -> None:
        self._total = len(tasks)
        self._queue = RunQueue(tasks, {point.name: point.estimated_s for point in points})
        self._maker = maker
        self._folder = folder
        self._listen = listen
        self._pending: dict[Future[list[Row]], list[Task]] = {}
        self._deaths: Counter[str] = Counter()
        self.kept: list[Row] = []
        """The rows that were written to the folder."""
        self._failures = 0

    def run(self) -> None:
        """Execute all runs and write their rows. Raise `SparkUnavailable` if Spark has gone."""
        with ThreadPoolExecutor(MOST_JOBS, thread_name_prefix="pack") as threads:
            try:
                while len(self._queue) or self._pending:
                    self._submit_packs(threads)
                    finished, _ = wait(self._pending, _TICK_S, FIRST_COMPLETED)
                    for future in finished:
                        self._finish_pack(self._pending.pop(future), future)
                    self._listen(self._progress())
            except BaseException:
                for future in self._pending:
                    future.cancel()
                self._maker.cancel()
                raise

    def _submit_packs(self, threads: ThreadPoolExecutor) -> None:
        """Submit a few packs more than there are slots, so that a slot that becomes free has work at once."""
        slots = self._maker.slots
        while len(self._queue) and len(self._pending) < min(MOST_JOBS, slots + max(1, slots // 4)):
            pack = self._queue.take(slots)
            self._pending[threads.submit(self._make, pack)] = pack

    def _make(self, pack: Sequence[Task]) -> list[Row]:
        rows: list[Row] = []
        for made in self._maker.run(pack):
            if made.file is not None:
                self._folder.add_trace(made.run, made.file, made.place, made.data)
            else:
                self._folder.finish_trace(made.run)
                rows.append(made.row)
        return rows

    def _finish_pack(self, pack: list[Task], future: Future[list[Row]]) -> None:
        error = future.exception()
        if error is None:
            self._keep(future.result())
            return
        if isinstance(error, StudyFolderError) or not isinstance(error, Exception):
            raise error
        if not self._maker.alive():
            raise SparkUnavailable(GONE)
        if len(pack) > 1:
            self._queue.requeue_separately(pack)
            return
        self._deaths[pack[0].run] += 1
        if self._deaths[pack[0].run] < ATTEMPTS:
            self._queue.requeue_separately(pack)
        else:
            self._keep([failed(pack[0], f"{in_one_line(error)}, {ATTEMPTS} times")])

    def _keep(self, rows: Sequence[Row]) -> None:
        self._folder.add(rows)
        self.kept += rows
        self._failures += sum(row["error"] is not None for row in rows)
        for row in rows:
            if "wall_s" in row:
                self._queue.learn(row["point"], row["wall_s"])

    def _progress(self) -> Progress:
        left = None
        if self.kept:
            submitted_s = sum(self._queue.seconds(task.point) for pack in self._pending.values() for task in pack)
            left = (self._queue.seconds_left() + submitted_s / 2) / self._maker.slots
        return Progress(self._total, len(self.kept), min(len(self._pending), self._maker.slots), self._failures, left)


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep."""

    study: Study
    points: Sequence[Point]
    results: Mapping[str, Row]
    """The rows of the study's runs, by run."""
    made: int
    """Number of these runs that this sweep executed."""

    @property
    def failures(self) -> list[Row]:
        return [row for row in self.results.values() if row["error"] is not None]


class Sweep:
    """A study's points and its folder, from which the sweep continues."""

    def __init__(self, study: Study, points: Sequence[Point], folder: StudyFolder, *, again: bool = False) -> None:
        """Find the missing runs. `again` repeats failed ones."""
        self.study = study
        self.folder = folder
        self.points = points
        self._tasks = tasks_of(study, points)
        self.missing: list[Task] = missing(self._tasks, folder, again=again)

    @property
    def runs(self) -> int:
        return len(self._tasks)

    def run(self, open_maker: OpenPackMaker, listen: Callable[[Progress], None]) -> Swept:
        """Execute the missing runs and write the tables; after an error, too, with the runs that have finished."""
        for point in self.points:
            self.folder.write_scenario(point)
        try:
            if self.missing:
                with work_folder() as work:
                    modules = carried_modules((point.scenario for point in self.points), work)
                    with open_maker(modules) as maker:
                        Runner(self.missing, self.points, maker, self.folder, listen).run()
        finally:
            swept = self.swept()
            self.folder.write_tables(tables_of(self.study, self.points, swept.results))
        return swept

    def swept(self) -> Swept:
        results = self.folder.results()
        own = {task.run: results[task.run] for task in self._tasks if task.run in results}
        return Swept(self.study, self.points, own, sum(task.run in results for task in self.missing))
