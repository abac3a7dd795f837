"""`open_run`: rows and tables with the names of peers and topics, for pyarrow, pandas, polars and DuckDB."""

from __future__ import annotations

import sys

import polars
import pyarrow
import pytest
from result_tables import write_run

import hearsay
from hearsay.trace.reader import read_rows

SCENARIO = {"network.nodes": 30, "workload.messages": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    hearsay.simulate("r1", SCENARIO, out=folder)
    return hearsay.open_run(folder)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysed") / 'it\'s "one"'
    hearsay.simulate("r1", SCENARIO, out=folder)
    write_run(folder)
    return hearsay.open_run(folder)


def test_a_run_has_its_facts_and_tables(run):
    assert run.complete
    assert run.seed == 1
    assert run.summary["trace_hash"] == run.trace_hash
    assert run.scenario == hearsay.load_scenario("r1", SCENARIO)
    assert run.tables == ("peers", "topics")
    assert len(run.table("peers")) == 31


def test_rows_are_those_of_the_trace_with_names_behind_the_numbers(run):
    rows = run.rows()
    assert len(rows) == len(read_rows(run.folder))
    assert rows.columns[:6] == ("time_us", "event", "kind", "peer", "peer_name", "remote")
    delivered = run.rows(events=["deliver"], peers=["7"]).to_dicts()
    assert [row["message"] for row in delivered] == [0, 1, 2]
    assert {(row["event"], row["peer_name"], row["topic_name"]) for row in delivered} == {("deliver", "7", "topic")}
    assert all(row["reason"] is None for row in delivered)
    derived = run.rows(events=["recv_rpc"], kinds=["graft"], derive=True)
    assert len(derived) == len(run.rows(events=["send_rpc"], kinds=["graft"]))


def test_an_unknown_event_or_peer_is_refused_by_name(run):
    with pytest.raises(ValueError, match="'delivered' is not one of publish, deliver"):
        run.rows(events=["delivered"])
    with pytest.raises(hearsay.RunFolderError, match="no peer is called 'stranger'"):
        run.rows(peers=["stranger"])


def test_a_table_converts_to_each_library(run):
    rows = run.rows(events=["publish"])
    assert rows.arrow().num_rows == len(rows.pandas()) == rows.polars().height == len(list(rows)) == len(rows) == 3
    assert pyarrow.table(rows).schema == rows.arrow().schema
    assert polars.DataFrame(rows).columns == list(rows.columns)


def test_tables_of_an_analysis_have_names_too(analysed):
    assert analysed.tables[:2] == ("headline", "messages")
    traffic = analysed.table("traffic")
    assert traffic.columns[1:5] == ("topic", "topic_name", "node", "node_name")
    assert analysed.table("headline").columns.count("topic_name") == 1
    with pytest.raises(KeyError, match="no table 'trafic'; there are headline"):
        analysed.table("trafic")


def test_the_error_of_a_missing_table_names_the_command_that_makes_it(run):
    with pytest.raises(hearsay.RunFolderError, match="has no table headline; run hearsay analyze"):
        run.table("headline")


def test_sql_sees_rows_tables_and_names(analysed):
    sent = analysed.sql("SELECT count(*) AS n FROM rows WHERE event = ? AND peer_name = ?", ["deliver", "7"])
    assert sent.to_dicts() == [{"n": 3}]
    question = "SELECT node_name, sum(bytes_out) AS sent FROM traffic JOIN peers ON node = peer GROUP BY ALL"
    assert analysed.sql(question).columns == ("node_name", "sent")


def test_what_is_not_installed_is_one_line(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(hearsay.MissingExtra, match=r"^duckdb is not installed: .* 'hearsay-gossip\[tables\]'$"):
        run.sql("SELECT 1")


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(hearsay.RunFolderError, match=r"is not a run folder: it has no manifest\.json"):
        hearsay.open_run(tmp_path)


def test_the_html_of_a_table_has_its_first_rows_escaped():
    table = hearsay.Table(pyarrow.table({"name": ["<b>"] * 11, "n": [None, *range(10)]}))
    shown = table._repr_html_()
    assert shown.count("&lt;b&gt;") == 10
    assert "<b>" not in shown
    assert "11 rows, the first 10" in shown
    assert repr(table) == "<Table of 11 rows: name, n>"
