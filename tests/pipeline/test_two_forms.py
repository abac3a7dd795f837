"""The scan of whole files and the DataFrame functions say the same, row by row."""

from __future__ import annotations

import pytest
from simulated_runs import GO_TRACES, RUNS

from hearsay.pipeline.input.rows import run_table, trace_rows
from hearsay.pipeline.metrics.messages import messages_table
from hearsay.pipeline.metrics.traffic import traffic_of_rows
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table

pytestmark = pytest.mark.thorough

NAMES = [*RUNS, "spanning"]


def test_messages(spark, analysed, facts):
    names = [*NAMES, *GO_TRACES]
    runs = [facts[name] for name in names]
    rows = trace_rows(spark, runs, "message")
    members = spark.read.schema(tables.MEMBERSHIPS.ddl).parquet(
        *(f"{analysed[name]}/metrics/memberships" for name in names)
    )
    frame = messages_table(rows, members, run_table(spark, runs))
    ours = {(row["run"], row["message"]): row.asDict() for row in frame.collect()}
    scanned = [row for name in names for row in read_table(analysed[name], tables.MESSAGES).to_pylist()]
    assert len(scanned) == len(ours) > 100
    for row in scanned:
        assert ours[row["run"], row["message"]] == row


def test_traffic(spark, analysed, facts):
    runs = [facts[name] for name in NAMES]
    rows = trace_rows(spark, runs, "message").unionByName(trace_rows(spark, runs, "rpc"))
    frame = traffic_of_rows(rows, run_table(spark, runs))
    key = ("run", "topic", "node", "kind")
    ours = {tuple(row[name] for name in key): row.asDict() for row in frame.collect()}
    scanned = [row for name in NAMES for row in read_table(analysed[name], tables.TRAFFIC).to_pylist()]
    assert {tuple(row[name] for name in key) for row in scanned} == set(ours)
    for row in scanned:
        assert {name: ours[tuple(row[name] for name in key)][name] for name in tables.TRAFFIC.names} == row
