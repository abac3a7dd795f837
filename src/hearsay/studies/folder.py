"""A study's folder: the rows of runs, written as soon as a pack of runs has finished, and tables made from them.

    study.toml            the study as it was given
    scenarios/POINT.toml  each point's resolved scenario, which `hearsay simulate` runs
    results/*.parquet     the rows of finished runs, as they came in
    traces/RUN/           run folders, if the study asks for traces
    tables/NAME.parquet   see `tables.py`

Rules:

* A pack of runs that finishes is one file of `results/`, which appears whole. After a kill the folder contains
  exactly the finished packs; partial files are removed when the folder is opened again.
* The order of the files does not matter. If a run has two rows, one without an error is used.
* Many files are merged into one, which is written before the others are removed.
* Only folders made by this program are changed (`trace.folder.own_folders`), by one process at a time.
  A reader (`look`) writes nothing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from hearsay.foreign_files import open_regular
from hearsay.studies.checked_file import StudyFolderError
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.tables import RESULTS
from hearsay.trace.folder.arrow import DAMAGED, pa, parquet
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.folder.durable import TEMPORARY_NAMES, DurableFile, write_durably
from hearsay.trace.folder.own_folders import Holds, OwnFolder, claim, require_ours
from hearsay.trace.language.errors import RunFolderError

MANY_FILES = 200
_WRITTEN_BY_ITS_OWNER = ("results", "scenarios", "tables", "answer")
_INNER = (*_WRITTEN_BY_ITS_OWNER, "traces", "traces/.arriving", "pictures")
_OF_RESULTS = re.compile(r"[0-9a-f]{32}\.parquet")


class StudyFolder:
    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self.path = path
        self._own = own
        self._results = path / "results"
        self.damaged: list[Path] = []
        """Files of results that could not be read. Their runs count as missing."""

    @classmethod
    def open(cls, path: Path) -> StudyFolder:
        """Create the folder, or open an existing one for writing."""
        try:
            own = claim(path, Holds.STUDY, inner=_INNER)
        except RunFolderError as error:
            raise StudyFolderError(str(error)) from None
        folder = cls(path, own)
        try:
            for name in ("results", "scenarios", "tables"):
                (path / name).mkdir(exist_ok=True)
            shutil.rmtree(folder._arriving, ignore_errors=True)
            for name in _WRITTEN_BY_ITS_OWNER:
                for left in (path / name).glob(TEMPORARY_NAMES):
                    left.unlink()
        except OSError as error:
            own.release()
            raise StudyFolderError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
        return folder

    @classmethod
    def open_for_reading(cls, path: Path) -> StudyFolder:
        """Open the folder for reading; it may not exist yet."""
        try:
            require_ours(path, Holds.STUDY, inner=_INNER)
        except RunFolderError as error:
            raise StudyFolderError(str(error)) from None
        return cls(path)

    def release(self) -> None:
        """Let other processes open the folder for writing."""
        if self._own is not None:
            self._own.release()

    @property
    def _arriving(self) -> Path:
        return self.path / "traces" / ".arriving"

    def results(self) -> dict[str, Row]:
        """Return the rows of all finished runs, by run."""
        found: dict[str, Row] = {}
        self.damaged = []
        files = sorted(file for file in self._results.glob("*.parquet") if _OF_RESULTS.fullmatch(file.name))
        for file in files:
            try:
                rows = _rows_of(file)
            except DAMAGED:
                self.damaged.append(file)
                continue
            for row in rows:
                known = found.get(row["run"])
                if known is None or known["error"] is not None:
                    found[row["run"]] = row
        if self._own is not None and len(files) - len(self.damaged) > MANY_FILES:
            self.add(found.values())
            for file in files:
                if file not in self.damaged:
                    file.unlink()
        return found

    def add(self, rows: Iterable[Row]) -> None:
        """Write the rows of finished runs."""
        table = pa.Table.from_pylist(list(rows), schema=RESULTS)
        _write_table(self._results / f"{uuid4().hex}.parquet", table)

    def add_trace(self, run: str, name: str, offset: int, data: bytes) -> None:
        """Write a piece of a file of a run folder. `finish_trace` moves the complete folder to `traces/RUN`."""
        if any(PurePosixPath(each).is_absolute() or ".." in PurePosixPath(each).parts for each in (run, name)):
            raise StudyFolderError(f"{name!r} of {run!r}: a task sent a file that leaves the folder")
        file = self._arriving / run / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("r+b" if offset else "wb") as target:
                target.seek(offset)
                target.write(data)
        except OSError as error:
            raise StudyFolderError(f"{file}: cannot be written ({error.strerror})") from None

    def finish_trace(self, run: str) -> None:
        arrived, final = self._arriving / run, self.path / "traces" / run
        if arrived.exists() and not final.exists():
            arrived.rename(final)

    def has_trace(self, run: str) -> bool:
        return (self.path / "traces" / run).is_dir()

    def write_text(self, name: str, text: str) -> None:
        _write(self.path / name, text.encode())

    def write_scenario(self, point: Point) -> None:
        """Write a point's scenario and its files. Skip existing files: a name contains a hash of the content."""
        for name, text in (*point.files, (f"{point.name}.toml", point.scenario)):
            if not (self.path / "scenarios" / name).exists():
                self.write_text(f"scenarios/{name}", text)

    def write_tables(self, tables: Mapping[str, Any]) -> None:
        for name, table in tables.items():
            _write_table(self.path / "tables" / f"{name}.parquet", table)


def _rows_of(file: Path) -> list[Row]:
    """Return the rows of a file. Raise one of `DAMAGED` if they are not results."""
    found: Any = parquet.ParquetFile(open_regular(file), page_checksum_verification=True)
    have: Any = found.schema_arrow
    for name in ("run", "point", "seed", "error"):
        if name not in have.names:
            raise LookupError(name)
    for field in RESULTS:
        if field.name in have.names and have.field(field.name).type != field.type:
            raise ValueError(field.name)
    return found.read().to_pylist()


def read_table(folder: Path, name: str) -> Any:
    """Return a table of a study. Raise `StudyFolderError` if no sweep has written it."""
    file = folder / "tables" / f"{name}.parquet"
    try:
        return read_plain(file)
    except DAMAGED:
        raise StudyFolderError(f"{file}: cannot be read; run hearsay sweep first") from None


def _write_table(path: Path, table: Any) -> None:
    _write(path, lambda file: parquet.write_table(table, file, compression="zstd"))


def _write(path: Path, content: bytes | Callable[[DurableFile], object]) -> None:
    try:
        write_durably(path, content)
    except OSError as error:
        raise StudyFolderError(f"{path}: cannot be written ({error.strerror})") from None
