"""Runs in processes of this machine, for those who have no Spark: each takes packs from a pipe until it is ended.

Rules:

* A process is a Python of its own with the same path, so nothing depends on how this program was started, and a
  router that prints or dies disturbs nobody. One that has died is followed by another.
* What such a process does is in `pack_process.py`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Lock
from typing import IO, cast

from hearsay.studies.one_run import Task
from hearsay.studies.packs import Made

_DIED = "its process was killed (out of memory?)"


class PackFailed(Exception):
    """A pack that was not made; the message is one line."""


class Processes:
    """A `PackMaker` of so many processes, which are started when they are needed."""

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
        """What comes next of a pack; None at its end."""
        answer: Made | str | None = pickle.load(self._answers)
        if isinstance(answer, str):
            raise PackFailed(answer)
        return answer
