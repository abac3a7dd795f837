"""The tables of scores, promises, IDONTWANT and refusals, compared with SQL and plain Python over the rows."""

from __future__ import annotations

from collections import Counter, defaultdict

import duckdb
import numpy as np
import pytest
from dataframes import assert_stored_tables
from simulated_runs import SMALL, analyse_runs, simulate_into

from hearsay.core.language.actions import Reason
from hearsay.pipeline.output.tables import TABLES, read_table
from hearsay.pipeline.run_facts import load_runs
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.trace.reader import read_rows

GOSSIP, PUBLISH, GRAYLIST = -10.0, -50.0, -90.0
SCORED = [
    ("network.nodes", "40"), ("workload.messages", "40"), ("workload.interval_s", "0.5"), ("linger_s", "6"),
    ("workload.size_bytes", "2000"), ("workload.publishers", "any"), ("links.uplink_mbit", "2"),
    ("loss.rate", "0.15"), ("router.preset", "hardening"), ("router.idontwant_threshold_bytes", "1024"),
    ("router.withdraw_unwanted", "true"), ("router.max_ids_per_idontwant", "1"), ("router.iwant_followup_ms", "700"),
    ("router.validate", "true"),
    ("router.score.thresholds.gossip", str(GOSSIP)), ("router.score.thresholds.publish", str(PUBLISH)),
    ("router.score.thresholds.graylist", str(GRAYLIST)), ("scores.every_s", "4"),
    ("validation.delay_ms", "20"), ("validation.invalid", "[{share=0.15}]"),
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    scored = simulate_into(base / "scored", "r1", "gossipsub", SCORED)
    plain = simulate_into(base / "plain", "r1", "floodsub", SMALL)
    return analyse_runs(spark, {"scored": scored, "plain": plain})


def stored(path, table) -> list[dict]:
    return read_table(path, table).to_pylist()


def score_rows(path) -> dict[tuple[int, str, int], dict[tuple[int, int], float]]:
    """Return the value of each pair of observer and peer, by time, event and topic."""
    rows = read_rows(path, {"score"})
    found = defaultdict(dict)
    for row, number in zip(rows.tolist(), rows[:, Column.BYTES].view(np.float64).tolist(), strict=True):
        event = wire_name(TraceEvent(row[Column.EVENT]))
        pair = row[Column.PEER], row[Column.REMOTE]
        found[row[Column.TIME_US], event, row[Column.TOPIC]][pair] = number
    return found


def test_quantiles_of_scores(runs):
    rows = score_rows(runs["scored"])
    lines = {(line["time_us"], line["part"], line["topic"]): line for line in stored(runs["scored"], "scores")}
    assert set(lines) == {
        (time, event.removeprefix("score_"), None if topic == NONE else topic) for time, event, topic in rows
    }
    assert {"score", "topics", "p1", "p2", "p4"} <= {part for _, part, _ in lines}
    connection = duckdb.connect()
    for (time, event, topic), numbers in rows.items():
        line = lines[time, event.removeprefix("score_"), None if topic == NONE else topic]
        pairs = rows[time, "score", NONE]
        values = sorted(numbers.get(pair, 0.0) for pair in pairs)
        assert line["pairs"] == len(values)
        asked = connection.execute(
            "select min(x), quantile_cont(x, 0.05), quantile_cont(x, 0.5), quantile_cont(x, 0.95), max(x) "
            "from (select unnest(?::double[]) x)", [values],
        ).fetchone()  # fmt: skip
        assert [line[name] for name in ("lowest", "p5", "median", "p95", "highest")] == pytest.approx(list(asked))
        bounds = {"below_zero": 0.0, "below_gossip": GOSSIP, "below_publish": PUBLISH, "below_graylist": GRAYLIST}
        for name, bound in bounds.items():
            share = sum(value < bound for value in values) / len(values)
            assert line[name] == (share if event == "score" else None)
    assert any(line["below_graylist"] for line in lines.values())


def test_the_worst_peers(runs):
    rows = score_rows(runs["scored"])
    last = max(time for time, _, _ in rows)
    given = defaultdict(list)
    for (_, peer), number in rows[last, "score", NONE].items():
        given[peer].append(number)
    expected = sorted(
        (float(np.median(numbers)), peer, len(numbers), min(numbers), sum(number < 0 for number in numbers),
         sum(number < GRAYLIST for number in numbers))
        for peer, numbers in given.items()
    )[:20]  # fmt: skip
    lines = stored(runs["scored"], "worst_peers")
    assert {line["time_us"] for line in lines} == {last}
    names = ("median", "peer", "observers", "lowest", "below_zero_by", "graylisted_by")
    assert sorted(tuple(line[name] for name in names) for line in lines) == expected
    assert expected[0][-1] > 0


def ask(path, query: str) -> list[tuple]:
    """Return the answer to an SQL query about the view `e`, which has the rows of a run."""
    connection = duckdb.connect()
    connection.execute(
        f"create view e as select * from read_parquet('{path}/trace/*/*.parquet', hive_partitioning=true)"
    )
    return connection.execute(query).fetchall()


def test_refusals_by_reason(runs):
    asked = ask(runs["scored"], """
        select time_us // 1000000, if(event = 'reject', 'refused', 'dropped'), kind, reason, count(*), sum(count),
        if(event = 'reject', null, sum(bytes))
        from e where event in ('reject', 'drop_rpc') group by 1, event, 3, 4""")  # fmt: skip
    names = ("second", "fate", "kind", "reason", "rows", "count", "bytes")
    lines = stored(runs["scored"], "refusals")
    assert Counter(tuple(line[name] for name in names) for line in lines) == Counter(asked)
    reasons = {line["reason"] for line in lines}
    assert {"lost", "unwanted", "withdrawn", "given_up", "graylisted", "low_score", "rejected"} <= reasons
    by_reason = Counter(line["reason"] for line in lines for _ in range(line["rows"]) if line["fate"] == "dropped")
    checks = {row["check"]: row["rows"] for row in stored(runs["scored"], "quality")}
    assert {f"drop_{reason}": rows for reason, rows in by_reason.items()}.items() <= checks.items()


def sums(path, table) -> dict[str, int]:
    """Return the sum of each column after `run`, `second` and `seconds`."""
    totals = Counter()
    for line in stored(path, table):
        totals.update({name: line[name] for name in TABLES[table].names[3:]})
    return dict(totals)


def test_promises(runs):
    end_us = load_runs([runs["scored"]])[0].end_us
    asked = ask(runs["scored"], f"""select
        count(*) filter (event = 'send_rpc' and kind = 'iwant'),
        sum(count) filter (event = 'send_rpc' and kind = 'iwant'),
        count(*) filter (event = 'send_rpc' and via = 'iwant' and time_us + delay_us < {end_us})
          - count(*) filter (event = 'drop_rpc' and via = 'iwant' and reason in ('lost', 'unreachable')),
        sum(count) filter (event = 'reject' and kind = 'ihave' and reason = 'given_up') from e""")  # fmt: skip
    assert tuple(sums(runs["scored"], "promises").values()) == asked[0]
    assert all(asked[0])


def test_copies_that_idontwant_saved(runs):
    end_us = load_runs([runs["scored"]])[0].end_us
    asked = ask(runs["scored"], f"""select
        sum(count) filter (event = 'send_rpc'),
        sum(count) filter (event = 'send_rpc' and time_us + delay_us < {end_us}),
        sum(count) filter (event = 'reject') from e where kind = 'idontwant'""")  # fmt: skip
    saved = ask(runs["scored"], """select
        count(*) filter (reason = 'unwanted'), sum(bytes) filter (reason = 'unwanted'),
        count(*) filter (reason = 'withdrawn'), sum(bytes) filter (reason = 'withdrawn')
        from e where event = 'drop_rpc'""")  # fmt: skip
    sent, arrived, refused = asked[0]
    ours = sums(runs["scored"], "idontwant")
    assert tuple(ours.values()) == (sent, arrived, refused or 0, *saved[0])
    assert 0 < ours["withheld"] < ours["withheld_bytes"]


def test_a_withheld_copy_is_not_sent_and_its_peer_has_the_message(runs):
    rows = read_rows(runs["scored"], {"message"})
    had = {
        (row[Column.PEER], row[Column.MESSAGE])
        for row in rows.tolist()
        if row[Column.EVENT] in (TraceEvent.DELIVER, TraceEvent.REJECT)
    }
    withheld = [
        row
        for row in rows.tolist()
        if row[Column.EVENT] == TraceEvent.DROP_RPC and row[Column.REASON] == Reason.UNWANTED
    ]
    sent = {
        (row[Column.TIME_US], row[Column.PEER], row[Column.REMOTE], row[Column.MESSAGE])
        for row in rows.tolist()
        if row[Column.EVENT] == TraceEvent.SEND_RPC
    }
    assert withheld
    for row in withheld:
        assert (row[Column.TIME_US], row[Column.PEER], row[Column.REMOTE], row[Column.MESSAGE]) not in sent
        assert (row[Column.REMOTE], row[Column.MESSAGE]) in had


def test_these_tables_are_empty_for_floodsub(runs):
    for table in ("promises", "idontwant", "scores", "worst_peers", "refusals"):
        assert stored(runs["plain"], table) == []


def test_dataframes_equal_the_stored_tables(spark, runs):
    assert_stored_tables(spark, runs)
