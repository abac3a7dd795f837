"""A run that appears file by file, and assertions about the tables of an analysis that follows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, read_table


class GrowingRun:
    """A copy of a finished run that appears file by file, in the order of the writer."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = source
        self.path = target
        manifest = json.loads((source / "manifest.json").read_text())
        self.files = [entry["path"] for entry in sorted(manifest["files"], key=lambda entry: entry["max_time_us"])]

    def grow(self, count: int) -> None:
        """Copy the next `count` files with rows."""
        for name in self.files[:count]:
            self._copy(name)
        del self.files[:count]

    def begin(self) -> None:
        """Copy the files that a writer creates before the first rows."""
        for name in ("scenario.toml", "dictionary/peers.parquet", "dictionary/topics.parquet"):
            self._copy(name)

    def finish(self) -> None:
        """Copy all other files with rows, and the files that a writer creates at the end."""
        self.grow(len(self.files))
        for name in ("scenario.toml", "summary.json", "manifest.json"):
            self._copy(name)
        shutil.copytree(self.source / "dictionary", self.path / "dictionary", dirs_exist_ok=True)

    def _copy(self, name: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.source / name, target.with_name(f".{target.name}.tmp"))
        target.with_name(f".{target.name}.tmp").rename(target)


def rows_without_run(table: Any) -> list[tuple[Any, ...]]:
    """Return all rows of a table without the run's name, sorted."""
    lines = table.drop_columns(["run"]).to_pylist()
    return sorted((tuple(line.values()) for line in lines), key=repr)


def assert_same_tables(batch: Path, followed: Path) -> None:
    for table in TABLES:
        expected, found = (rows_without_run(read_table(folder, table)) for folder in (batch, followed))
        assert found == expected, table


def assert_whole_or_absent(output: Path) -> None:
    """Assert that either all tables can be read or none was published."""
    if any((output / METRICS_FOLDER).glob("manifest-*.json")):
        for table in TABLES:
            read_table(output, table)
