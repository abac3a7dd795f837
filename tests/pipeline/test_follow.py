"""Following a run: at every step what is shown is what a batch analysis of these files would show, and in the end
the tables are those of the batch analysis."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from hearsay.pipeline import tables
from hearsay.pipeline.stream.follow import STREAM_FOLDER, Follower
from hearsay.pipeline.stream.ledger import Ledger
from hearsay.pipeline.table_store import read_table
from hearsay.trace.errors import RunFolderError

pytestmark = pytest.mark.xdist_group("spark")


class GrowingRun:
    """A finished run that appears file by file, as its writer made it."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = source
        self.path = target
        manifest = json.loads((source / "manifest.json").read_text())
        self.files = [entry["path"] for entry in sorted(manifest["files"], key=lambda entry: entry["max_time_us"])]

    def grow(self, count: int) -> None:
        for name in self.files[:count]:
            self._copy(name)
        del self.files[:count]

    def plan(self) -> None:
        for name in ("scenario.toml", "dictionary/peers.parquet", "dictionary/topics.parquet"):
            self._copy(name)

    def finish(self) -> None:
        self.grow(len(self.files))
        for name in ("scenario.toml", "summary.json", "manifest.json"):
            self._copy(name)
        shutil.copytree(self.source / "dictionary", self.path / "dictionary", dirs_exist_ok=True)

    def _copy(self, name: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.source / name, target.with_name(f".{target.name}.tmp"))
        target.with_name(f".{target.name}.tmp").rename(target)


def rows_of(table, run: str | None = None) -> list[tuple]:
    """All rows, in an order of their own, without the run's name."""
    lines = table.drop_columns(["run"]).to_pylist()
    return sorted((tuple(line.values()) for line in lines), key=repr)


def assert_same_tables(batch: Path, followed: Path) -> None:
    for table in tables.TABLES.values():
        expected, found = rows_of(read_table(batch, table)), rows_of(read_table(followed, table))
        if table is tables.QUALITY:
            found = [row for row in found if row[0] != "late_rows"]
        assert found == expected, table.name


def quality(output: Path) -> dict[str, int]:
    lines = read_table(output, tables.QUALITY).to_pylist()
    return {line["check"]: line["rows"] for line in lines}


def test_a_run_followed_file_by_file_ends_in_the_tables_of_the_batch(spark, analysed, tmp_path):
    """The run's files come in three lots; messages straddle files, so early figures change. Rows that come after the
    window of their message are counted as late. A follower of its own takes over each time."""
    run = GrowingRun(analysed["spanning"], tmp_path / "run")
    said: list[str] = []
    follower = Follower(spark, run.path, run.path, None, said.append)
    assert follower.tick() is None
    run.plan()
    run.grow(len(run.files) // 2)
    assert follower.tick() is None
    rows = sum(parquet.read_metadata(file).num_rows for file in run.path.glob("trace/class=*/*.parquet"))
    assert quality(run.path)["rows"] == rows
    before = len(said)
    assert follower.tick() is None
    assert len(said) == before
    run.finish()
    facts = Follower(spark, run.path, run.path, None, said.append).tick()
    assert facts is not None
    assert_same_tables(run.source, run.path)
    assert_every_row_once(run.path)


def assert_every_row_once(path: Path) -> None:
    """The ledger speaks of every file of the manifest once, with its rows."""
    manifest = json.loads((path / "manifest.json").read_text())
    taken = Counter((notes.name, notes.rows) for notes in Ledger(path / STREAM_FOLDER / "batches").files)
    assert taken == Counter((entry["path"], entry["rows"]) for entry in manifest["files"])
