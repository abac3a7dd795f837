"""Runs in processes of this machine, without Spark: each process takes packs from a pipe."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import IO, TypeAlias, cast

from hearsay.extras import require_extra
from hearsay.pipeline.spark.place import Where, cores, heap
from hearsay.pipeline.spark.session import spark_session
from hearsay.studies.checked_file import StudyError
from hearsay.studies.packs import Made, PackMaker, Task
from hearsay.studies.spark_tasks import SparkTasks
from hearsay.studies.study_file import Study

_DIED = "its process was killed (out of memory?)"


class PackFailed(Exception):
    """A pack that was not made; the message is one line."""


class Processes:
    """A `PackMaker` of `count` processes, started on demand."""

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
    """Processes that have ended when this does."""
    opened = Processes(slots)
    try:
        yield opened
    finally:
        opened.cancel()


class _Process:
    """A process that makes one pack after the other, seen from its owner."""

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
        """Return the next result of a pack; None at its end."""
        answer: Made | str | None = pickle.load(self._answers)
        if isinstance(answer, str):
            raise PackFailed(answer)
        return answer


OpenPlace: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[PackMaker]]
"""Opens a place whose tasks can import these Python files and zips of packages."""


def is_on_spark(where: Where) -> bool:
    """Spark makes the runs where it is installed, and where one is named."""
    return where != Where() or find_spec("pyspark") is not None


def place_of_runs(study: Study, where: Where, say: Callable[[str], None]) -> OpenPlace:
    """Spark is required only when there are runs to make; `say` gets what there is to wait for."""
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
