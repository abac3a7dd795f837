"""`TableStore`: one Spark job writes the tables of all runs into their folders, and several analyses may write to a
folder at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest

from hearsay.pipeline.output.folders import WORK, Folder, is_for_a_report
from hearsay.pipeline.output.hadoop_folder import HadoopFolder
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.output.tables import TABLES, arrow_schema, read_table

NAMES = ("plain", "odd {run} {b}'s", "50 % = half*?", "Übung #1:2", "a" * 200, "b" * 200)
EMPTY = "without rows"


def test_one_job_writes_the_rows_of_all_runs_into_their_folders(spark, tmp_path):
    rows = [(run, 0, node, 1, 2) for node in (2, 1) for run in NAMES]
    outputs = {run: Folder(tmp_path / run) for run in (*NAMES, EMPTY)}
    store = TableStore(outputs)
    spark.sparkContext.setJobGroup("writes", "")
    store.write_with_spark("memberships", spark.createDataFrame(rows, TABLES["memberships"].ddl).coalesce(1))
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("writes")) == 1
    store.publish()
    found = {run: read_table(output.path, "memberships").to_pylist() for run, output in outputs.items()}
    assert found.pop(EMPTY) == []
    assert {run: [tuple(line.values()) for line in lines] for run, lines in found.items()} == {
        run: [(run, 0, node, 1, 2) for node in (1, 2)] for run in NAMES
    }
    assert not any((output.path / WORK).exists() for output in outputs.values())


class Store:
    """A folder of a Hadoop file system, into which several analyses write tables."""

    def __init__(self, spark, base: Path) -> None:
        self.spark = spark
        self.base = base
        self.path = base / "store" / "one"

    def folder(self, name: str) -> HadoopFolder:
        return HadoopFolder(self.spark, f"file:{self.path}", self.base / name)

    def write_tables(self, name: str, folder: HadoopFolder, with_spark: bool = False) -> TableStore:
        """Write the tables of an analysis, and return their store, which has not published them. `quality` and
        `measured` have one line each, with the name of the analysis.
        """
        with folder.claim(self.path):
            store = TableStore({"one": folder})
        lines = {
            "quality": [{"run": "one", "check": name, "rows": 1}],
            "measured": [{"run": "one", "figure": name, "measured": True}],
        }
        for table, schema in TABLES.items():
            rows = pyarrow.Table.from_pylist(lines.get(table, []), arrow_schema(schema))
            if with_spark and table in lines:
                store.write_with_spark(table, self.spark.createDataFrame(rows, schema.ddl).coalesce(1))
            else:
                store.write(table, rows)
        return store

    def published_analysis(self) -> str:
        """Assert that a reader gets all tables of one analysis; return the analysis's name."""
        reader = self.folder("reader")
        reader.refresh(is_for_a_report)
        rows = {table: read_table(reader.path, table).to_pylist() for table in TABLES}
        (quality,), (measured,) = rows["quality"], rows["measured"]
        assert quality["check"] == measured["figure"]
        return quality["check"]

    def assert_the_next_analysis_removes_all_others(self) -> None:
        """Assert that after a further analysis the folder has only the files of that analysis."""
        self.write_tables("last", self.folder("last")).publish()
        assert self.published_analysis() == "last"
        assert len(self.folder("seen").files("")) == len(TABLES) + 1


class InterruptedFolder(HadoopFolder):
    """A folder that calls `interruption` before the `interrupted_move`-th move of a file, counted from 1."""

    interrupted_move = 0
    interruption: Callable[[], object]
    _moves = 0

    def move_from(self, source: Folder, name: str, new: str) -> None:
        self._moves += 1
        if self._moves == self.interrupted_move:
            self.interruption()
        super().move_from(source, name, new)


@pytest.mark.thorough
def test_readers_get_all_tables_of_the_analysis_that_began_to_publish_last(spark, tmp_path):
    moves = len(TABLES) + 1
    for place in (1, 2, moves // 2, moves):
        store = Store(spark, tmp_path / str(place))
        store.write_tables("earlier", store.folder("earlier")).publish()
        later = store.write_tables("later", store.folder("later"), with_spark=True)
        slow = InterruptedFolder(spark, f"file:{store.path}", store.base / "slow")
        slow.interrupted_move = place
        slow.interruption = later.publish
        store.write_tables("slow", slow, with_spark=True).publish()
        assert store.published_analysis() == "later"
        store.assert_the_next_analysis_removes_all_others()


def test_analyses_that_write_to_a_store_at_the_same_time_leave_the_tables_of_one(spark, tmp_path):
    store = Store(spark, tmp_path)
    with ThreadPoolExecutor(3) as threads:
        for turn in range(4):
            names = {f"{turn}-{number}" for number in range(3)}

            def analyze(name: str) -> None:
                store.write_tables(name, store.folder(name), with_spark=name.endswith("-0")).publish()

            list(threads.map(analyze, names))
            assert store.published_analysis() in names
    store.assert_the_next_analysis_removes_all_others()


def test_a_folder_is_listed_while_another_analysis_removes_files(spark, tmp_path):
    store = Store(spark, tmp_path)
    folder = store.folder("reader")
    lasting = store.path / "metrics" / "lasting"
    lasting.parent.mkdir(parents=True)
    lasting.touch()
    listed = threading.Event()

    def write_and_remove() -> None:
        while not listed.is_set():
            paths = [lasting.with_name(f"passing-{number}") for number in range(30)]
            for path in paths:
                path.touch()
            for path in paths:
                path.unlink()

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write_and_remove)
        try:
            for _ in range(40):
                assert "metrics/lasting" in folder.files("metrics")
        finally:
            listed.set()
        writing.result()


def test_a_folder_that_appears_during_a_listing_is_empty(spark, tmp_path):
    store = Store(spark, tmp_path)
    folder = store.folder("reader")
    names = [f"metrics/{number}" for number in range(500)]
    begins = threading.Barrier(2)

    def make_folders() -> None:
        for number, name in enumerate(names):
            begins.wait()
            for _ in range(number):  # delays each folder a little more than the one before
                (store.path / name).exists()
            (store.path / name).mkdir(parents=True)

    with ThreadPoolExecutor(1) as threads:
        making = threads.submit(make_folders)
        try:
            for name in names:
                begins.wait()
                assert folder.files(name) == []
        finally:
            begins.abort()
        making.result()


def test_files_of_a_killed_analysis_stay_a_week_in_a_store(spark, tmp_path):
    store = Store(spark, tmp_path)
    store.write_tables("killed", store.folder("killed"))
    week_us = 7 * 24 * 3600 * 1_000_000
    (killed,) = store.path.glob(f"{WORK}-*")
    _, _, since_us, token = killed.name.split("-")
    later = store.path / f"metrics/quality/part-00000-{int(since_us) - week_us + 60_000_000}-{token}.parquet"
    later.parent.mkdir(parents=True)
    later.touch()
    later.with_name(f"part-00000-{int(since_us) - week_us}-{token}.parquet").touch()
    store.write_tables("next", store.folder("next")).publish()
    assert killed.exists()
    assert [file.stat().st_size for file in later.parent.glob("*.parquet")].count(0) == 1
    killed.rename(killed.with_name(f"{WORK}-{int(since_us) - week_us}-{token}"))
    later.unlink()
    store.assert_the_next_analysis_removes_all_others()
