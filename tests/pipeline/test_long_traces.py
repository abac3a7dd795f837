"""Traces with times since 1970, and traces of months: tables are bounded, and each membership counts by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from growing_run import assert_same_tables

from hearsay.pipeline import rows
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import read_table
from hearsay.pipeline.questions.mesh import snapshot_rows
from hearsay.pipeline.rows import MAX_LINES
from hearsay.pipeline.run_facts import load_runs
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import TraceEvent, TraceRow

DAY_US = 86_400_000_000
BEGINS_US = 1_795_305_812_061_905


def traced(path, rows: list[TraceRow]):
    folder = RunFolder.create(path)
    with TraceWriter(path) as writer:
        writer.add(np.array([row.to_codes() for row in rows], dtype=np.int64))
        written = writer.close()
    folder.write_peers([0, 1], ["ada", "bob"], [None] * 2, [None] * 2, [None] * 2)
    folder.write_topics([0], ["chat"])
    folder.write_manifest(written, seed=None, complete=True)
    return path


def at(day: float, event: TraceEvent, peer: int = 0, **columns) -> TraceRow:
    return TraceRow(BEGINS_US + round(day * DAY_US), event, peer=peer, **columns)


@pytest.mark.thorough
def test_the_tables_of_a_trace_of_months_are_bounded(spark, tmp_path):
    """Bob is a member until day 70 and from day 130 on, so a message of day 100 is not due to him."""
    path = traced(tmp_path / "months", [
        at(0, TraceEvent.NODE_UP), at(0, TraceEvent.NODE_UP, 1), at(0, TraceEvent.JOIN, topic=0),
        at(0, TraceEvent.JOIN, 1, topic=0), at(70, TraceEvent.LEAVE, 1, topic=0),
        at(100, TraceEvent.PUBLISH, topic=0, message=7, hops=0, bytes=3),
        at(100, TraceEvent.DELIVER, topic=0, message=7),
        at(130, TraceEvent.JOIN, 1, topic=0), at(131, TraceEvent.PUBLISH, topic=0, message=8, hops=0, bytes=3),
        at(131, TraceEvent.DELIVER, 1, remote=0, topic=0, message=8), at(150, TraceEvent.NODE_DOWN, 1),
    ])  # fmt: skip
    analyze(spark, load_runs([path]), {"months": Folder(path)}, lambda _: None)
    lines = [row for row in read_table(path, "churn").to_pylist() if row["topic"] is None]
    assert 0 < len(lines) <= MAX_LINES
    lines.sort(key=lambda row: row["second"])
    assert [row["second"] for row in lines] == [place * lines[0]["seconds"] for place in range(len(lines))]
    assert (lines[0]["nodes_up"], sum(row["came"] for row in lines)) == (2, 2)
    messages = {row["message"]: row for row in read_table(path, "messages").to_pylist()}
    assert [(messages[number]["eligible"], messages[number]["delivered_eligible"]) for number in (7, 8)] == [
        (1, 1),
        (2, 1),
    ]
    assert all(row["time_us"] > BEGINS_US for row in read_table(path, "mesh").to_pylist())


def test_links_to_nodes_that_did_not_trace_count_and_leave_the_shape_unknown():
    links = {
        "node": [0, 0, 1],
        "remote": [1, 9, 0],
        "since_us": [1] * 3,
        "until_us": [9] * 3,
        "unknown": [False, True, False],
    }
    there = {"node": [0, 1], "since_us": [0, 0], "until_us": [9, 9], "times": [[5]] * 2, "end_us": [9] * 2}
    seen, whole = (
        snapshot_rows(pa.table(alive), pa.table({**there, "has_shape": [True] * 2}))[0]
        for alive in (links, {name: [values[0], values[2]] for name, values in links.items()})
    )
    assert (seen["links"], seen["degree_max"], seen["degree_min"]) == (3, 2, 1)
    assert not seen.keys() & {"components", "largest_share", "diameter"}
    assert (whole["links"], whole["degree_max"], whole["components"], whole["diameter"]) == (2, 1, 1, 1)


@pytest.mark.thorough
def test_a_large_trace_has_the_tables_of_a_small_one(spark, two_runs, tmp_path, monkeypatch):
    """From `SMALL_ROWS` rows on, Spark writes the tables that grow with the rows as Parquet files."""
    monkeypatch.setattr(rows, "SMALL_ROWS", 0)
    runs = load_runs(list(two_runs.values()))
    analyze(spark, runs, {run.name: Folder(tmp_path / run.name) for run in runs}, lambda _: None)
    for name, whole in two_runs.items():
        assert_same_tables(whole, tmp_path / name)
