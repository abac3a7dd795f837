"""A run of few rows is one task; its tables are those that many tasks make of it, and Spark's sums."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pyspark
import pytest
from growing_run import assert_same_tables
from hypothesis import given
from hypothesis import strategies as st

from hearsay.pipeline import large_runs
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import load_runs
from hearsay.pipeline.kernels.columns import in_time
from hearsay.pipeline.output.table_files import write_file
from hearsay.pipeline.scan import scan_files
from hearsay.pipeline.spark import task_lists
from hearsay.trace.language.schema import COLUMNS, Column


@pytest.mark.parametrize(
    "who", ["the driver", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("tasks", "Spark"))]
)
def test_one_task_says_what_many_say_whoever_adds_up(who, spark, two_runs, tmp_path, monkeypatch):
    if who != "the driver":
        monkeypatch.setattr(task_lists, "DONE_HERE_BELOW", 0)
    if who == "Spark":
        monkeypatch.setattr(large_runs, "ADDED_UP_BY_ONE_TASK", 0)
    runs = load_runs(list(two_runs.values()))
    outputs = {run.name: tmp_path / run.name for run in runs}
    analyze(spark, runs, outputs, lambda _: None, partial(scan_files, spark, runs))
    for name, whole in two_runs.items():
        assert_same_tables(whole, tmp_path / name)


def test_workers_import_pyspark_as_it_is_installed(spark):
    numbers = spark.sparkContext.parallelize(range(2), 2)
    assert set(numbers.map(lambda _: sys.modules["pyspark"].__file__).collect()) == {pyspark.__file__}


def test_a_task_that_goes_on_after_its_analysis_was_given_up_leaves_nothing(tmp_path):
    work = tmp_path / ".metrics-7"
    file = work / "messages" / "part=0" / "part-00001.parquet"
    lines = pa.table({"message": [1]})
    with pytest.raises(FileNotFoundError):
        write_file(str(file), lines.schema, [lines])
    assert list(tmp_path.iterdir()) == []
    work.mkdir()
    write_file(str(file), lines.schema, [lines])
    assert parquet.read_table(file, partitioning=None).equals(lines)


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), max_size=5),
    st.integers(1, 4),
    st.integers(0, 31),
    st.integers(0, 31),
)
def test_rows_in_time_come_moment_by_moment(files, group, since, until):
    """Whatever the order in files and groups: each row of the stretch once, no moment twice."""
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{number}.parquet") for number in range(len(files))]
        number = 0
        for path, times in zip(paths, files, strict=True):
            numbers = list(range(number, number := number + len(times)))
            columns = {name: pa.nulls(len(times), pa.int64()) for name in COLUMNS}
            columns |= {"time_us": pa.array(times, pa.int64()), "peer": pa.array(numbers, pa.int32())}
            parquet.write_table(pa.table(columns), path, row_group_size=group)
        pieces = list(in_time(paths, (Column.TIME_US, Column.PEER), since, until))
    found = [int(peer) for rows in pieces for peer in rows[Column.PEER]]
    times = [time for file in files for time in file]
    assert sorted(found) == [peer for peer, time in enumerate(times) if since <= time < until]
    moments = [np.unique(rows[Column.TIME_US]).tolist() for rows in pieces]
    assert all(rows[Column.TIME_US].tolist() == sorted(rows[Column.TIME_US].tolist()) for rows in pieces)
    seen = [moment for piece in moments for moment in piece]
    assert seen == sorted(set(seen))
