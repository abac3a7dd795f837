"""`hearsay analyze` and `hearsay report` on traces of real nodes: metrics are correct, or null if data is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from commands import hearsay
from dataframes import assert_stored_tables
from growing_run import assert_same_tables
from real_nodes import join_traces, three_nodes
from running_node import Running
from simulated_runs import GO_DATA

from hearsay.pipeline.output.tables import read_table
from hearsay.trace.language.rows import no_rows
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.reader import read_rows

pytestmark = pytest.mark.thorough
WINDOW_S = 0.001


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = hearsay(*arguments)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """Return a folder with five runs: `ada` is the trace of one node; `two` and `three` join the traces of two and
    three nodes; `go` is an import from go-libp2p-pubsub; `killed` joins the traces of three nodes, one of which was
    killed.
    """
    base = tmp_path_factory.mktemp("real")
    with three_nodes(base) as (ada, bob, cleo):
        for number in range(3):
            bob.type(f"message {number}")
            ada.until("message", data=f"message {number}")
        ada.type("own")
        bob.until("message", data="own")
        cleo.type("late")
        ada.until("message", data="late")
        bob.until("message", data="late")
        cleo.until("message", data="own")
    join_traces([base / "ada", base / "bob"], base / "two")
    join_traces([base / "ada", base / "bob", base / "cleo"], base / "three")
    run("trace", "import", GO_DATA / "go-0.16.pb.gz", "--out", base / "go")
    with three_nodes(base / "parts") as (ada, bob, cleo):
        ada.type("to three")
        cleo.until("message", data="to three")
        visitor = Running("--connect", cleo.address)  # so Cleo records rows after the window of its delivery
        visitor.until("status", peers=1)
        visitor.interrupt()
        while not has_rows_after_the_window(base / "parts/cleo"):
            Event().wait(0.1)
        cleo.process.kill()
        cleo.process.communicate()
        ada.until("status", peers=1)
        ada.type("to two")
        bob.until("message", data="to two")
    run("trace", "join", *(base / "parts").iterdir(), "--out", base / "killed")
    return base


@pytest.fixture(scope="module")
def answers(traces) -> dict[str, dict]:
    """Return the answers of `hearsay analyze` by run and topic. The window is short: the nodes leave one by one."""
    runs = [traces / name for name in ("ada", "two", "three", "go", "killed")]
    lines = json.loads(run("analyze", "--json", "--window", WINDOW_S, *runs).stdout)
    return {f"{line['run']}/{line['topic']}": line for line in lines}


def has_rows_after_the_window(series: Path) -> bool:
    """Return True if the finished folders of a node's series have a delivery and a row after its window. Rows in
    other folders are lost when the node is killed.
    """
    rows = np.concatenate([no_rows(), *(read_rows(manifest.parent) for manifest in series.glob("*/manifest.json"))])
    delivered = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER, Column.TIME_US]
    return len(delivered) > 0 and rows[:, Column.TIME_US].max() > delivered.max() + WINDOW_S * 1_000_000


def stored(path: Path, table: str) -> list[dict]:
    return read_table(path, table).to_pylist()


def measured(path: Path) -> dict[str, bool]:
    return {row["figure"]: row["measured"] for row in stored(path, "measured")}


def bytes_sent(path: Path) -> int:
    rows = read_rows(path)
    return int(rows[rows[:, Column.EVENT] == TraceEvent.SEND_RPC, Column.BYTES].sum())


def test_the_trace_of_one_node_has_no_metrics_of_other_nodes(traces, answers):
    ada = answers["ada/chat"]
    assert (ada["nodes"], ada["messages"]) == (1, 5)
    assert (ada["eligible"], ada["delivered"], ada["delivery_ratio"]) == (None, None, None)
    assert set(ada["latency_ms"].values()) == {None}
    assert ada["hops"] == {"mean": None, "max": None}
    assert ada["copies_per_delivery"] >= 1
    assert ada["bytes_out"] == {"mean": bytes_sent(traces / "ada"), "max_over_mean": None, "gini": None}
    assert ada["state_bytes"] == {"mean": None, "max": None}
    messages = stored(traces / "ada", "messages")
    assert sorted(message["publisher"] is None for message in messages) == [False, True, True, True, True]
    assert sum(message["away"] for message in messages) == 4
    assert {row["components"] for row in stored(traces / "ada", "mesh")} == {None}


def test_seconds_count_from_the_first_row_of_the_run(traces, answers):
    for name in ("ada", "two", "three"):
        times = read_rows(traces / name)[:, Column.TIME_US]
        lines = [row for row in stored(traces / name, "churn") if row["topic"] is None]
        seconds = -(-(int(times.max()) - int(times.min())) // 1_000_000)
        assert sorted(row["second"] for row in lines) == list(range(seconds))
        (headline,) = stored(traces / name, "headline")
        assert headline["start_us"] == times.min()
        assert headline["seconds"] == (times.max() - times.min()) / 1e6
        assert sum(row["came"] for row in lines) == {"ada": 1, "two": 2, "three": 3}[name]
        assert all(times.min() < row["time_us"] <= times.max() for row in stored(traces / name, "mesh"))


def test_joined_traces_show_which_deliveries_were_due(traces, answers):
    two, three = answers["two/chat"], answers["three/chat"]
    assert (two["nodes"], three["nodes"]) == (2, 3)
    assert (two["messages"], three["messages"]) == (5, 5)
    assert (two["eligible"], two["delivered"]) == (8, 8)  # the two traces do not have the time of Cleo's publication
    assert (three["eligible"], three["delivered"], three["delivery_ratio"]) == (15, 15, 1.0)
    for line, name in ((two, "two"), (three, "three")):
        assert 0 < line["latency_ms"]["p50"] <= line["latency_ms"]["max"] < 5_000
        assert line["bytes_out"]["mean"] == bytes_sent(traces / name) / line["nodes"]
        assert line["bytes_out"]["gini"] is not None
        assert line["hops"]["mean"] is None
    assert measured(traces / "three")["delivery"]
    assert measured(traces / "three")["mesh_shape"]


def test_no_delivery_is_due_to_a_killed_node_after_its_last_row(traces, answers):
    line = answers["killed/chat"]
    assert (line["eligible"], line["delivered"], line["delivery_ratio"]) == (5, 5, 1.0)
    (lost,) = [row for row in stored(traces / "killed", "quality") if row["check"] == "ended_without_goodbye"]
    assert lost["rows"] == 1
    assert lost["detail"].startswith("12D3KooW")
    named = {row["kind"]: row for row in stored(traces / "killed", "disturbances")}
    assert named["nodes"]["what"].startswith("1 node went down without a goodbye at ")
    assert named["nodes"]["source"] == "trace"
    ends = sorted(row["until_us"] for row in stored(traces / "killed", "memberships"))
    assert ends[0] == named["nodes"]["since_us"] < ends[1]


def test_analysis_and_report_state_how_few_deliveries_were_due(traces, tmp_path):
    done = run("analyze", "--out", tmp_path, traces / "three")  # the nodes leave before the window of 30 s is over
    words = (
        "0 of the 15 deliveries made were due: a node counts if it stayed 30 s after the message; --window sets it"
    )
    assert f"three: {words}" in done.stdout.splitlines()
    run("report", tmp_path / "three", "--out", tmp_path / "report.html")
    assert words in (tmp_path / "report.html").read_text()


def test_metrics_that_an_imported_trace_lacks_are_null(traces, answers):
    for topic, least in (("news", 18), ("prices", 9)):
        line = answers[f"go/{topic}"]
        assert line["router"] == "unknown"
        assert line["nodes"] == 10
        assert line["delivery_ratio"] == 1.0  # rejected messages are due to no node
        assert line["messages"] >= least
        assert line["bytes_out"] == {"mean": None, "max_over_mean": None, "gini": None}
        assert line["control_bytes_share"] is None
        assert line["uplink_share"] == {"mean": None, "max": None}
    known = measured(traces / "go")
    assert {figure for figure, is_known in known.items() if is_known} == {"delivery", "mesh_shape"}
    assert {row["bytes_out"] for row in stored(traces / "go", "traffic")} == {None}
    assert {row["nodes_up"] for row in stored(traces / "go", "churn")} == {None}
    latencies = stored(traces / "go", "latency")
    below = sum(row["deliveries"] for row in latencies if row["latency_us"] == 0)
    assert below < 0.1 * sum(row["deliveries"] for row in latencies)


def test_the_spread_of_an_imported_message_begins_at_its_publisher(traces, answers):
    messages = {row["message"]: row for row in stored(traces / "go", "messages")}
    for row in stored(traces / "go", "spread"):
        if row["node"] == messages[row["message"]]["publisher"]:
            assert (row["hops"], row["remote"]) == (0, None)
        else:
            assert (row["hops"], row["remote"] is None) == (None, False)


def test_following_a_node_ends_in_the_tables_of_a_batch_analysis(traces, answers, tmp_path):
    done = run(
        "analyze", "--follow", "--until-complete", "--json", "--window", 0.001, "--out", tmp_path, traces / "ada"
    )
    assert json.loads(done.stdout) == [answers["ada/chat"]]
    assert_same_tables(traces / "ada", tmp_path / "ada")


def test_reports_say_what_was_not_measured(traces, answers, tmp_path):
    for name in ("ada", "three", "go"):
        run("report", traces / name, "--out", tmp_path / f"{name}.html")
    ada, three, go = ((tmp_path / f"{name}.html").read_text() for name in ("ada", "three", "go"))
    assert "not measured: only one node traced, and it does not know what others received" in ada
    assert "not measured: the trace has no sizes of what was sent" in go
    assert "A node sent 0 B" not in go
    assert "not measured: real nodes do not know how many links a message crossed" in three


def test_dataframes_equal_the_stored_tables(spark, traces, answers):
    runs = {name: traces / name for name in ("ada", "two", "three", "go", "killed")}
    assert_stored_tables(spark, runs, round(WINDOW_S * 1_000_000))
