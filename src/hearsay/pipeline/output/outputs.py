"""Where an analysis writes: into the run itself, or into a folder of its own with what a report needs of the run.

Rules:

* Either is ours (`trace.folder.own_folders`), and so are the folders of tables in it. One analysis at a time writes
  there.
* A folder of a run is nobody's output but its own: tables of another run would take its manifest's place.
* Of old tables only what an analysis wrote goes; other files in `metrics/` stay where they are.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hearsay.foreign_files import open_regular
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.trace.folder.durable import DurableFile, write_durably
from hearsay.trace.folder.manifest import MANIFEST
from hearsay.trace.folder.own_folders import (
    LOCKS,
    MARKER,
    Holds,
    OwnFolder,
    claim,
    is_real_folder,
    refuse_link,
    remove_written,
    require_ours,
)
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES

CARRIED = (
    *(f"{DICTIONARIES}/{name}.parquet" for name in ("peers", "topics", "messages")),
    "summary.json",
    "scenario.toml",
    MANIFEST,
)
"""What a report needs of a run beside the tables."""

SUCCESS = "_SUCCESS"
_OF_TABLES = (f"part-{'[0-9]' * 5}*.parquet", ".*.crc", SUCCESS)


@contextmanager
def claimed_outputs(runs: Mapping[str, Path], outputs: Mapping[str, Path]) -> Generator[None]:
    """The outputs of these runs, by name, are written by nobody else meanwhile; raises if they are not ours."""
    with ExitStack() as claimed:
        taken: set[Path] = set()
        for name, output in outputs.items():
            if output.resolve() in taken:
                raise RunFolderError(f"{output}: named twice")
            taken.add(output.resolve())
            claimed.enter_context(claim_output(runs[name], output))
        yield


def claim_output(run: Path, output: Path) -> OwnFolder:
    """The folder to write the tables of a run into: the run's own, or one in a folder that was named for tables."""
    of_the_run = (Holds.RUN, Holds.SERIES) if is_same(run, output) else ()
    inner = (METRICS_FOLDER, DICTIONARIES)
    if not of_the_run:
        refuse_link(output.parent)
    place = output.resolve() if of_the_run else output
    require_ours(place, Holds.TABLES, also=of_the_run, inner=inner)
    require_tables(place)
    return claim(place, Holds.TABLES, also=of_the_run, inner=inner)


def is_same(run: Path, output: Path) -> bool:
    return run.resolve() == output.resolve()


def require_tables(output: Path) -> None:
    """Raise unless `metrics/` is ours or not there."""
    require_ours(output / METRICS_FOLDER, Holds.METRICS)


def are_old_tables(folder: Path) -> bool:
    """Whether an analysis wrote these."""
    try:
        return require_ours(folder, Holds.METRICS) is not None
    except RunFolderError:
        return False


def remove_tables(old: Path, current: Path) -> None:
    """Remove tables that were replaced; what others had put among them moves to the current ones."""
    remove_written(old, [f"{table}/{pattern}" for table in TABLES for pattern in _OF_TABLES])
    remove_written(old, (LOCKS, MARKER))
    _move_into(old, current)


def carry(run: Path, output: Path) -> None:
    """Copy what a report needs beside the tables."""
    if is_same(run, output):
        return
    try:
        for name in CARRIED:
            if (run / name).is_file():
                (output / name).parent.mkdir(exist_ok=True)
                _copy(run / name, output / name)
    except OSError as error:
        raise RunFolderError(f"{error.filename or output}: cannot be written ({error.strerror or error})") from None


def _copy(source: Path, target: Path) -> None:
    def fill(file: DurableFile) -> None:
        with open_regular(source) as opened:
            while data := opened.read(1 << 20):
                file.write(data)

    write_durably(target, fill)


def _move_into(source: Path, target: Path) -> None:
    for entry in list(source.iterdir()):
        place = target / entry.name
        if not os.path.lexists(place):
            entry.rename(place)
        elif is_real_folder(entry) and is_real_folder(place):
            _move_into(entry, place)
    with suppress(OSError):  # two files of one name: the old one stays aside
        source.rmdir()
