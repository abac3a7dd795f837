"""Two classes that execute packs of runs: `Processes` with processes of this machine, `SparkTasks` with Spark.

Rules of tasks on Spark:

* No shared file system is needed: a job contains the input of its tasks, and their results contain the output. So the
  same code works embedded, on a cluster and over Spark Connect.
* Jobs are independent: several threads submit them, and Spark gives each the next free slot.
* A run that fails is a result. Any other error of a task (a killed process, a missing module) fails the job.
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

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import SparkUnavailable, Where, cores, heap
from hearsay.studies.checked_file import StudyError
from hearsay.studies.packs import Made, Task, make_pack
from hearsay.studies.study_file import Study
from hearsay.trace.folder.arrow import pa
from hearsay.user_errors import require_extra

_RESULT = "run string, file string, place bigint, data binary"
GONE = "Spark has gone (killed, out of memory?)"


class SparkTasks:
    """An executor of packs with an open Spark session. Each pack is a job with one task."""

    def __init__(self, session: Any, where: Where, cores_per_task: int) -> None:
        self._session = session
        self._connect = where.remote is not None
        self._cores_per_task = cores_per_task
        try:
            # Spark makes a partition for each core. This small job also tests the tasks' Python.
            self._slots: int = session.range(1 << 16).mapInArrow(_one_row, "part int").count()
        except Exception as error:
            raise SparkUnavailable(f"tasks on {where} cannot run this program: {in_one_line(error)}") from None

    @property
    def slots(self) -> int:
        """Return the number of packs that Spark executes at a time, at least 1. Ask Spark at each call, since a
        cluster may grow. With Spark Connect, return the number at the start of the session. Raise `SparkUnavailable`
        if Spark no longer answers.
        """
        if not self._connect:
            try:
                self._slots = int(self._session.sparkContext.defaultParallelism)
            except Exception:
                raise SparkUnavailable(GONE) from None
        return max(1, self._slots // self._cores_per_task)

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Execute the runs of a pack as a job, and yield the results. Block until a slot is free and runs have
        finished.
        """
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
        """Return True if Spark still answers."""
        try:
            if self._connect:
                return bool(self._session.conf.get("spark.app.name"))
            return bool(self._session.sparkContext.defaultParallelism)
        except Exception:
            return False

    def cancel(self) -> None:
        """Cancel all jobs of the session, if Spark still answers."""
        with suppress(Exception):
            if self._connect:
                self._session.interruptAll()
            else:
                self._session.sparkContext.cancelAllJobs()


def _one_row(batches: Iterable[Any]) -> Iterator[Any]:
    _read_out(batches)
    yield pa.RecordBatch.from_pydict({"part": pa.array([0], pa.int32())})


def _read_out(batches: Iterable[Any]) -> None:
    """Read the input of a task to its end. Otherwise Spark would end the worker process after the task, and the next
    worker would have to load all modules again.
    """
    for _ in batches:
        pass


def _as_batch(made: Made) -> Any:
    types = {"run": pa.string(), "file": pa.string(), "place": pa.int64(), "data": pa.binary()}
    return pa.RecordBatch.from_pydict({name: pa.array([getattr(made, name)], types[name]) for name in types})


_DIED = "its process was killed (out of memory?)"


class PackFailed(Exception):
    """The failure of a whole pack, not of a run. The message is one line."""


class Processes:
    """An executor of packs with at most `slots` processes of this machine. A process starts when a pack needs it; all
    processes end when the context ends.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free: SimpleQueue[_Process | None] = SimpleQueue()
        for _ in range(slots):
            self._free.put(None)
        self._started: list[_Process] = []
        self._starting = Lock()
        self._cancelled = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Execute the runs of a pack in a process, and yield the results. Block until a process is free and runs have
        finished. Raise `PackFailed` if the process fails or dies.
        """
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
        """Return True: after a failed pack, the next pack gets a new process."""
        return True

    def cancel(self) -> None:
        """Kill all processes. Further calls of `run` that need a new process raise `PackFailed`."""
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
        """Yield the results of a pack. Raise `PackFailed` if the process fails or dies."""
        try:
            pickle.dump(tuple(pack), self._packs)
            self._packs.flush()
            while (answer := pickle.load(self._answers)) is not None:
                if isinstance(answer, str):
                    raise PackFailed(answer)
                yield answer
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            raise PackFailed(_DIED) from None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._packs, self._answers):
            with suppress(OSError):
                pipe.close()


PackMaker: TypeAlias = SparkTasks | Processes
"""An executor of at most `slots` packs at a time. Several threads may call its method `run`."""
OpenPackMaker: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[PackMaker]]
"""A function from paths of Python files and zips to an open `PackMaker`, whose runs can import these modules."""


def is_on_spark(where: Where) -> bool:
    """Return True if Spark executes the runs: pyspark is installed, or `where` is not the default, embedded Spark."""
    return where != Where() or find_spec("pyspark") is not None


def choose_pack_maker(study: Study, where: Where, say: Callable[[str], None]) -> OpenPackMaker:
    """Return a function that opens a `PackMaker`, on Spark or with processes of this machine. Only a call of that
    function starts Spark or the processes. `say` gets messages about the start. Raise `StudyError` if `where` is
    embedded, and the study requires more cores per task than this machine has.
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
        with Processes(slots) as made:
            yield made

    return on_spark if is_on_spark(where) else in_processes
