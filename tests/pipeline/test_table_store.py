"""Tables that Spark writes for all runs at once, and that come to the folder of each."""

from __future__ import annotations

from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import WORK, TableStore
from hearsay.pipeline.output.tables import TABLES

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
