"""Witnesses: real routers get the calls of some nodes of the array engine, and must take the same actions."""

from __future__ import annotations

import pytest

import witness_nodes
from engines_agree import plan_of
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.witnesses import Witnesses

SCORED = {
    "network.nodes": "100",
    "workload.messages": "20",
    "workload.publishers": "any",
    "validation.delay_ms": "30",
    "validation.reject_share": "0.2",
    "scores.every_s": "2",
}

pytestmark = pytest.mark.xdist_group("array")


@pytest.mark.parametrize(
    ("preset", "changes", "witnesses"),
    [
        ("r1", {"network.nodes": "2000", "workload.messages": "5"}, range(0, 2000, 100)),
        ("simsub", {"network.nodes": "300", "workload.messages": "10"}, range(0, 300, 20)),
        ("churn-30", {"network.nodes": "300", "workload.messages": "10"}, range(0, 300, 10)),
        ("ipns", {"network.nodes": "200", "workload.messages": "10"}, range(0, 200, 10)),
        (
            "r1",
            {"network.nodes": "200", "links.jitter_ms": "20", "links.uplink_mbit": "0.2", "loss.rate": "0.1"}
            | {"links.uplink_queue_bytes": "2000", "validation.delay_ms": "20", "router.preset": "v1.1"},
            range(0, 200, 10),
        ),
        ("r1", SCORED | {"router.preset": "hardening", "router.idontwant_threshold_bytes": "100"}, range(0, 100, 4)),
        ("churn-30", SCORED | {"router.preset": "rust", "links.uplink_mbit": "0.5"}, range(0, 100, 4)),
        (
            "r1",
            SCORED
            | {"scores.every_s": "0", "router.preset": "go", "router.exchange_peers": "8"}
            | {"router.direct_peers": "[[0, 8], [4, 1]]", "router.direct_connect_ticks": "3"}
            | {"router.degree": "3", "router.degree_low": "2", "router.degree_high": "3", "router.degree_score": "1"}
            | {"router.degree_out": "1"},
            range(0, 100, 4),
        ),
    ],
    ids=["r1", "simsub", "churn", "ipns", "bad links", "scores", "scores of peers that return", "dials"],
)
def test_real_routers_do_what_witnesses_did(preset, changes, witnesses):
    plan = make_plan(load_scenario(None, preset, tuple(changes.items())))
    chosen = Witnesses(plan, witnesses)
    engine = ArrayEngine(plan, None, 1, chosen)
    assert engine.run()
    result = chosen.repeat()
    assert result.problems == ()
    assert result.calls > 20 * len(witnesses)
    assert result.rows > 20 * len(witnesses)


LEAVES = "".join(
    f'[[timed]]\nat_s = {at_s}\nnode = {node}\naction = "{action}"\ntopic = "a"\n'
    for node in range(8)
    for at_s, action in ((2, "leave"), (3, "join"))
)
NAMED_BACKOFFS = f"""
warmup_s = 10
[network]
nodes = 40
degree = 3
[router]
preset = "v1.1"
unsubscribe_backoff_ms = 2000
[[topics]]
name = "a"
{LEAVES}
"""
"""Nodes that leave name a backoff that is shorter than the usual one, so they are grafted again during the run."""
TREES = """
warmup_s = 1
[network]
nodes = 100
degree = 5
[router]
kind = "episub"
overlay = "connections"
[[population]]
share = 0.2
router = { kind = "gossipsub", preset = "r1" }
[[topics]]
name = "a"
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
[links]
uplink_mbit = 1
uplink_queue_bytes = 3000
[loss]
rate = 0.2
control = true
"""


OVERLAYS = TREES.replace('overlay = "connections"', "shuffle_interval_ms = 1000").replace(
    "warmup_s = 1", "warmup_s = 5"
)
ESTIMATED = OVERLAYS.replace("shuffle_interval_ms", 'view_sizes = "estimated"\nshuffle_interval_ms')


@pytest.mark.parametrize(
    "text",
    [TREES, NAMED_BACKOFFS, OVERLAYS, ESTIMATED],
    ids=["trees", "backoffs", "overlays", "estimated sizes"],
)
def test_real_routers_repeat_what_witnesses_did(text):
    plan = plan_of(text)
    chosen = Witnesses(plan, range(0, 40, 2))
    engine = ArrayEngine(plan, None, 1, chosen)
    assert engine.run()
    assert chosen.repeat().problems == ()


@pytest.mark.thorough
def test_the_bench_prints_its_counts(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["witness_nodes.py", "--nodes", "60", "--messages", "2", "--witnesses", "5"])
    assert witness_nodes.main() == 0
    assert capsys.readouterr().out.startswith("5 witnesses of 60 nodes, preset r1: ")
