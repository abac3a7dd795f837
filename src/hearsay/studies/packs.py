"""A pack of runs: how it is made wherever that is, and what comes back of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from hearsay.studies.one_run import Row, Task, files_of, perform

_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Made:
    """What came back: a run's row (no file), or a stretch of a file of its trace."""

    run: str
    file: str | None
    place: int
    data: bytes

    @property
    def row(self) -> Row:
        return json.loads(self.data)


class PackMaker(Protocol):
    """Makes packs of runs, some at a time; asked from several threads."""

    @property
    def slots(self) -> int:
        """How many packs are made at a time."""
        ...

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Make the runs of a pack; blocks until a slot is free and the runs are made, raises if they cannot be."""
        ...

    def alive(self) -> bool:
        """Whether it can make others after a pack has failed."""
        ...

    def cancel(self) -> None:
        """End all that is being made."""
        ...


def make_pack(tasks: Sequence[Task]) -> Iterator[Made]:
    """Run by run: the files of its trace, if it is asked for, and then its row."""
    for task in tasks:
        with TemporaryDirectory(prefix="hearsay-traces-") as folder:
            row = perform(task, Path(folder) if task.trace else None)
            if row["error"] is None:
                for name, path in files_of(Path(folder) / task.run):
                    yield from _stretches(task.run, name, path)
        yield Made(task.run, None, 0, json.dumps(row).encode())


def _stretches(run: str, name: str, path: Path) -> Iterator[Made]:
    with path.open("rb") as file:
        place = 0
        while data := file.read(_CHUNK):
            yield Made(run, name, place, data)
            place += len(data)
