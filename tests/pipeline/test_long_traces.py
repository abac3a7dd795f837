"""Traces by the world's clocks, and traces of months: bounded tables, and memberships that are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import load_runs
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.mesh_snapshots import GRAFT, links_of, snapshot
from hearsay.pipeline.metrics.churn import MOST_LINES
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.trace.language.schema import TraceEvent, TraceRow
from hearsay.trace.write.run_folder import RunFolder
from hearsay.trace.write.writer import TraceWriter

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
def test_a_trace_of_months_has_as_many_lines_as_one_of_an_hour(spark, tmp_path):
    """A message is published on day 100 while Bob is away; he was a member a month before and is a month later."""
    path = traced(tmp_path / "months", [
        at(0, TraceEvent.NODE_UP), at(0, TraceEvent.NODE_UP, 1), at(0, TraceEvent.JOIN, topic=0),
        at(0, TraceEvent.JOIN, 1, topic=0), at(70, TraceEvent.LEAVE, 1, topic=0),
        at(100, TraceEvent.PUBLISH, topic=0, message=7, hops=0, bytes=3),
        at(100, TraceEvent.DELIVER, topic=0, message=7),
        at(130, TraceEvent.JOIN, 1, topic=0), at(131, TraceEvent.PUBLISH, topic=0, message=8, hops=0, bytes=3),
        at(131, TraceEvent.DELIVER, 1, remote=0, topic=0, message=8), at(150, TraceEvent.NODE_DOWN, 1),
    ])  # fmt: skip
    analyze(spark, load_runs([path]), {"months": path}, lambda _: None)
    lines = [row for row in read_table(path, tables.CHURN).to_pylist() if row["topic"] is None]
    assert 0 < len(lines) <= MOST_LINES
    lines.sort(key=lambda row: row["second"])
    assert [row["second"] for row in lines] == [place * lines[0]["seconds"] for place in range(len(lines))]
    assert (lines[0]["nodes_up"], sum(row["came"] for row in lines)) == (2, 2)
    messages = {row["message"]: row for row in read_table(path, tables.MESSAGES).to_pylist()}
    assert [(messages[number]["eligible"], messages[number]["delivered_eligible"]) for number in (7, 8)] == [
        (1, 1),
        (2, 1),
    ]
    assert all(row["time_us"] > BEGINS_US for row in read_table(path, tables.MESH).to_pylist())


def test_memberships_weeks_apart_are_told_apart():
    month = 30 * DAY_US
    nodes, since = np.array([5, 5]), np.array([BEGINS_US, BEGINS_US + 2 * month])
    until = since + month
    members = Eligibility(nodes, since, until, end_us=BEGINS_US + 4 * month)
    asked = BEGINS_US + np.array([month // 2, month + month // 2, 2 * month + month // 2])
    assert members.holds(np.array([5, 5, 5]), asked, asked + 1).tolist() == [True, False, True]
    assert members.count(asked, asked + 1).tolist() == [1, 0, 1]


def test_links_to_nodes_that_did_not_trace_count_and_leave_the_shape_unknown():
    times, changes = np.array([1, 1, 1]), np.full(3, GRAFT)
    links = links_of(times, changes, np.array([0, 0, 1]), np.array([1, 9, 0]))
    members = observed = np.array([0, 1])
    seen = snapshot(links, members, 5, diameter=True, observed=observed)
    assert (seen.links, seen.degree_max, seen.degree_min) == (3, 2, 1)
    assert (seen.components, seen.largest_share, seen.diameter) == (None, None, None)
    whole = snapshot(links, members, 5, diameter=True)
    assert (whole.links, whole.degree_max, whole.components, whole.diameter) == (2, 1, 1, 1)
