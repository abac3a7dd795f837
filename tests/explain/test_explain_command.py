"""Output of `hearsay explain` as text and as JSON, and its errors of one line."""

from __future__ import annotations

import json

import pytest
from commands import hearsay
from explained_runs import load_kind, simulate

from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.reader import RowFilter, iter_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(load_kind("lossy"), tmp_path_factory.mktemp("explained") / "run")


@pytest.fixture(scope="module")
def asked(run):
    """A node that had to ask for message 3."""
    rows = iter_rows(run, RowFilter(messages=[3], events=[TraceEvent.DELIVER]))
    return next(row.peer for row in rows if row.via is not None and row.via.name == "IWANT")


def test_a_path_is_reported_step_by_step(run, asked):
    done = hearsay("explain", run, "--message", "3", "--node", asked, new_process=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"node {asked} got it after" in done.stdout
    assert "waited for a heartbeat to announce it" in done.stdout
    assert "IWANT from" in done.stdout
    assert "The fastest path would have taken" in done.stdout
    assert "lost on the way" in done.stdout


def test_json_says_the_same(run, asked):
    done = hearsay("explain", run, "--message", "3", "--node", asked, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    steps = [step["took_us"] for hop in answer["path"]["hops"] for step in hop["steps"]]
    assert sum(steps) == answer["delivered_us"]
    assert {"heartbeat", "announced", "asked"} <= {s["step"] for hop in answer["path"]["hops"] for s in hop["steps"]}
    assert answer["fastest"]["arrived_us"] + answer["fastest"]["sooner_us"] == answer["delivered_us"]
    assert [each["outcome"] for each in answer["copies"]].count("the first copy") == 1


def test_without_a_message_the_latest_messages_are_listed(run):
    done = hearsay("explain", run, "--json")
    latest = json.loads(done.stdout)["messages"]
    delivered = [row for row in iter_rows(run, RowFilter(events=[TraceEvent.DELIVER])) if row.remote is not None]
    published = {row.message: row for row in iter_rows(run, RowFilter(events=[TraceEvent.PUBLISH]))}
    assert [each["message"] for each in latest] == sorted(published, reverse=True)
    for each in latest:
        times = [row.time_us for row in delivered if row.message == each["message"]]
        start_us = published[each["message"]].time_us
        assert (each["first_us"], each["deliveries"]) == (start_us, len(times))
        assert each["slowest_us"] == max(times) - start_us
    shown = hearsay("explain", run).stdout
    assert shown.splitlines()[1].split()[0] == str(latest[0]["message"])
    assert shown.endswith("--message M explains one of them.\n")


def test_without_a_node_the_slowest_deliveries_are_listed(run):
    done = hearsay("explain", run, "--message", "3", "--json")
    answer = json.loads(done.stdout)
    times = [each["delivered_us"] for each in answer["slowest"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 10
    found = {each["words"]: each for each in answer["in_common"]}
    lost = found["an earlier copy to the node was lost or refused by a full queue"]
    assert lost["slow"] * lost["others_of"] > 1.5 * lost["others"] * lost["slow_of"]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("RUN", "--message", "99"), 2, "99: no such message in RUN; the nearest is 7"),
        (
            ("RUN", "--message", "abc"),
            2,
            "abc: no such message in RUN; its messages have no ids, only numbers: 0 … 7",
        ),
        (("RUN", "--message", "9" * 40), 2, f"{'9' * 40}: no such message in RUN; its messages have no ids"),
        (("RUN", "--message", "\x1b[2J"), 2, "\\x1b[2J: no such message in RUN"),
        (("RUN", "--message", ""), 2, "--message is empty"),
        (("RUN", "--message", "3", "--node", ""), 2, "--node is empty; 50 nodes are in RUN"),
        (("RUN", "--message", "03"), 2, "03: no such message in RUN"),
        (("RUN", "--message", "3", "--node", "4", "--missing"), 2, "--missing and --node: give one"),
        (("RUN", "--message", "3", "--node", "77"), 2, "77: no such node in RUN; the nearest is 49"),
        (("RUN", "--message", "3", "--node", "scripd"), 2, "scripd: no such node in RUN; did you mean script?"),
        (("RUN", "--message", "3", "--node", "-4"), 2, "-4: no such node in RUN"),
        (("RUN", "--node", "4"), 2, "--message is missing: --node, --missing and --out are about one message"),
        (("NOTHING",), 1, "NOTHING does not exist"),
        (("NOTHING", "--message", "3"), 1, "NOTHING does not exist"),
        (("UNTRACED", "--message", "3"), 1, "UNTRACED: has no trace; simulate with --trace full"),
    ],
)
def test_a_refused_request_is_an_error_of_one_line(run, tmp_path, arguments, code, line):
    places = {"RUN": str(run), "NOTHING": str(tmp_path / "nothing"), "UNTRACED": str(tmp_path / "untraced")}
    if "UNTRACED" in arguments:
        small = ("--preset", "r1", "--nodes", "5", "--messages", "1", "--trace", "none")
        assert hearsay("simulate", *small, "--out", places["UNTRACED"]).returncode == 0
    done = hearsay("explain", *(places.get(each, each) for each in arguments))
    for name, place in places.items():
        line = line.replace(name, place)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"hearsay: {line}")
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_file_is_an_error_of_one_line(tmp_path):
    broken = simulate(load_kind("lossy"), tmp_path / "broken")
    assert broken is not None
    (part,) = (broken / "trace" / "class=message").glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-100])
    done = hearsay("explain", broken, "--message", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert str(part) in done.stderr


def test_a_missing_file_is_reported_once(tmp_path):
    broken = simulate(load_kind("lossy"), tmp_path / "broken")
    assert broken is not None
    (part,) = (broken / "trace" / "class=message").glob("part-*.parquet")
    part.unlink()
    done = hearsay("explain", broken, "--message", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hearsay: {part}: is missing; the run's manifest names it\n"


def test_nodes_that_joined_after_the_publication_are_not_slow(tmp_path):
    path = simulate(load_kind("churn"), tmp_path / "run")
    rows = list(iter_rows(path))
    ends = (TraceEvent.LEAVE, TraceEvent.NODE_DOWN)
    latecomers = 0
    for message in range(8):
        of_message = [row for row in rows if row.message == message]
        published = next(row for row in of_message if row.event is TraceEvent.PUBLISH)
        joined: dict[int, bool] = {}
        for row in rows:
            if row.peer is not None and row.time_us <= published.time_us and row.event in (TraceEvent.JOIN, *ends):
                joined[row.peer] = row.event is TraceEvent.JOIN
        got = {row.peer for row in of_message if row.event is TraceEvent.DELIVER} - {published.peer}
        late = {node for node in got if not joined.get(node)}
        answer = json.loads(hearsay("explain", path, "--message", message, "--json").stdout)
        assert (answer["deliveries"], answer["latecomers"]) == (len(got - late), len(late))
        assert not late & {each["node"] for each in answer["slowest"]}
        words = hearsay("explain", path, "--message", message).stdout
        assert ("that joined the topic after the publication." in words) == bool(late)
        latecomers += len(late)
    assert latecomers > 3
