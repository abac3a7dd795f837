"""Makes the runs of a study that are not there yet, and keeps each as soon as it is made.

Rules:

* A run that fails is kept with its error. A task that dies (its process was killed) is tried again run by run; a run
  whose process dies three times has failed.
* When Spark itself is gone, the sweep ends; what is kept stays, and the same command goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.place import SparkUnavailable
from hearsay.studies.errors import StudyFolderError
from hearsay.studies.folder import StudyFolder
from hearsay.studies.one_run import Row, Task, failed
from hearsay.studies.packs import PackMaker
from hearsay.studies.points import Point
from hearsay.studies.run_queue import RunQueue
from hearsay.studies.spark_tasks import GONE
from hearsay.studies.study_file import Study

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
    """None before the first run tells how fast runs are here."""


def tasks_of(study: Study, points: Iterable[Point]) -> list[Task]:
    """The runs of a study, each once, however many points share it."""
    found: dict[str, Task] = {}
    for point in points:
        for seed in point.seeds:
            run = point.run(seed)
            found[run] = Task(
                run, point.name, seed, point.scenario, point.files, study.engine, study.traces, study.cores_per_task
            )
    return list(found.values())


def missing(tasks: Iterable[Task], folder: StudyFolder, *, again: bool) -> list[Task]:
    """The runs to make; those that failed count as made unless they shall be tried `again`."""
    results = folder.results()
    return [task for task in tasks if not _made(task, results.get(task.run), folder, again)]


def _made(task: Task, row: Row | None, folder: StudyFolder, again: bool) -> bool:
    if row is None:
        return False
    if row["error"] is not None:
        return not again
    return not task.trace or folder.has_trace(task.run)


class Runner:
    """One sweep under way."""

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
        self._flying: dict[Future[list[Row]], list[Task]] = {}
        self._deaths: Counter[str] = Counter()
        self.kept: list[Row] = []
        self._failures = 0

    def run(self) -> None:
        """Until every run is kept; raises `SparkUnavailable` when Spark has gone."""
        with ThreadPoolExecutor(MOST_JOBS, thread_name_prefix="pack") as threads:
            try:
                while len(self._queue) or self._flying:
                    self._launch(threads)
                    landed, _ = wait(self._flying, _TICK_S, FIRST_COMPLETED)
                    for future in landed:
                        self._land(self._flying.pop(future), future)
                    self._listen(self._progress())
            except BaseException:
                for future in self._flying:
                    future.cancel()
                self._maker.cancel()
                raise

    def _launch(self, threads: ThreadPoolExecutor) -> None:
        """Keep one job more waiting than there are slots, so that a slot that falls free finds work there."""
        slots = self._maker.slots
        while len(self._queue) and len(self._flying) < min(MOST_JOBS, slots + max(1, slots // 4)):
            pack = self._queue.take(slots)
            self._flying[threads.submit(self._make, pack)] = pack

    def _make(self, pack: Sequence[Task]) -> list[Row]:
        rows: list[Row] = []
        for made in self._maker.run(pack):
            if made.file is not None:
                self._folder.add_trace(made.run, made.file, made.place, made.data)
            else:
                self._folder.finish_trace(made.run)
                rows.append(made.row)
        return rows

    def _land(self, pack: list[Task], future: Future[list[Row]]) -> None:
        error = future.exception()
        if error is None:
            self._keep(future.result())
            return
        if isinstance(error, StudyFolderError) or not isinstance(error, Exception):
            raise error
        if not self._maker.alive():
            raise SparkUnavailable(GONE)
        if len(pack) > 1:
            self._queue.put_back_alone(pack)
            return
        self._deaths[pack[0].run] += 1
        if self._deaths[pack[0].run] < ATTEMPTS:
            self._queue.put_back_alone(pack)
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
        running = list(self._flying.values())[: self._maker.slots]
        left = None
        if self.kept:
            flying = sum(self._queue.seconds(task.point) for pack in self._flying.values() for task in pack) / 2
            left = (self._queue.seconds_left() + flying) / self._maker.slots
        return Progress(self._total, len(self.kept), sum(map(len, running)), self._failures, left)
