"""Traces and tables as DataFrames: the tables equal those that an analysis stores."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from dataframes import assert_stored_tables

from hearsay.pipeline import Tables, read
from hearsay.pipeline.questions.mesh import SNAPSHOTS
from hearsay.pipeline.rows import MAX_LINES, of_runs, stretch_s
from hearsay.trace.language.schema import CLASSES

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "pipeline.md"


def test_all_tables_of_several_runs(spark, analysed):
    assert_stored_tables(spark, analysed)


def test_each_run_has_the_number_of_rows_of_its_manifest(spark, analysed):
    trace = read(spark, list(analysed.values()))
    counted = {row["run"]: row["rows"] for row in trace.runs.collect()}
    found: dict[str, int] = dict.fromkeys(analysed, 0)
    for rows in (trace.message, trace.rpc, trace.mesh, trace.node, trace.score, trace.exchange):
        for row in rows.groupBy("run").count().collect():
            found[row["run"]] += row["count"]
    assert found == counted


def test_names_of_runs_may_have_braces_and_quotes(spark, analysed, tmp_path):
    odd, (one, other, *_) = tmp_path / "odd {run} {b}'s", analysed.values()
    shutil.copytree(one, odd)
    (row,) = read(spark, [odd]).query("select distinct {run} as run from {node}").collect()
    assert row["run"] == odd.name
    known = of_runs({odd.name}, 2)
    rows = read(spark, [odd, other]).query(f"select run from {{runs}} where {known}").collect()
    assert [row["run"] for row in rows] == [odd.name]


def test_each_column_of_rows_and_tables_has_a_comment(spark, analysed):
    trace = read(spark, list(analysed.values()))
    tables = Tables(trace)
    whole = [trace.runs, trace.topics, trace.nodes, trace.planned, *(getattr(trace, name) for name in CLASSES)]
    for frame in (*whole, tables["memberships"], tables["churn"]):
        assert [field.name for field in frame.schema if not field.metadata.get("comment")] == []
    trace.message.createOrReplaceTempView("copies")
    comments = {row["col_name"]: row["comment"] for row in spark.sql("describe copies").collect()}
    assert comments["delay_us"] == "time of flight of a sent part (µs)"
    assert comments["run"] == "name of the run"


def test_own_questions_in_sql(spark, analysed):
    trace = read(spark, list(analysed.values()))
    answer = trace.query(
        "select run, count(*) as deliveries from {message} m where event = 'deliver' group by run order by run"
    )
    counted = {row["run"]: row["deliveries"] for row in answer.collect()}
    stored = Tables(trace)["messages"].groupBy("run").sum("delivered").collect()
    assert counted == {row["run"]: row["sum(delivered)"] for row in stored}


def test_the_error_for_an_unknown_table_lists_the_tables(spark, analysed):
    tables = Tables(read(spark, list(analysed.values())))
    with pytest.raises(KeyError, match="no table 'message'; there are headline, messages"):
        tables["message"]


def test_long_runs_have_wider_stretches():
    lengths = (MAX_LINES, MAX_LINES + 1, 40 * MAX_LINES, 100 * 86_400 * MAX_LINES)
    assert [stretch_s(seconds * 1_000_000) for seconds in lengths] == [1, 2, 60, 100 * 86_400]


def test_the_number_of_snapshots_is_bounded(spark, analysed):
    times = Tables(read(spark, [analysed["churning"]]))["mesh"].select("topic", "layer", "time_us").distinct().count()
    assert 0 < times <= SNAPSHOTS


def test_the_program_of_the_guide(spark, analysed, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    for name, path in zip(("one", "two"), analysed.values(), strict=False):
        (tmp_path / "runs" / name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"(?ms)^```python spark\n(.*?)^```", GUIDE.read_text(encoding="utf-8"))
    exec(program, {"spark": spark})
    shown = capsys.readouterr().out
    assert "deliveries" in shown
    assert "router" in shown
