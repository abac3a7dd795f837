"""A folder from which an analysis reads a run, or into which it writes tables. Names are relative paths with slashes.

Rules:

* An analysis writes into the folder of the run, or into a folder for tables alone. This folder and the folders of
  tables in it must be made by this program (`trace.folder.own_folders`). One analysis at a time writes there, except
  in a store.
* The folder of a run gets only tables of that run, because an output also gets the manifest of the analysed run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.trace.folder.own_folders import Holds, claim, mark, refuse_link, require_ours
from hearsay.trace.read.verify import verify
from hearsay.trace.write.run_folder import DICTIONARIES

WORK = ".metrics-work"


class Folder:
    """A folder of this machine, or of a file system that all machines of a cluster share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = WORK
        """The name of the folder for unpublished files of this analysis."""

    def is_abandoned(self, since_us: int) -> bool:
        """Return True if an analysis that began at `since_us` counts as ended, so that its files can be removed."""
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
        """Return a value that is equal for equal folders."""
        return self.path.resolve()

    def claim(self, run: Path) -> AbstractContextManager[object]:
        """Lock the folder, so that no other process writes to it: the folder of `run`, or one for tables alone."""
        of_the_run = (Holds.RUN, Holds.SERIES) if is_same(run, self.path) else ()
        inner = (METRICS_FOLDER, DICTIONARIES)
        if not of_the_run:
            refuse_link(self.path.parent)
        place = self.path.resolve() if of_the_run else self.path
        require_ours(place, Holds.TABLES, also=of_the_run, inner=inner)
        require_ours(place / METRICS_FOLDER, Holds.METRICS, inner=TABLES)
        return claim(place, Holds.TABLES, also=of_the_run, inner=inner)

    def make_folder(self, name: str, what: Holds) -> None:
        """Create a folder below this one. Raises `RunFolderError` if it exists and this program has not made it."""
        require_ours(self.path / name, what)
        (self.path / name).mkdir(parents=True, exist_ok=True)
        mark(self.path / name, what)

    def problems(self) -> list[str]:
        """Return the problems of the run in this folder. Raises `RunFolderError` if there is no run."""
        return verify(self.path)

    def refresh(self, wanted: Callable[[str], bool]) -> None:
        """Copy the files with wanted names from a store to `path`, and remove copies of files that are gone."""

    def files(self, name: str) -> list[str]:
        """Return all files below a folder of this one. Symbolic links are left out and not followed."""
        found = (file for file in (self.path / name).rglob("*") if file.is_file() and not file.is_symlink())
        return [file.relative_to(self.path).as_posix() for file in found]

    def copy_to_store(self, name: str) -> None:
        """Copy a file that was written below `path` to the store, if the folder is in one."""

    def move_from(self, source: Folder, name: str, new: str) -> None:
        """Move the file `name` of `source`, a folder of the same file system, to `new` in this folder."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source.path / name, self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it."""
        place = self.path / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def load_folders(folders: Sequence[Folder], window_us: int | None = None) -> list[RunFacts]:
    """Return the facts of the runs in these folders."""
    runs = load_runs([folder.path for folder in folders], window_us)
    return [replace(run, location=folder.location) for run, folder in zip(runs, folders, strict=True)]


def is_same(run: Path, output: Path) -> bool:
    return run.resolve() == output.resolve()
