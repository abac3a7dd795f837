"""The two `PackMaker`s, which execute packs of runs: processes of this machine, and tasks of Spark.

Rules of tasks on Spark:

* No shared file system is needed: a job contains the input of its tasks, and their results contain the output. So the
  same code works embedded, on a cluster and over Spark Connect.
* Jobs are independent: several threads submit them, and Spark gives each the next free slot.
* An error of a task that is not a failed run (a killed process, a missing module) fails the job.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import IO, Any, TypeAlias, cast

from hearsay.extras import require_extra
from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.place import SparkUnavailable, Where, cores, heap
from hearsay.pipeline.spark.session import spark_session
from hearsay.studies.checked_file import StudyError
from hearsay.studies.packs import Made, PackMaker, Task, make_pack
from hearsay.studies.study_file import Study
from hearsay.trace.folder.arrow import pa

_RESULT = "run string, file string, place bigint, data binary"
GONE = "Spark has gone (killed, out of memory?)"


class SparkTasks:
    """A `PackMaker` that uses the tasks of an open Spark session."""

    def __init__(self, session: Any, where: Where, cores_per_task: int) -> None:
        self._session = session
        self._connect = where.remote is not None
        self._where = where
        self._cores_per_task = cores_per_task
        self._slots = self._ask_for_slots()

    @property
    def slots(self) -> int:
        """Return how many packs run at a time. A cluster may grow, so ask Spark each time, except over Connect."""
        if not self._connect:
            try:
                self._slots = int(self._session.sparkContext.defaultParallelism)
            except Exception:
                raise SparkUnavailable(GONE) from None
        return max(1, self._slots // self._cores_per_task)

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Execute the runs of a pack as a job; block until a slot is free and the runs have finished."""
        tasks = tuple(pack)

        def work(batches: Iterable[Any]) -> Iterator[Any]:
            _read_out(batches)
            yield from map(_as_batch, make_pack(tasks))

        one: Any = self._session.range(0, 1, 1, 1)
        made: Any = one.mapInArrow(work, _RESULT)
        # Traces may be large, so they are fetched piece by piece. Rows are small, and fetching all at once is faster.
        for line in made.toLocalIterator() if any(task.trace for task in tasks) else made.collect():
            yield Made(line.run, line.file, line.place, bytes(line.data))

    def alive(self) -> bool:
        """Return True if Spark still runs after a failed job."""
        try:
            session = self._session
            return bool(
                session.conf.get("spark.app.name") if self._connect else session.sparkContext.defaultParallelism
            )
        except Exception:
            return False

    def cancel(self) -> None:
        """End all jobs of the session, if Spark still answers."""
        try:
            if self._connect:
                self._session.interruptAll()
            else:
                self._session.sparkContext.cancelAllJobs()
        except Exception:
            return

    def _ask_for_slots(self) -> int:
        """Ask Spark for the number of its partitions by a small job, which also tests the Python of the tasks."""
        try:
            parts = self._session.range(1 << 16).mapInArrow(_one_row, "part int").count()
        except Exception as error:
            raise SparkUnavailable(f"tasks on {self._where} cannot run this program: {in_one_line(error)}") from None
        return int(parts)


def _one_row(batches: Iterable[Any]) -> Iterator[Any]:
    _read_out(batches)
    yield pa.RecordBatch.from_pydict({"part": pa.array([0], pa.int32())})


def _read_out(batches: Iterable[Any]) -> None:
    """Read the input to its end: only then does Spark keep the worker, with its loaded modules, for the next task."""
    for _ in batches:
        pass


def _as_batch(made: Made) -> Any:
    types = {"run": pa.string(), "file": pa.string(), "place": pa.int64(), "data": pa.binary()}
    return pa.RecordBatch.from_pydict({name: pa.array([getattr(made, name)], types[name]) for name in types})


_DIED = "its process was killed (out of memory?)"


class PackFailed(Exception):
    """A pack could not be made; the message is one line."""


class Processes:
    """A `PackMaker` of up to `slots` processes, which are started on demand."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free: SimpleQueue[_Process | None] = SimpleQueue()
        for _ in range(slots):
            self._free.put(None)
        self._started: list[_Process] = []
        self._starting = Lock()
        self._cancelled = False

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        process = self._free.get()
        whole = False
        try:
            process = process or self._start()
            yield from process.make(pack)
            whole = True
        finally:
            if process is not None and not whole:
                process.end()
            self._free.put(process if whole else None)

    def alive(self) -> bool:
        return True

    def cancel(self) -> None:
        with self._starting:
            self._cancelled = True
        for process in self._started:
            process.end()

    def _start(self) -> _Process:
        with self._starting:
            if self._cancelled:
                raise PackFailed("cancelled")
            self._started.append(_Process())
            return self._started[-1]


@contextmanager
def processes(slots: int) -> Generator[Processes]:
    """Yield a `PackMaker` whose processes are killed when the context ends."""
    opened = Processes(slots)
    try:
        yield opened
    finally:
        opened.cancel()


class _Process:
    """The parent's side of a process that executes one pack after the other (`pack_process.py`)."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hearsay.studies.pack_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._packs = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    def make(self, pack: Sequence[Task]) -> Iterator[Made]:
        try:
            pickle.dump(tuple(pack), self._packs)
            self._packs.flush()
            while (answer := self._answer()) is not None:
                yield answer
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            raise PackFailed(_DIED) from None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._packs, self._answers):
            with suppress(OSError):
                pipe.close()

    def _answer(self) -> Made | None:
        """Return the next result of a pack; None at its end. Raise `PackFailed` if the process reports an error."""
        answer: Made | str | None = pickle.load(self._answers)
        if isinstance(answer, str):
            raise PackFailed(answer)
        return answer


OpenPackMaker: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[PackMaker]]
"""Opens a `PackMaker` whose tasks can import these Python files and zips of packages."""


def is_on_spark(where: Where) -> bool:
    """Return True if Spark executes the runs: it is installed, or a cluster or server is named."""
    return where != Where() or find_spec("pyspark") is not None


def choose_pack_maker(study: Study, where: Where, say: Callable[[str], None]) -> OpenPackMaker:
    """Return the function that opens a `PackMaker` on Spark or with local processes. Call it only if runs are
    missing, so that Spark does not start without need; `say` gets progress messages.
    """
    cores_per_task = study.cores_per_task
    if where.is_embedded and cores_per_task > cores():
        raise StudyError([f"{study.name}: cores_per_task = {cores_per_task}: there are {cores()} cores here"])

    @contextmanager
    def on_spark(modules: Sequence[Path]) -> Generator[PackMaker]:
        require_extra("spark")
        if where.remote is None:
            heap()
        with spark_session(where, 0, say, cores_per_task=cores_per_task, modules=modules) as session:
            yield SparkTasks(session, where, cores_per_task)

    @contextmanager
    def in_processes(_modules: Sequence[Path]) -> Generator[PackMaker]:
        slots = max(1, cores() // cores_per_task)
        say(f"Spark is not installed, so runs are made in {slots} processes of this machine")
        with processes(slots) as made:
            yield made

    return on_spark if is_on_spark(where) else in_processes
