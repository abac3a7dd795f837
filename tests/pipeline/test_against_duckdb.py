"""The tables of an analysis, compared with SQL in DuckDB, plain Python and the simulator's own summary."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict

import duckdb
import pytest
from commands import hearsay
from simulated_runs import GO_TRACES, NAMES, runs_named

from hearsay.pipeline.analyze import headlines
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import read_table
from hearsay.trace.language.schema import Column, PartKind, TraceEvent
from hearsay.trace.reader import read_rows

ALL = (*NAMES, *GO_TRACES)


@pytest.fixture
def sql(analysed, facts):
    """Return a function that sends a query about a run to DuckDB. `{end}` and `{window}` stand for times in µs.

    Views: `e` has all rows, `m` the memberships, computed in Python, `p` the publications and `d` the deliveries.
    `refused` has the nodes that rejected or ignored a message and never delivered it. `due` has the nodes to which a
    message was due.
    """

    def ask(name: str, query: str):
        path = analysed[name]
        connection = duckdb.connect()
        connection.execute(
            f"create view e as select * from read_parquet('{path}/trace/*/*.parquet', hive_partitioning=true)"
        )
        members = memberships_of(path, facts[name].end_us)
        connection.execute("create table m(topic int, node int, since bigint, until bigint)")
        if members:
            connection.executemany("insert into m values (?, ?, ?, ?)", members)
        end, window = facts[name].end_us, facts[name].window_us
        connection.execute(f"""create view p as select message, topic, peer publisher, time_us p_us,
            least(time_us + {window}, {end}) w_us from e where event='publish'""")
        connection.execute("""create view d as select e.message, e.topic, e.peer node, e.hops, e.via, e.time_us - p_us lat,
            e.peer != publisher away, p_us, w_us from e join p using (message) where event='deliver'""")
        connection.execute("""create view refused as select message, peer node from e
            where event='reject' and reason in ('rejected', 'ignored') except select message, node from d""")
        connection.execute("""create view due as select p.message, m.node from p join m on m.topic = p.topic and since <= p_us
            and until >= w_us where (p.message, m.node) not in (select message, node from refused)
            and (p.message not in (select message from refused) or p.message in
            (select message from d where away and coalesce(via, '') != 'inject'))""")
        return connection.execute(query.format(end=end, window=window)).fetchall()

    return ask


def memberships_of(path, end_us: int) -> list[tuple[int, int, int, int]]:
    """Return topic, node, start and end of each membership, from a loop over the rows in the order of time."""
    rows = read_rows(path, {"mesh", "node"})
    rows = rows[rows[:, Column.TIME_US].argsort(kind="stable")]
    inside: dict[tuple[int, int], int] = {}
    found = []

    def close(topic: int, node: int, time: int) -> None:
        found.append((topic, node, inside.pop((topic, node)), time))

    for row in sorted(rows.tolist(), key=lambda row: (row[0], row[Column.EVENT] == TraceEvent.JOIN)):
        time, event, node, topic = row[0], row[1], row[Column.PEER], row[Column.TOPIC]
        if event == TraceEvent.JOIN:
            inside[topic, node] = time
        elif event == TraceEvent.LEAVE and (topic, node) in inside:
            close(topic, node, time)
        elif event == TraceEvent.NODE_DOWN:
            for key in [key for key in inside if key[1] == node]:
                close(*key, time)
    for topic, node in list(inside):
        close(topic, node, end_us)
    return found


def stored(path, table) -> list[dict]:
    return read_table(path, table).to_pylist()


@pytest.mark.parametrize("name", runs_named(*ALL))
def test_memberships(name, analysed, facts):
    ours = [
        (row["topic"], row["node"], row["since_us"], row["until_us"]) for row in stored(analysed[name], "memberships")
    ]
    assert sorted(ours) == sorted(memberships_of(analysed[name], facts[name].end_us))


@pytest.mark.parametrize("name", runs_named(*NAMES))
def test_messages(name, analysed, sql):
    asked = sql(name, """
        with el as (select p.message, count(due.node) eligible from p left join due using (message) group by 1),
        fd as (select message, topic, node, p_us, w_us, min(lat) lat from d group by all),
        de as (select d.message, lat, row_number() over (partition by d.message order by lat) r, eligible
               from fd d join due using (message, node) join el on el.message = d.message),
        reached as (select message, count(*) found, min(lat) filter (r >= eligible * 0.5) t50, min(lat) filter (r >= eligible * 0.9) t90,
               min(lat) filter (r >= eligible * 0.99) t99, min(lat) filter (r >= eligible) t100 from de group by 1),
        fig as (select message, count(*) delivered, count(*) filter (away) away, count(*) filter (away and via = 'iwant') by_iwant,
               quantile_cont(lat, 0.5) filter (away) p50, quantile_cont(lat, 0.9) filter (away) p90, quantile_cont(lat, 0.99) filter (away) p99,
               max(lat) filter (away) mx, sum(hops) filter (away) hs, max(hops) filter (away) hm from d group by 1),
        cop as (select message, count(*) filter (event = 'send_rpc' and time_us + delay_us < {end})
               - count(*) filter (event = 'drop_rpc' and reason in ('lost', 'unreachable') and time_us < {end}) copies,
               count(*) filter (event = 'reject') rejected from e where message is not null group by 1)
        select p.message, p.topic, publisher, p_us, eligible, coalesce(found, 0), coalesce(delivered, 0), coalesce(away, 0), copies,
               rejected, coalesce(by_iwant, 0), round(p50, 2), round(p90, 2), round(p99, 2), mx, t50, t90, t99, t100, hs, hm
        from p join el using (message) left join reached using (message) left join fig using (message) join cop using (message)""")  # fmt: skip
    names = ("message", "topic", "publisher", "published_us", "eligible", "delivered_eligible", "delivered", "away", "copies",
             "rejected", "by_iwant", "p50_us", "p90_us", "p99_us", "max_us", "t50_us", "t90_us", "t99_us", "t100_us", "hops_sum",
             "hops_max")  # fmt: skip
    expected = {line[0]: dict(zip(names, line, strict=True)) for line in asked}
    ours = {row["message"]: row for row in stored(analysed[name], "messages")}
    assert set(ours) == set(expected)
    assert len(ours) >= 12
    for message, wanted in expected.items():
        got = {key: ours[message][key] for key in names}
        for percentile in ("p50_us", "p90_us", "p99_us"):
            assert got.pop(percentile) == pytest.approx(wanted.pop(percentile), abs=0.011, nan_ok=True)
        assert got == wanted
        row = ours[message]
        if name != "topics":  # there, nodes outside a topic get injected messages, which they do not deliver
            assert row["duplicates"] == row["copies"] - row["away"] - row["rejected"]
        assert row["ratio"] == (row["delivered_eligible"] / row["eligible"] if row["eligible"] else None)


@pytest.mark.parametrize("name", runs_named(*GO_TRACES))
def test_messages_of_go(name, analysed, sql):
    """A trace of Go has a row for each duplicate. It has no hops, and no rows of copies in flight."""
    asked = sql(name, """
        with el as (select p.message, count(due.node) eligible from p left join due using (message) group by 1),
        de as (select distinct message, node from d join due using (message, node)),
        found as (select message, count(*) n from de group by 1),
        fig as (select message, count(*) delivered, count(*) filter (away) away, quantile_cont(lat, 0.5) filter (away) p50,
                max(lat) filter (away) mx from d group by 1),
        cop as (select message, count(*) filter (event = 'duplicate') dup, count(*) filter (event = 'reject') rej from e
                where message is not null group by 1)
        select p.message, publisher, p_us, eligible, coalesce(found.n, 0), coalesce(delivered, 0), coalesce(away, 0),
               coalesce(away, 0) + dup + rej, dup, rej, p50, mx
        from p join el using (message) join cop using (message) left join found using (message) left join fig using (message)""")  # fmt: skip
    names = ("message", "publisher", "published_us", "eligible", "delivered_eligible", "delivered", "away", "copies",
             "duplicates", "rejected", "p50_us", "max_us")  # fmt: skip
    ours = {row["message"]: row for row in stored(analysed[name], "messages")}
    assert len(asked) == len(ours) >= 8
    for line in asked:
        expected = dict(zip(names, line, strict=True))
        got = {key: ours[expected["message"]][key] for key in names}
        assert got.pop("p50_us") == pytest.approx(expected.pop("p50_us"), abs=0.011, nan_ok=True)
        assert got == expected
        assert ours[expected["message"]]["hops_max"] is None


@pytest.mark.parametrize("name", runs_named(*GO_TRACES))
def test_traffic_of_go(name, analysed, sql):
    asked = sql(name, """select topic, peer, kind, count(*) filter (event = 'send_rpc'), count(*) filter (event = 'recv_rpc')
        from e where event in ('send_rpc', 'recv_rpc') group by all""")  # fmt: skip
    ours = {
        (row["topic"], row["node"], row["kind"]): (row["parts_out"], row["parts_in"])
        for row in stored(analysed[name], "traffic")
    }
    assert ours == {(topic, node, kind): (sent, received) for topic, node, kind, sent, received in asked}


@pytest.mark.parametrize("name", runs_named(*NAMES))
def test_totals_equal_the_simulators_own_summary(name, analysed):
    summary = json.loads((analysed[name] / "summary.json").read_text())
    messages = stored(analysed[name], "messages")
    assert len(messages) == summary["messages"]
    assert sum(row["delivered"] for row in messages) == summary["deliver"]
    assert sum(row["duplicates"] for row in messages) == summary["duplicates"]
    eligible = sum(row["eligible"] for row in messages)
    assert sum(row["delivered_eligible"] for row in messages) / eligible == pytest.approx(
        summary["delivery_ratio"], abs=1e-12
    )
    away = sum(row["away"] for row in messages)
    assert sum(row["hops_sum"] or 0 for row in messages) / away == pytest.approx(summary["hops"]["mean"], abs=5e-5)
    assert max(row["hops_max"] or 0 for row in messages) == summary["hops"]["max"]
    assert max(row["max_us"] or 0 for row in messages) / 1000 == summary["latency_ms"]["max"]
    sent = Counter()
    for row in stored(analysed[name], "traffic"):
        sent[row["kind"]] += row["parts_out"]
    assert {kind: count for kind, count in summary["sent"].items() if count} == {
        kind: n for kind, n in sent.items() if n
    }


@pytest.mark.parametrize("name", runs_named(*(name for name in NAMES if name != "topics")))
def test_headline_of_one_topic_equals_the_summary(name, analysed, facts):
    summary = json.loads((analysed[name] / "summary.json").read_text())
    (line,) = headlines([facts[name]], {name: Folder(analysed[name])})
    for percentile in ("p50", "p90", "p99", "max"):
        assert line["latency_ms"][percentile] == pytest.approx(summary["latency_ms"][percentile], abs=0.0011)
    assert line["messages"] == summary["messages"]
    assert line["router"] == summary["router"]
    assert line["delivery_ratio"] == pytest.approx(summary["delivery_ratio"], abs=1e-12)
    assert line["bytes_out"]["mean"] == pytest.approx(summary["bytes_out"]["mean"], abs=0.0501)


@pytest.mark.thorough
def test_headline_has_a_line_for_every_topic(analysed, facts, sql):
    lines = headlines([facts["topics"]], {"topics": Folder(analysed["topics"])})
    assert [line["topic"] for line in lines] == ["news", "<b>&'"]
    own = {row["topic"]: row["bytes_mean"] for row in stored(analysed["topics"], "balance")}
    assert [line["bytes_out"]["mean"] for line in lines] == [own[0], own[1]]
    for topic, line in enumerate(lines):
        ((p50, p99),) = sql(
            "topics",
            f"select quantile_cont(lat, 0.5), quantile_cont(lat, 0.99) from d where away and topic = {topic}",
        )
        assert line["latency_ms"]["p50"] == pytest.approx(p50 / 1000, abs=0.0011)
        assert line["latency_ms"]["p99"] == pytest.approx(p99 / 1000, abs=0.0011)


@pytest.mark.parametrize("name", runs_named(*ALL))
def test_latency_table(name, analysed, sql):
    step = (
        "case when lat < 0 or lat >= 100000 then 1000 when lat >= 10000 then 100 when lat >= 1000 then 10 else 1 end"
    )
    asked = sql(name, f"""select topic, cast(floor(lat / 1000) as int), cast(floor(lat / {step}) * {step} as bigint), hops,
        count(*) from d where away group by all""")  # fmt: skip
    ours = [
        (row["topic"], row["latency_ms"], row["latency_us"], row["hops"], row["deliveries"])
        for row in stored(analysed[name], "latency")
    ]
    assert Counter(ours) == Counter(asked)


@pytest.mark.parametrize("name", runs_named(*NAMES))
def test_traffic(name, analysed, sql):
    amount = "sum(n) parts, sum(n * case when kind = 'publish' then 1 else coalesce(\"count\", 0) end) ids, sum(n * coalesce(bytes, 0)) bytes"
    asked = sql(name, f"""
        with sides as (
            select topic, peer node, kind, 1 n, "count", bytes, true as out from e where event = 'send_rpc'
            union all select topic, remote, kind, 1, "count", bytes, false from e where event = 'send_rpc' and time_us + delay_us < {{end}}
            union all select topic, remote, kind, -1, "count", bytes, false from e
                where event = 'drop_rpc' and reason in ('lost', 'unreachable') and time_us < {{end}})
        select topic, node, kind, out, {amount} from sides group by all""")  # fmt: skip
    expected = defaultdict(lambda: [0] * 6)
    for topic, node, kind, out, *amounts in asked:
        expected[topic, node, kind][0 if out else 3 : 3 if out else 6] = map(int, amounts)
    columns = ("parts_out", "ids_out", "bytes_out", "parts_in", "ids_in", "bytes_in")
    ours = {
        (row["topic"], row["node"], row["kind"]): [row[column] for column in columns]
        for row in stored(analysed[name], "traffic")
    }
    assert ours == expected


@pytest.mark.parametrize("name", runs_named(*NAMES))
def test_control_and_balance(name, analysed, facts):
    traffic = stored(analysed[name], "traffic")
    by_kind: Counter = Counter()
    by_topic: Counter = Counter()
    for row in traffic:
        by_kind[row["topic"], row["kind"]] += row["bytes_out"]
        by_topic[row["topic"]] += row["bytes_out"]
    for row in stored(analysed[name], "control"):
        assert row["bytes"] == by_kind[row["topic"], row["kind"]]
        if by_topic[row["topic"]]:
            assert row["bytes_share"] == pytest.approx(row["bytes"] / by_topic[row["topic"]])
    nodes = set(facts[name].nodes)
    assert len(nodes) == 60
    loads: dict = defaultdict(Counter)
    loads[None].update(dict.fromkeys(nodes, 0))
    for row in stored(analysed[name], "memberships"):
        loads[row["topic"]][row["node"]] += 0
    for row in traffic:
        if row["node"] in nodes:
            loads[None][row["node"]] += row["bytes_out"]
            if row["topic"] is not None:
                loads[row["topic"]][row["node"]] += row["bytes_out"]
    balance = {row["topic"]: row for row in stored(analysed[name], "balance")}
    assert set(balance) == set(loads)
    for topic, load in loads.items():
        values = list(load.values())
        mean = sum(values) / len(values)
        differences = sum(abs(one - other) for one in values for other in values)
        assert balance[topic]["nodes"] == len(values)
        assert balance[topic]["bytes_max"] == max(values)
        assert balance[topic]["max_over_mean"] == pytest.approx(max(values) / mean)
        assert balance[topic]["gini"] == pytest.approx(differences / (2 * len(values) ** 2 * mean), abs=1e-9)


@pytest.mark.parametrize("name", runs_named("gossipsub", "topics"))
def test_control_share_of_topics_adds_up_to_that_of_the_run(name, analysed, facts):
    lines = headlines([facts[name]], {name: Folder(analysed[name])})
    traffic = stored(analysed[name], "traffic")
    control = sum(row["bytes_out"] for row in traffic if row["kind"] != "publish")
    whole = sum(row["bytes_out"] for row in traffic)
    if name == "gossipsub":
        assert lines[0]["control_bytes_share"] == pytest.approx(control / whole)
    else:
        publish = Counter()
        for row in traffic:
            if row["kind"] == "publish":
                publish[row["topic"]] += row["bytes_out"]
        totals = [publish[topic] / (1 - line["control_bytes_share"]) for topic, line in enumerate(lines)]
        assert sum(totals) == pytest.approx(whole)


LAYERS = {
    "mesh": (TraceEvent.GRAFT, {TraceEvent.PRUNE}),
    "neighbours": (TraceEvent.NEIGHBOR_UP, {TraceEvent.NEIGHBOR_DOWN}),
    "tree": (TraceEvent.EAGER, {TraceEvent.LAZY, TraceEvent.NEIGHBOR_DOWN}),
}
"""By layer, the event that begins a link and the events that end it."""


@pytest.mark.parametrize("name", runs_named(*ALL))
def test_mesh_replayed_row_by_row(name, analysed, facts):
    for layer in LAYERS if name == "episub" else ("mesh",):
        assert_replayed_mesh(name, layer, analysed, facts)


def assert_replayed_mesh(name, layer, analysed, facts):
    """Assert that each snapshot of a layer in `mesh` and `degrees` has the links that the rows until then leave."""
    rows = read_rows(analysed[name], {"mesh", "node"})
    start, ends = LAYERS[layer]
    events = sorted(
        (row[0], row[1] == start, row)
        for row in rows.tolist()
        if row[1] in (start, TraceEvent.NODE_DOWN) or row[1] in ends
    )
    members = memberships_of(analysed[name], facts[name].end_us)
    ours = [row for row in stored(analysed[name], "mesh") if row["layer"] == layer]
    if name in ("floodsub", "randomsub") or (name == "episub" and layer == "mesh"):
        assert ours == []
        return
    assert len(ours) > 5
    degrees = defaultdict(dict)
    for row in stored(analysed[name], "degrees"):
        if row["layer"] == layer:
            degrees[row["topic"], row["time_us"]][row["degree"]] = row["nodes"]
    for line in ours:
        links = set()
        for time, _, row in events:
            if time > line["time_us"]:
                break
            node, remote, topic = row[Column.PEER], row[Column.REMOTE], row[Column.TOPIC]
            if row[1] == TraceEvent.NODE_DOWN:
                links = {link for link in links if link[0] != node}
            elif topic == line["topic"]:
                (links.add if row[1] == start else links.discard)((node, remote))
        inside = {
            node
            for topic, node, since, until in members
            if topic == line["topic"] and since <= line["time_us"] <= until
        }
        links = {link for link in links if set(link) <= inside}
        degree = Counter(dict.fromkeys(inside, 0))
        degree.update(node for node, _ in links)
        assert line["members"] == len(inside)
        assert line["links"] == len(links)
        assert degrees[line["topic"], line["time_us"]] == Counter(degree.values())
        if inside:
            assert (line["degree_min"], line["degree_max"]) == (min(degree.values()), max(degree.values()))
            assert line["components"] == len(components(inside, links))
            assert line["largest_share"] == pytest.approx(max(map(len, components(inside, links))) / len(inside))
        if links:
            symmetric = sum((remote, node) in links for node, remote in links)
            assert line["symmetric_share"] == pytest.approx(symmetric / len(links))
            eccentricities = [
                max(distances(node, links).values()) for node in max(components(inside, links), key=len)
            ]
            assert max(eccentricities) - 1 <= line["diameter"] <= max(eccentricities)


def neighbours(links):
    known = defaultdict(set)
    for node, remote in links:
        known[node].add(remote)
        known[remote].add(node)
    return known


def distances(start, links):
    known, found, frontier = neighbours(links), {start: 0}, [start]
    while frontier:
        node = frontier.pop(0)
        for other in known[node]:
            if other not in found:
                found[other] = found[node] + 1
                frontier.append(other)
    return found


def components(nodes, links):
    rest, found = set(nodes), []
    while rest:
        part = set(distances(next(iter(rest)), links))
        found.append(part)
        rest -= part
    return found


@pytest.mark.parametrize("name", runs_named("churning", "crashing", "spanning", "gossipsub"))
def test_churn_second_by_second(name, analysed, facts):
    rows = read_rows(analysed[name], {"node"})
    ups = sorted(row[0] for row in rows.tolist() if row[1] == TraceEvent.NODE_UP)
    downs = sorted(row[0] for row in rows.tolist() if row[1] == TraceEvent.NODE_DOWN)
    messages = stored(analysed[name], "messages")
    lines = stored(analysed[name], "churn")
    seconds = -(-facts[name].end_us // 1_000_000)
    assert sorted(line["second"] for line in lines if line["topic"] is None) == list(range(seconds))
    for line in lines:
        end = (line["second"] + 1) * 1_000_000
        assert line["nodes_up"] == sum(time < end for time in ups) - sum(time < end for time in downs)
        if line["topic"] is not None:
            mine = [row for row in messages if row["published_us"] // 1_000_000 == line["second"]]
            assert line["messages"] == len(mine)
            assert line["eligible"] == sum(row["eligible"] for row in mine)
            assert line["delivered"] == sum(row["delivered_eligible"] for row in mine)


@pytest.mark.parametrize("name", runs_named(*NAMES))
def test_resilience(name, analysed, facts):
    rows = read_rows(analysed[name], {"node"}).tolist()
    changes = [row[0] for row in rows if row[1] in (TraceEvent.NODE_UP, TraceEvent.NODE_DOWN)]
    messages = stored(analysed[name], "messages")
    ours = {row["topic"]: row for row in stored(analysed[name], "resilience") if row["disturbance"] is None}
    assert set(ours) == {row["topic"] for row in messages}
    scenario = tomllib.loads((analysed[name] / "scenario.toml").read_text())
    partitions = [(each["at_s"] * 10**6, each["heal_s"] * 10**6) for each in scenario["faults"]["partition"]]
    losing = scenario["loss"]["rate"] > 0 and not partitions
    for topic, line in ours.items():
        mine = sorted((row for row in messages if row["topic"] == topic), key=lambda row: row["published_us"])
        later = [(time, time) for time in changes if time > mine[0]["published_us"]] + partitions
        first, last = (min(since for since, _ in later), max(until for _, until in later)) if later else (None, None)
        if losing:
            assert not later
            assert (line["disturbances"], line["first_us"], line["last_us"]) == (1, 0, facts[name].end_us)
            assert (line["ratio_before"], line["ratio_after"], line["heal_us"]) == (None, None, None)
            assert line["ratio_during"] == ratio_of(mine)
            continue
        assert (line["disturbances"], line["first_us"], line["last_us"]) == (len(later), first, last)
        phases = defaultdict(list)
        for row in mine:
            closes = min(row["published_us"] + facts[name].window_us, facts[name].end_us)
            undisturbed = first is None or closes < first
            phases["before" if undisturbed else "after" if row["published_us"] > last else "during"].append(row)
        ratios = {}
        for phase in ("before", "during", "after"):
            ratios[phase] = ratio_of(phases[phase])
            assert line[f"ratio_{phase}"] == ratios[phase]
        measured = [row for row in mine if first is not None and row["published_us"] > first and row["eligible"]]
        goal = 0.99 * (1.0 if ratios["before"] is None else ratios["before"])
        bad = [row["published_us"] for row in measured if row["ratio"] < goal]
        good = [row["published_us"] for row in measured if bad and row["published_us"] > bad[-1]]
        if not measured:
            assert line["heal_us"] is None
        elif not bad:
            assert line["heal_us"] == 0
        else:
            assert line["heal_us"] == (max(good[0] - last, 0) if good else None)


@pytest.mark.thorough
def test_every_disturbance_is_named_and_measured_by_itself(analysed, facts):
    name = "partitioned"
    named = stored(analysed[name], "disturbances")
    assert [(row["kind"], row["what"], row["since_us"], row["until_us"], row["source"]) for row in named] == [
        ("loss", "2 % of messages lost on links throughout", 0, facts[name].end_us, "scenario"),
        (
            "partition",
            "40 % of the nodes cut off from the others from 8 s to 13 s",
            8_000_000,
            13_000_000,
            "scenario",
        ),
    ]
    lines = {row["disturbance"]: row for row in stored(analysed[name], "resilience")}
    messages = stored(analysed[name], "messages")
    assert lines[0]["ratio_during"] == ratio_of(messages)
    assert (lines[0]["ratio_before"], lines[0]["ratio_after"]) == (None, None)
    closes = [(row, min(row["published_us"] + 1_000_000, facts[name].end_us)) for row in messages]
    before = [row for row, closed in closes if closed < 8_000_000]
    after = [row for row in messages if row["published_us"] > 13_000_000]
    during = [row for row in messages if row not in before and row not in after]
    assert len(before) > 2
    assert lines[1]["ratio_before"] == ratio_of(before)
    assert lines[1]["ratio_during"] == ratio_of(during) < 0.9 < lines[1]["ratio_before"]
    assert lines[1]["ratio_after"] == ratio_of(after)
    crashes = stored(analysed["crashing"], "disturbances")
    assert [row["what"] for row in crashes] == ["50 % of the nodes crashed at 14 s and came back 3 s later"]


@pytest.mark.parametrize("name", runs_named("narrow", "gossipsub"))
def test_share_of_the_uplink(name, analysed, facts):
    (line,) = headlines([facts[name]], {name: Folder(analysed[name])})
    (balance,) = [row for row in stored(analysed[name], "balance") if row["topic"] is None]
    if name == "gossipsub":
        assert line["uplink_share"] == {"mean": None, "max": None}
        return
    could_send = 0.05 * 1e6 / 8 * json.loads((analysed[name] / "summary.json").read_text())["simulated_seconds"]
    assert line["uplink_share"]["mean"] == pytest.approx(balance["bytes_mean"] / could_send)
    assert line["uplink_share"]["max"] == pytest.approx(balance["bytes_max"] / could_send)


def ratio_of(messages: list[dict]) -> float | None:
    eligible = sum(row["eligible"] for row in messages)
    return sum(row["delivered_eligible"] for row in messages) / eligible if eligible else None


def rows_of_deliveries(path) -> list[tuple[int, int]]:
    """Return message and node of each delivery."""
    rows = read_rows(path, {"message"})
    rows = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER]
    return list(zip(rows[:, Column.MESSAGE].tolist(), rows[:, Column.PEER].tolist(), strict=True))


def test_state_and_quality(analysed):
    for name, path in analysed.items():
        rows = read_rows(path, {"node"})
        samples = defaultdict(list)
        for row in rows[rows[:, Column.EVENT] == TraceEvent.STATE].tolist():
            samples[row[0]].append((row[Column.COUNT], row[Column.BYTES]))
        ours = {row["time_us"]: row for row in stored(path, "state")}
        assert set(ours) == set(samples)
        for time, kept in samples.items():
            assert ours[time]["nodes"] == len(kept)
            assert ours[time]["entries_mean"] == pytest.approx(sum(entries for entries, _ in kept) / len(kept))
            assert ours[time]["bytes_max"] == max(size for _, size in kept)
        checks = {row["check"]: row["rows"] for row in stored(path, "quality")}
        assert checks["rows"] == len(read_rows(path))
        assert checks["orphan_deliveries"] == checks["unpublished_messages"] == checks["negative_latencies"] == 0
        deliveries = rows_of_deliveries(path)
        assert checks.get("repeated_deliveries", 0) == len(deliveries) - len(set(deliveries))
        assert checks.get("repeated_deliveries", 0) == 0 or name in ("churning", "crashing", "spanning")
        drops = Counter(row[Column.REASON] for row in read_rows(path).tolist() if row[1] == TraceEvent.DROP_RPC)
        assert sum(n for check, n in checks.items() if check.startswith("drop_")) == sum(drops.values())
        assert (name in ("lossy", "meshsub", "partitioned")) == ("drop_lost" in checks)
        assert (name == "narrow") == ("drop_queue_full" in checks)


def test_spread_follows_one_message_per_topic(analysed):
    for path in analysed.values():
        spread = stored(path, "spread")
        rows = read_rows(path, {"message"})
        for topic in {row["topic"] for row in spread}:
            mine = [row for row in spread if row["topic"] == topic]
            (message,) = {row["message"] for row in mine}
            deliveries = rows[(rows[:, Column.EVENT] == TraceEvent.DELIVER) & (rows[:, Column.MESSAGE] == message)]
            assert sorted(row["node"] for row in mine) == sorted(deliveries[:, Column.PEER].tolist())


def test_traffic_has_kinds_of_rpc_parts(analysed):
    kinds = {row["kind"] for path in analysed.values() for row in stored(path, "traffic")}
    assert kinds <= {kind.name.lower() for kind in PartKind}
    assert {"publish", "ihave", "iwant", "graft", "connect"} <= kinds


def test_the_report_names_all_runs(analysed, tmp_path):
    page = tmp_path / "report.html"
    done = hearsay("report", *analysed.values(), "--out", page)
    assert done.returncode == 0, done.stderr
    assert all(f">{name}<" in page.read_text(encoding="utf-8") for name in analysed)
