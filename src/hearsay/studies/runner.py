"""Sweeps, which execute the missing runs of a study in packs of suitable size, and write the rows of each finished
pack. `Sweep.missing` says which runs are missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.settings import SparkUnavailable
from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.studies.checked_file import StudyFolderError
from hearsay.studies.packs import Row, Task, failed
from hearsay.studies.points import Point, carried_modules
from hearsay.studies.processes import GONE, OpenPackMaker, PackMaker
from hearsay.studies.results import StudyFolder, tables_of
from hearsay.studies.study_file import Study

LEAST_S = 1.0
MOST_S = 4.0
"""`LEAST_S` and `MOST_S` bound the expected seconds that a new pack should have. The last packs may have less, and a
pack with a long run has more.
"""
_TASKS_LEFT_PER_SLOT = 4


class RunQueue:
    """A queue of the runs that are in no pack yet. It makes packs by the expected seconds of each run, long runs
    first.
    """

    def __init__(self, tasks: Sequence[Task], estimates: Mapping[str, float]) -> None:
        """Create the queue. `estimates` maps the name of each point to the estimated seconds of one run. After the
        first measured run, the estimates are scaled to the measured times.
        """
        self._estimates = estimates
        self._tasks = deque(sorted(tasks, key=lambda task: -estimates[task.point]))
        self._alone: deque[Task] = deque()
        self._left = Counter(task.point for task in tasks)
        self._runs_measured: Counter[str] = Counter()
        self._seconds_measured: defaultdict[str, float] = defaultdict(float)
        self._measured_s = self._estimated_s = 0.0

    def __len__(self) -> int:
        return len(self._tasks) + len(self._alone)

    def take(self, slots: int) -> list[Task]:
        """Remove and return the runs of the next pack; an empty list if no runs are left. `slots` is the number of
        packs that are executed at a time.
        """
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
        """Return the runs of a failed pack to the queue, each as a pack with one run, to find the run that fails."""
        self._alone.extend(tasks)
        self._left.update(task.point for task in tasks)

    def learn(self, point: str, seconds: float) -> None:
        """Record the measured seconds of a run of this point."""
        self._runs_measured[point] += 1
        self._seconds_measured[point] += seconds
        self._measured_s += seconds
        self._estimated_s += self._estimates[point]

    def seconds(self, point: str) -> float:
        """Return the expected seconds of a run of this point: the mean of measured runs, or a scaled estimate."""
        if runs := self._runs_measured[point]:
            return self._seconds_measured[point] / runs
        pace = self._measured_s / self._estimated_s if self._estimated_s else 1.0
        return self._estimates[point] * pace

    def seconds_left(self) -> float:
        """Return the sum of the expected seconds of all runs in the queue."""
        return sum(count * self.seconds(point) for point, count in self._left.items() if count)

    def seconds_to_end(self, packs: Iterable[Sequence[Task]], slots: int) -> float:
        """Return the expected seconds until all runs in the queue and in `packs` have ended. The packs are running,
        and are half done on average. `slots` is the number of packs that are executed at a time.
        """
        halves = [sum(self.seconds(task.point) for task in pack) / 2 for pack in packs]
        return max((self.seconds_left() + sum(halves)) / slots, max(halves, default=0.0))


ATTEMPTS = 3
MOST_JOBS = 1024
_TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a sweep or tuning, as numbers of runs. A sweep counts only the runs that it executes."""

    total: int
    done: int
    """Number of runs that have a row, failed runs included."""
    running: int
    """Number of packs that are being executed. Each has one run in progress."""
    failed: int
    seconds_left: float | None
    """Expected seconds until the end of all runs; None until the first pack has ended."""


def tasks_of(study: Study, points: Iterable[Point]) -> list[Task]:
    """Return the tasks of all runs of these points. A run that several points share has one task."""
    found: dict[str, Task] = {}
    for point in points:
        for seed in point.seeds:
            run = point.run_name(seed)
            found[run] = Task(
                run, point.name, seed, point.scenario, point.files, study.engine, study.traces, study.cores_per_task
            )
    return list(found.values())


def _is_made(task: Task, row: Row | None, folder: StudyFolder, again: bool) -> bool:
    """Return True if a run need not be executed: it failed and `again` is False, or it succeeded and the folder has
    its trace, if the task requests a trace.
    """
    if row is None:
        return False
    if row["error"] is not None:
        return not again
    return not task.trace or folder.has_trace(task.run)


class Runner:
    """The execution of runs with a `PackMaker`, several packs at a time. The runs of a pack that fails are tried
    again, each in a pack with one run, at most `ATTEMPTS` times in such packs.
    """

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
        """The rows that this runner wrote to the folder."""
        self._failures = 0

    def run(self) -> None:
        """Execute all runs and write their rows. Raise `SparkUnavailable` if Spark no longer answers, and
        `StudyFolderError` if a row or trace cannot be written.
        """
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
        """Submit a quarter more packs than there are slots (at least one more, at most `MOST_JOBS` in all), so that
        a slot that becomes free has work at once.
        """
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
            left = self._queue.seconds_to_end(self._pending.values(), self._maker.slots)
        return Progress(self._total, len(self.kept), min(len(self._pending), self._maker.slots), self._failures, left)


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep."""

    study: Study
    points: Sequence[Point]
    results: Mapping[str, Row]
    """The rows of the study's finished runs, failed runs included, by the name of the run."""
    made: int
    """Number of runs in `Sweep.missing` that have a row."""

    @property
    def failures(self) -> list[Row]:
        return [row for row in self.results.values() if row["error"] is not None]


class Sweep:
    """The execution of a study's missing runs. A later sweep with the same folder executes only the runs that are
    still missing.
    """

    def __init__(self, study: Study, points: Sequence[Point], folder: StudyFolder, *, again: bool = False) -> None:
        """Find the missing runs. With `again`, failed runs are executed again."""
        self.study = study
        self.folder = folder
        self.points = points
        self._tasks = tasks_of(study, points)
        rows = folder.results()
        self.missing = [task for task in self._tasks if not _is_made(task, rows.get(task.run), folder, again)]
        """The runs to execute: runs without a row, runs without a requested trace and, with `again`, failed runs."""

    @property
    def runs(self) -> int:
        return len(self._tasks)

    def run(self, open_maker: OpenPackMaker, listen: Callable[[Progress], None]) -> Swept:
        """Write the scenarios of all points, execute the missing runs, and write the tables, even if an error ends
        the sweep. The tables have all runs that have finished. `listen` gets the progress at least twice a second.
        """
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
