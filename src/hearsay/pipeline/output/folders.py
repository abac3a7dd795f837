"""The folders from which an analysis reads runs, and into which it writes tables (the outputs), with their locks.

Names of files are relative paths with slashes. Rules:

* An analysis writes into the folder of the analysed run, or into a folder for tables alone. If such a folder, or a
  folder of tables in it, is not empty, it must have a marker of this program (`trace.folder.own_folders`). Except in
  a store, only one analysis at a time writes into a folder.
* The folder of a run gets no tables of other runs, because an output also gets the manifest of the analysed run, and
  the other files of the run that a report needs in addition to the tables (`CARRIED`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hearsay.foreign_files import open_regular
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.pipeline.run_facts import RunFacts, load_runs
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.durable import write_durably
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError
from hearsay.trace.folder.own_folders import Holds, claim, mark, refuse_link, require_ours
from hearsay.trace.folder.run_folder import DICTIONARIES

WORK = ".metrics-work"
CARRIED = (
    *(f"{DICTIONARIES}/{name}.parquet" for name in ("peers", "topics", "messages")),
    "summary.json",
    "scenario.toml",
    MANIFEST,
)
"""The files of a run that a report needs in addition to the tables."""


class Folder:
    """A folder of this machine, or of a file system that all machines of a cluster share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = WORK
        """The name of the folder for unpublished files of this analysis."""

    def is_abandoned(self, since_us: int) -> bool:
        """Return True if the files of another analysis, which began at the Unix time `since_us`, can be removed.

        In a local folder that is always the case, because the lock excludes other analyses.
        """
        return True

    def __str__(self) -> str:
        """Return the path as given."""
        return str(self.path)

    @property
    def location(self) -> str:
        """Return the path or URI for Spark, whose tasks may have another working directory."""
        return str(self.path.absolute())

    @property
    def store(self) -> str:
        """Return the name of the file system. `move_from` moves files between folders of the same file system."""
        return ""

    @property
    def identity(self) -> str | Path:
        """Return a value that is equal for two objects of the same folder."""
        return self.path.resolve()

    def claim(self, run: Path) -> AbstractContextManager[object]:
        """Return a context manager with a lock that keeps other processes from writing into the folder.

        The folder must be that of the run `run`, or one for tables alone. Otherwise, and if another process has the
        lock, raise `RunFolderError`. A store has no lock: there, only remove the files of abandoned analyses.
        """
        of_the_run = (Holds.RUN, Holds.SERIES) if is_same(run, self.path) else ()
        inner = (METRICS_FOLDER, DICTIONARIES)
        if not of_the_run:
            refuse_link(self.path.parent)
        place = self.path.resolve() if of_the_run else self.path
        require_ours(place, Holds.TABLES, also=of_the_run, inner=inner)
        require_ours(place / METRICS_FOLDER, Holds.METRICS, inner=TABLES)
        return claim(place, Holds.TABLES, also=of_the_run, inner=inner)

    def make_folder(self, name: str, what: Holds) -> None:
        """Create the folder `name` below this one, if it is missing, and mark it as one of this program.

        Raise `RunFolderError` if it exists, is not empty and has another marker or none.
        """
        require_ours(self.path / name, what)
        (self.path / name).mkdir(parents=True, exist_ok=True)
        mark(self.path / name, what)

    def problems(self) -> list[str]:
        """Return a line for each way in which the run differs from its manifest.

        Raise `RunFolderError` if the folder has no usable manifest.
        """
        return verify(self.path)

    def refresh(self, wanted: Callable[[str], bool]) -> None:
        """Copy the files with wanted names from the store to `path`, and remove all other copies made before.

        A local folder has no store, so nothing happens.
        """

    def files(self, name: str) -> list[str]:
        """Return the names of all files below the folder `name`. Symbolic links are left out and not followed."""
        found = (file for file in (self.path / name).rglob("*") if file.is_file() and not file.is_symlink())
        return [file.relative_to(self.path).as_posix() for file in found]

    def copy_to_store(self, name: str) -> None:
        """Copy the file `name` from `path` to the store. A local folder has no store, so nothing happens."""

    def move_from(self, source: Folder, name: str, new: str) -> None:
        """Move the file `name` of `source` to the name `new` in this folder. Both are in the same file system."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source.path / name, self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it. If it is missing, nothing happens."""
        place = self.path / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def load_folders(folders: Sequence[Folder], window_us: int | None = None) -> list[RunFacts]:
    """Return the facts about the runs in these folders, as `load_runs` does."""
    runs = load_runs([folder.path for folder in folders], window_us)
    return [replace(run, location=folder.location) for run, folder in zip(runs, folders, strict=True)]


def is_same(run: Path, output: Path) -> bool:
    return run.resolve() == output.resolve()


def is_for_a_report(name: str) -> bool:
    """Return True if a report reads the file of an output that has this name."""
    return name in CARRIED or name.startswith(f"{METRICS_FOLDER}/")


@contextmanager
def claimed_outputs(runs: Mapping[str, Path], outputs: Mapping[str, Folder]) -> Generator[None]:
    """Lock the outputs of runs during a `with` block. Both arguments are by the name of the run.

    Raise `RunFolderError` if two runs have the same output, if another process uses an output, or if an output is
    neither the folder of its run nor one for tables.
    """
    with ExitStack() as claimed:
        taken: set[str | Path] = set()
        for name, output in outputs.items():
            if output.identity in taken:
                raise RunFolderError(f"{output}: is the output of two runs; each run needs a folder of its own")
            taken.add(output.identity)
            claimed.enter_context(output.claim(runs[name]))
        yield


def carry(run: Path, output: Folder) -> None:
    """Copy the files `CARRIED` from the folder of a run to its output. If these are one folder, nothing happens."""
    if is_same(run, output.path):
        return
    try:
        for name in CARRIED:
            if (run / name).is_file():
                (output.path / name).parent.mkdir(exist_ok=True)
                _copy(run / name, output.path / name)
                output.copy_to_store(name)
    except OSError as error:
        raise RunFolderError(f"{error.filename or output}: cannot be written ({error.strerror or error})") from None


def _copy(source: Path, target: Path) -> None:
    with open_regular(source) as opened:
        write_durably(target, partial(shutil.copyfileobj, opened))
