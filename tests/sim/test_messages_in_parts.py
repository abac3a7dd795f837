"""Partial messages in simulated networks: every node gets every message, and less is sent."""

from __future__ import annotations

import pytest

from hearsay.api.scenarios import simulate
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario

KIBIBYTE = 1024
FULL = {
    "network.nodes": 24,
    "network.degree": 6,
    "workload.messages": 4,
    "workload.publishers": "subscribers",
    "workload.size_bytes": 32 * KIBIBYTE,
    "linger_s": 5,
    "router.preset": "go",
    "router.partial_messages": True,
}
PARTS = {**FULL, "topics.0.partial.parts": 16}
LACKING_ONE = {**PARTS, "topics.0.partial.known_parts": 15}
PLAIN = {"share": 0.4, "router": {"kind": "gossipsub", "preset": "go"}}


def scenario_of(settings):
    return load_scenario(overrides=list(settings.items()))


def run(settings):
    """Return the summary of a checked run, in which every node must get every message."""
    summary = simulate(scenario_of(settings), check=True)
    assert summary.delivery_ratio == 1
    assert summary.deliver == summary.messages * summary.nodes
    return summary


def test_every_node_gets_all_parts_of_all_messages():
    summary = run(PARTS)
    assert summary.sent["partial"] >= summary.messages * (summary.nodes - 1)
    assert summary.sent["publish"] == 0


@pytest.mark.parametrize("key", ["validation.reject_share", "validation.delay_ms"])
def test_validation_and_requests_of_parts_exclude_each_other(key):
    with pytest.raises(ScenarioError, match=r"partial\.use = \"requests\" \(scenario\): not with \[validation\]"):
        scenario_of({**PARTS, key: 1})
    assert scenario_of({**PARTS, key: 1, "topics.0.partial.use": "none"}).validation.active


def test_the_same_run_has_the_same_trace():
    assert run(PARTS).trace_hash == run(PARTS).trace_hash
    assert run({**PARTS, "seed": 2}).trace_hash != run(PARTS).trace_hash


def test_eager_publishers_are_quicker():
    assert run({**PARTS, "topics.0.partial.eager": True}).latency_ms["p50"] < run(PARTS).latency_ms["p50"]


def test_a_node_that_lacks_one_part_is_sent_one_part():
    """Nodes have 15 of 16 parts from the start; the sent bytes are near a sixteenth of those of full messages."""
    full, parts = run(FULL), run(LACKING_ONE)
    assert parts.bytes_out["mean"] < full.bytes_out["mean"] / 8


def test_routers_without_partial_messages_get_full_ones():
    mixed = run({**PARTS, "population": [PLAIN]})
    assert mixed.sent["publish"] > 0
    assert mixed.sent["partial"] > 0


@pytest.mark.parametrize("to", ["by_requesters", "by_all"])
def test_supporters_alone_send_full_messages_and_no_parts(to):
    """Peers that only support parts get metadata only with `supporters_told = "by_all"` (PARTIAL-2)."""
    summary = run({**PARTS, "topics.0.partial.use": "supports", "router.supporters_told": to})
    assert summary.sent["publish"] >= summary.messages * (summary.nodes - 1)
    assert "partial" not in summary.sent
    assert ("metadata" in summary.sent) is (to == "by_all")


def test_a_node_that_asks_one_peer_for_a_part_gets_it_once():
    """A part is requested of another peer only if it does not arrive in time, and nothing is lost here."""
    asked_all, asked_one = run(LACKING_ONE), run({**LACKING_ONE, "topics.0.partial.asks": "one"})
    assert asked_one.sent["partial"] == asked_one.messages * (asked_one.nodes - 1)
    assert asked_one.bytes_out["mean"] < asked_all.bytes_out["mean"] / 2


def test_a_lost_part_is_requested_of_another_peer():
    """Every node gets every message although 5 % of all parts are lost and it asks one peer at a time for a part."""
    summary = run({**PARTS, "topics.0.partial.asks": "one", "loss.rate": 0.05, "linger_s": 20})
    assert summary.sent["partial"] > summary.messages * (summary.nodes - 1)


def test_the_script_publishes_messages_in_parts():
    run({**PARTS, "workload.publishers": "script"})


def test_nodes_that_return_get_messages_in_parts():
    summary = simulate(
        scenario_of({**PARTS, "faults.churn.away_share": 0.2, "faults.churn.mean_session_s": 5}),
        check=True,
    )
    assert summary.delivery_ratio > 0.8


def test_some_router_must_have_partial_messages():
    with pytest.raises(ScenarioError, match="no router has partial_messages"):
        scenario_of({**PARTS, "router.partial_messages": False})
    scenario_of({**PARTS, "router.partial_messages": False, "topics.0.partial.use": "none"})


def test_known_parts_must_not_exceed_parts():
    with pytest.raises(ScenarioError, match=r"topics.0.partial.known_parts.* must not be above parts \(16\)"):
        scenario_of({**PARTS, "topics.0.partial.known_parts": 17})


@pytest.mark.parametrize("asks", ["all", "one"])
def test_the_array_engine_has_the_same_trace(asks):
    scenario = scenario_of({**PARTS, "topics.0.partial.asks": asks, "loss.rate": 0.05, "population": [PLAIN]})
    on_array = simulate(scenario, check=True, engine="array")
    assert on_array.trace_hash == simulate(scenario, engine="reference").trace_hash


def test_a_node_that_does_not_return_to_a_topic_has_no_application_there():
    """It leaves the topic while it is down, and joins it later."""
    timed = [
        {"at_s": 3.5, "node": 0, "action": "leave", "topic": "topic"},
        {"at_s": 6, "node": 0, "action": "join", "topic": "topic"},
        {"at_s": 8, "node": 1, "action": "publish", "topic": "topic"},
    ]
    crash = [{"at_s": 3, "listed": [0], "rejoin_after_s": 1}]
    settings = {**PARTS, "warmup_s": 2, "timed": timed, "faults.crash": crash, "workload.messages": 0}
    simulate(scenario_of(settings), check=True)


def test_a_dump_has_keys_of_parts_only_if_they_are_used():
    assert "known_parts = 0" in dump_scenario(scenario_of(PARTS))
    assert "known_parts" not in dump_scenario(scenario_of(FULL))
