"""Whole runs: the same on every machine, sound under every fault, with equal figures in summary and trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hearsay.api.scenarios import simulate
from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import Control, PeerInfo, Prune, Rpc
from hearsay.core.language.sizes import part_sizes
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.sim.summary import Summary
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.rows import with_derived
from hearsay.trace.language.schema import Column, PartKind, TraceEvent, TraceRow
from hearsay.trace.reader import read_rows

OTHERS = ("floodsub", "randomsub", "meshsub", "episub")
ROUTERS = (*OTHERS, "gossipsub")
SMALL = {"network.nodes": 40, "workload.messages": 6, "linger_s": 4}


def scenario(preset: str = "r1", router: str | None = None, **keys: object):
    overrides = {**SMALL, **{key.replace("__", "."): value for key, value in keys.items()}}
    return load_scenario(None, preset, [(key, str(value)) for key, value in overrides.items()], router=router)


def checked(preset: str = "r1", router: str | None = None, **keys: object) -> Summary:
    result = Simulation(scenario(preset, router, **keys), check=True).run()
    assert result.problems == ()
    return result.summary


# A change of these is a change of the protocol, of the randomness or of the trace: say so in the changelog.
EXPECTED_HASHES = {
    ("simsub", "gossipsub"): "ecc00bcf5823e6596706623e82b8e103",
    ("r1", "gossipsub"): "1d388ca6d1abbf03268245d32b0130da",
    ("r1", "randomsub"): "0cae31ad26d4cbbdc96d83dddaad3ca4",
    ("churn-30", "gossipsub"): "9c48ff920ada2b2e9eb0d851efb77233",
}


@pytest.mark.parametrize(("preset", "router"), EXPECTED_HASHES)
def test_the_trace_is_the_same_on_every_machine(preset, router):
    assert simulate(scenario(preset, router)).trace_hash == EXPECTED_HASHES[preset, router]


def test_other_seeds_make_other_traces():
    assert len({simulate(scenario(seed=seed)).trace_hash for seed in range(5)}) == 5


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_the_hash_seed_of_python_does_not_matter(hash_seed):
    code = (
        "from hearsay.sim.scenario.scenario_file import load_scenario; from hearsay.api.scenarios import simulate;"
        "overrides = [('network.nodes', '40'), ('workload.messages', '6'), ('linger_s', '4')];"
        "print(simulate(load_scenario(None, 'churn-30', overrides)).trace_hash)"
    )
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == EXPECTED_HASHES["churn-30", "gossipsub"]


def test_neither_checker_nor_listener_nor_folder_change_the_trace(tmp_path):
    plain = simulate(scenario()).trace_hash
    rows: list[TraceRow] = []
    folder = RunFolder.create(tmp_path / "run")
    result = Simulation(scenario(), check=True, folder=folder, listener=rows.append).run()
    assert result.summary.trace_hash == plain
    stored = Counter(map(tuple, read_rows(tmp_path / "run").tolist()))
    assert stored == Counter(row.to_codes() for row in rows)


def test_the_scenario_of_a_run_folder_makes_the_same_run(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    first = Simulation(scenario("ethereum-blocks", loss__rate=0.1), folder=folder).run().summary
    assert simulate(tmp_path / "run" / "scenario.toml").trace_hash == first.trace_hash


def test_summary_and_trace_agree(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    summary = Simulation(scenario("simsub", loss__rate=0.05), folder=folder).run().summary
    rows = with_derived(read_rows(tmp_path / "run"))
    events = Counter(rows[:, Column.EVENT].tolist())
    sent = Counter(rows[rows[:, Column.EVENT] == TraceEvent.SEND_RPC][:, Column.KIND].tolist())
    assert {kind: count for kind, count in summary.sent.items() if count} == {
        PartKind(kind).name.lower(): count for kind, count in sent.items()
    }
    assert events[TraceEvent.DELIVER] == summary.deliver
    # A copy that the script sends to a node that has the message is a duplicate, too.
    assert events[TraceEvent.DUPLICATE] == summary.duplicates
    assert events[TraceEvent.PUBLISH] == summary.messages


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_the_summary_has_sent_bytes_and_the_used_shares_of_uplinks(tmp_path, engine):
    """Bytes that the script sends count for no node."""
    folder = RunFolder.create(tmp_path / "run")
    keys = {"links__uplink_mbit": 0.1, "links__uplink_queue_bytes": 4000}
    summary = Simulation(scenario("simsub", **keys), folder=folder, engine=engine).run().summary
    rows = read_rows(tmp_path / "run")
    sends = rows[(rows[:, Column.EVENT] == TraceEvent.SEND_RPC) & (rows[:, Column.BYTES] > 0)]
    by_node = [int(sends[sends[:, Column.PEER] == node, Column.BYTES].sum()) for node in range(summary.nodes)]
    assert sum(by_node) < sends[:, Column.BYTES].sum()
    mean, most = sum(by_node) / summary.nodes, max(by_node)
    assert summary.bytes_out == {"mean": round(mean, 1), "max": most}
    room = 100_000 / 8 * summary.simulated_seconds
    assert summary.uplink_share == {"mean": round(mean / room, 6), "max": round(most / room, 6)}
    assert 0 < mean < most < room


def test_a_listener_gets_every_row():
    traced: list[TraceRow] = []
    simulate(scenario(), on_row=traced.append)
    assert {row.event for row in traced} >= {TraceEvent.PUBLISH, TraceEvent.DELIVER, TraceEvent.SEND_RPC}


SETTINGS: tuple[dict[str, object], ...] = (
    {},
    {"loss__rate": 0.2},
    {"loss__rate": 0.2, "loss__control": "true"},
    {"faults__churn__away_share": 0.3, "faults__churn__mean_session_s": 3},
    {"faults__churn__away_share": 0.3, "faults__churn__mean_session_s": 3, "faults__churn__goodbye": "true"},
    {"links__uplink_mbit": 0.5, "links__uplink_queue_bytes": 4000, "workload__size_bytes": 2000},
    {"links__jitter_ms": 9},
    {"service__time_ms": 2},
    {"validation__delay_ms": 30, "validation__reject_share": 0.3},
    {"links__latency": "log_normal"},
    {"topics__0__count": 20, "topics__0__subscribers_share": 0.3, "workload__publishers": "non_subscribers"},
    {"network__topology": "scale_free"},
)


def router_and_keys(router: str, number: int) -> ParameterSet:
    """Return a test case. After each change, gossipsub runs with every setting, and one other router with each; the
    remaining pairs are thorough tests.
    """
    keys, other = SETTINGS[number], OTHERS[number % len(OTHERS)]
    marks = () if router in ("gossipsub", other) else pytest.mark.thorough
    return pytest.param(router, keys, marks=marks, id=f"{'+'.join(keys) or 'plain'}-{router}")


@pytest.mark.parametrize(
    ("router", "keys"), [router_and_keys(router, number) for number in range(len(SETTINGS)) for router in ROUTERS]
)
def test_no_run_breaks_an_invariant(router, keys):
    checked(router=router, **keys)


FAULTS = """
preset = "r1"
linger_s = 6
[network]
nodes = 40
[workload]
messages = 12
publishers = "subscribers"
[[population]]
share = 0.3
router = { kind = "floodsub" }
[[population]]
share = 0.2
router = { kind = "randomsub" }
[[topics]]
name = "nachrichten-ä"
subscribers_share = 0.8
[[topics]]
name = "sport"
subscribers_count = 20
[[timed]]
at_s = 8
node = 3
action = "leave"
topic = "sport"
[[timed]]
at_s = 6
node = 4
action = "join"
topic = "sport"
[[faults.crash]]
at_s = 7
share = 0.3
rejoin_after_s = 0.4
[[faults.partition]]
at_s = 9
heal_s = 12
share = 0.4
[[faults.cut]]
at_s = 10
heal_s = 13
share = 0.2
"""


def test_mixed_populations_under_all_faults_at_once(tmp_path):
    file = tmp_path / "faults.toml"
    file.write_text(FAULTS, encoding="utf-8")
    result = Simulation(load_scenario(file), check=True).run()
    assert result.problems == ()
    assert result.summary.deliver > 0


LEFT_AND_REJOINED = """
linger_s = 16
[network]
nodes = 9
topology = "complete"
[router]
preset = "v1.1"
exchange_peers = 3
[workload]
messages = 6
publishers = "subscribers"
[[timed]]
at_s = 6
node = 3
action = "leave"
topic = "topic"
[[timed]]
at_s = 7
node = 3
action = "join"
topic = "topic"
"""


def test_backoffs_of_v11_are_sent_and_kept(tmp_path):
    """A leaving node sends a backoff of ten seconds. It rejoins, waits until the backoff ends, and grafts again."""
    file = tmp_path / "rejoined.toml"
    file.write_text(LEFT_AND_REJOINED, encoding="utf-8")
    rows: list[TraceRow] = []
    result = Simulation(load_scenario(file), check=True, listener=rows.append).run()
    assert result.problems == ()
    prunes = [row.bytes for row in rows if row.event == TraceEvent.SEND_RPC and row.kind == PartKind.PRUNE]
    expected = Prune("topic", 10, (PeerInfo(0), PeerInfo(1), PeerInfo(2)))
    assert set(prunes) == {part_sizes(Rpc(control=Control(prune=(expected,))))[0][2]}
    grafts = [row.time_us for row in rows if row.event == TraceEvent.GRAFT and row.peer == 3]
    back = [time_us for time_us in grafts if time_us > 7_000_000]
    assert len(back) >= 4
    assert 16_000_000 < min(back) < 20_000_000
    assert not [row for row in rows if row.event == TraceEvent.REJECT and row.reason == Reason.BACKOFF]


@pytest.mark.parametrize("kind", ["meshsub", "gossipsub"])
@pytest.mark.parametrize(
    "keys",
    [
        {"faults__churn__away_share": 0.3, "faults__churn__mean_session_s": 3},
        {"links__uplink_mbit": 0.5, "links__uplink_queue_bytes": 1000, "router__prune_backoff_ms": 2000},
        {"router__degree": 3, "router__degree_low": 3, "router__degree_high": 3, "router__max_backoffs": 2},
        {"router__exchange_peers": 4, "router__accept_exchange": "true", "network__degree": 3},
    ],
    ids=lambda keys: "+".join(keys),
)
def test_no_run_of_v11_breaks_an_invariant(kind, keys):
    leaves = {f"timed.{n}.{key}": value for n in range(8) for key, value in _leave_or_join(n).items()}
    checked(router__kind=kind, router__preset="v1.1", **keys, **leaves)


def _leave_or_join(number: int) -> dict[str, object]:
    action = ("leave", "join")[number % 2]
    return {"at_s": 6 + number * 0.7, "node": number // 2, "action": action, "topic": "topic"}


@examples(0.25)
@given(
    router=st.sampled_from(ROUTERS),
    nodes=st.integers(1, 25),
    degree=st.integers(0, 8),
    messages=st.integers(0, 8),
    loss=st.sampled_from([0, 0.3]),
    away=st.sampled_from([0, 0.3, 0.6]),
    detection=st.sampled_from([0.001, 0.2, 2]),
    jitter=st.sampled_from([0, 20]),
    seed=st.integers(0, 1 << 40),
)
def test_no_random_run_breaks_an_invariant(router, nodes, degree, messages, loss, away, detection, jitter, seed):
    checked(
        router=router,
        network__nodes=nodes,
        network__degree=degree,
        workload__messages=messages,
        workload__interval_s=0.3,
        loss__rate=loss,
        faults__churn__away_share=away,
        faults__churn__mean_session_s=2,
        faults__detection_s=detection,
        links__jitter_ms=jitter,
        warmup_s=3,
        seed=seed,
    )


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_a_node_that_says_goodbye_sends_unsubscribe_and_prune_first(tmp_path, engine):
    """A peer that is up handles the PRUNE before the connection ends."""
    keys = {"churn__away_share": 0.1, "churn__mean_session_s": 20, "churn__goodbye": "true"}
    folder = RunFolder.create(tmp_path / "run")
    Simulation(
        scenario(**{f"faults__{key}": value for key, value in keys.items()}), folder=folder, engine=engine
    ).run()
    rows = [TraceRow.from_codes(tuple(codes)) for codes in read_rows(tmp_path / "run").tolist()]
    downs = {(row.time_us, row.peer) for row in rows if row.event is TraceEvent.NODE_DOWN}
    went = {node for _, node in downs}
    sent_at_end = [row for row in rows if (row.time_us, row.peer) in downs and row.event is TraceEvent.SEND_RPC]
    assert {row.kind for row in sent_at_end} == {PartKind.UNSUBSCRIBE, PartKind.PRUNE}
    assert {row.peer for row in sent_at_end if row.kind is PartKind.UNSUBSCRIBE} == went
    left = {(row.time_us, row.peer) for row in rows if row.event is TraceEvent.LEAVE}
    assert left == downs
    lost = {(row.peer, row.remote) for row in rows if row.event is TraceEvent.DROP_RPC}
    pruned = {(row.time_us, row.peer, row.remote) for row in rows if row.event is TraceEvent.PRUNE}
    received = [row for row in sent_at_end if row.kind is PartKind.PRUNE and row.remote not in went]
    assert received
    for row in received:
        assert (row.peer, row.remote) not in lost
        assert (row.time_us + row.delay_us, row.remote, row.peer) in pruned


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_or_two_nodes(nodes):
    summary = checked(network__nodes=nodes)
    assert (summary.deliver, summary.delivery_ratio) == (6 * nodes, 1.0)


def test_no_messages():
    summary = checked(workload__messages=0)
    assert summary.delivery_ratio is None
    assert summary.latency_ms == {"p50": None, "p90": None, "p99": None, "max": None}
    assert summary.hops == {"mean": None, "max": None}


@pytest.mark.parametrize("router", ROUTERS)
def test_rejected_messages_do_not_lower_the_delivery_ratio(router):
    """Half of the messages reach only peers of their publishers. They count for no node as undelivered."""
    accepting = checked(router=router, validation__delay_ms=1)
    rejecting = checked(router=router, validation__delay_ms=1, validation__reject_share=0.5)
    assert rejecting.deliver < 0.8 * accepting.deliver
    assert rejecting.delivery_ratio == pytest.approx(accepting.delivery_ratio, abs=0.02)


def test_gossip_recovers_what_a_thin_mesh_loses():
    keys = {"network__nodes": 150, "workload__messages": 20, "loss__rate": 0.05}
    thin = {"router__degree": 2, "router__degree_low": 2, "router__degree_high": 3}
    meshsub = checked(router="meshsub", **keys, **thin)
    gossipsub = checked(router="gossipsub", **keys, **thin)
    assert meshsub.delivery_ratio is not None
    assert gossipsub.delivery_ratio is not None
    assert gossipsub.delivery_ratio > 0.9995
    assert meshsub.delivery_ratio < gossipsub.delivery_ratio - 0.002


def test_an_outside_router_plugs_in_by_its_import_path(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    summary = checked(router="echo_router:ECHO")
    assert summary.sent["extension"] > 0
    assert summary.delivery_ratio == 1.0


def write_entry_point(folder: Path, target: str) -> None:
    """Write the files of an installed package that has the router `outside` as an entry point."""
    about = folder / "outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[hearsay.routers]\noutside = {target}\n")


def test_an_outside_router_plugs_in_by_its_entry_point(monkeypatch, tmp_path):
    write_entry_point(tmp_path, "echo_router:ECHO")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    assert checked(router="outside").sent["extension"] > 0


def test_a_broken_entry_point_is_reported_in_one_line(monkeypatch, tmp_path):
    write_entry_point(tmp_path, "nowhere_at_all:ECHO")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ScenarioError, match="router 'outside' cannot be loaded: No module named"):
        scenario(router="outside")


SIMSUB_TABLES = {
    (100, 10, 1.0): {"graft": 380, "prune": 7, "iwant": 31, "publish": 6473, "ihave": 4402},
    (100, 100, 0.1): {"graft": 374, "prune": 8, "iwant": 163, "publish": 63351, "ihave": 4844},
}


FEW_MESSAGES, MANY_MESSAGES = SIMSUB_TABLES


@pytest.mark.parametrize("network", [FEW_MESSAGES, pytest.param(MANY_MESSAGES, marks=pytest.mark.thorough)])
def test_our_runs_agree_with_the_published_tables_of_simsub(network):
    """Counters are within four standard deviations of our mean over eight seeds. PRUNEs come in groups, so their
    published number must only be at most our maximum or 15.
    """
    nodes, messages, delay = network
    runs = []
    for seed in range(1, 9):
        keys = {
            "network__nodes": nodes,
            "workload__messages": messages,
            "workload__interval_s": delay,
            "linger_s": 10,
            "seed": seed,
        }
        summary = simulate(scenario("simsub", **keys))
        assert summary.sent["connect"] == 10 * nodes
        assert summary.deliver == nodes * messages
        runs.append(summary.sent)
    for kind, figure in SIMSUB_TABLES[network].items():
        counts = [sent[kind] for sent in runs]
        mean = sum(counts) / len(counts)
        deviation = (sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)) ** 0.5
        if kind == "prune":
            assert figure <= max(*counts, 15)
        else:
            assert abs(figure - mean) < 4 * deviation, (kind, counts)


def test_a_message_handed_to_all_nodes_at_once_builds_no_tree_and_breaks_no_invariant():
    checked(router="episub", network__nodes=3, network__degree=0, workload__messages=2, seed=0)


CROWDED_UPLINKS = """
warmup_s = 20
[network]
nodes = 12
degree = 2
[links]
uplink_mbit = 0.03
uplink_queue_bytes = 2400
[workload]
messages = 5
interval_s = 3
size_bytes = 20
publishers = "subscribers"
""" + "".join(f"[[topics]]\nname = 'topic-{number}'\n" for number in range(120))


@pytest.mark.parametrize("router", ["floodsub", "randomsub"])
def test_hellos_that_a_full_uplink_refused_arrive_later(tmp_path, router):
    """A hello of 120 topics fills the uplink's queue; all messages fit into it."""
    file = tmp_path / "crowded.toml"
    file.write_text(CROWDED_UPLINKS, encoding="utf-8")
    rows: list[TraceRow] = []
    summary = simulate(load_scenario(file, None, (), router=router), on_row=rows.append)
    refused = Counter(row.kind for row in rows if row.event == TraceEvent.DROP_RPC)
    assert refused[PartKind.SUBSCRIBE] > 0
    assert refused[PartKind.PUBLISH] == 0
    assert summary.delivery_ratio == 1.0
