"""A study's folder: what finished runs left, safe from the moment they finished, and the tables made of it.

    study.toml            the study as it was given
    scenarios/POINT.toml  each point's resolved scenario, which `hearsay simulate` runs
    results/*.parquet     the rows of finished runs, as they came in
    traces/RUN/           run folders, if the study asks for traces
    tables/NAME.parquet   see `tables.py`

Rules:

* A pack of runs that finishes is one file of `results/`, which appears whole. Killed at any time, the folder holds
  exactly what had finished.
* Files are read without regard to order; a run that is there twice is there once.
* Many files become one, which is written before they are removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from hearsay.studies.errors import StudyFolderError
from hearsay.studies.one_run import Row
from hearsay.studies.points import Point
from hearsay.studies.tables import RESULTS
from hearsay.trace.arrow import DAMAGED, pa, parquet
from hearsay.trace.durable import DurableFile, write_durably

MANY_FILES = 200


class StudyFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._results = path / "results"
        self.damaged: list[Path] = []
        """Files of results that could not be read: their runs count as not made."""

    @classmethod
    def open(cls, path: Path) -> StudyFolder:
        """Make the folder, or take what is there."""
        folder = cls(path)
        try:
            if path.is_dir() and any(path.iterdir()) and not folder._results.is_dir():
                raise StudyFolderError(f"{path}: is not the folder of a study; choose another --out")
            for name in ("results", "scenarios", "tables"):
                (path / name).mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder._arriving, ignore_errors=True)
        except OSError as error:
            raise StudyFolderError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
        return folder

    @property
    def _arriving(self) -> Path:
        return self.path / "traces" / ".arriving"

    def results(self) -> dict[str, Row]:
        """All rows by run."""
        found: dict[str, Row] = {}
        self.damaged = []
        files = sorted(self._results.glob("*.parquet"))
        for file in files:
            try:
                rows: list[Row] = parquet.read_table(file).to_pylist()
            except DAMAGED:
                self.damaged.append(file)
                continue
            for row in rows:
                known = found.get(row["run"])
                if known is None or known["error"] is not None:
                    found[row["run"]] = row
        if len(files) - len(self.damaged) > MANY_FILES:
            self._write_results(found.values())
            for file in files:
                if file not in self.damaged:
                    file.unlink()
        return found

    def add(self, rows: Iterable[Row]) -> None:
        """Keep the rows of runs that finished."""
        self._write_results(rows)

    def add_trace(self, run: str, name: str, offset: int, data: bytes) -> None:
        """Keep a stretch of a file of a run's folder; `finish_trace` puts the folder into place."""
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
        data = text.encode()

        def fill(file: DurableFile) -> None:
            file.write(data)

        _write(self.path / name, fill)

    def write_scenario(self, point: Point) -> None:
        """Keep a point's scenario and its files; their names say what is in them, so what is there is right."""
        for name, text in (*point.files, (f"{point.name}.toml", point.scenario)):
            if not (self.path / "scenarios" / name).exists():
                self.write_text(f"scenarios/{name}", text)

    def write_tables(self, tables: Mapping[str, Any]) -> None:
        for name, table in tables.items():
            _write_table(self.path / "tables" / f"{name}.parquet", table)

    def _write_results(self, rows: Iterable[Row]) -> None:
        table = pa.Table.from_pylist(list(rows), schema=RESULTS)
        _write_table(self._results / f"{uuid4().hex}.parquet", table)


def read_table(folder: Path, name: str) -> Any:
    """A table of a study that has been swept."""
    file = folder / "tables" / f"{name}.parquet"
    try:
        return parquet.read_table(file)
    except DAMAGED:
        raise StudyFolderError(f"{file}: cannot be read; run hearsay sweep first") from None


def _write_table(path: Path, table: Any) -> None:
    def fill(file: DurableFile) -> None:
        parquet.write_table(table, file, compression="zstd")

    _write(path, fill)


def _write(path: Path, fill: Callable[[DurableFile], None]) -> None:
    try:
        write_durably(path, fill)
    except OSError as error:
        raise StudyFolderError(f"{path}: cannot be written ({error.strerror})") from None
