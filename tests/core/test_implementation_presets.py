"""Presets of implementations and networks have the numbers of their sources, in these versions.

go-libp2p-pubsub v0.19.0; libp2p-gossipsub 0.50.1; @libp2p/gossipsub 17.1.1; nim-libp2p 12f25f0af; jvm-libp2p
3d3d3d90; consensus-specs and Lotus of August 2026. `docs/routers/implementations.md` has the places in the sources.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.scores.declarations import decay_over
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.shell.parameters import ParameterError, preset_values

GO_GATER = GaterParameters(
    threshold=0.33,
    global_decay=decay_over(120, 0.01),
    source_decay=decay_over(3600, 0.01),
    decay_to_zero=0.01,
    duplicate_weight=0.125,
    ignore_weight=1.0,
    reject_weight=16.0,
)

GOSSIPSUB = ROUTERS["gossipsub"]
PAGE = Path(__file__).parents[2] / "docs/routers/implementations.md"
IMPLEMENTATIONS = ("go", "rust", "js", "nim", "jvm")


def preset(name, **given):
    _, values = preset_values(GOSSIPSUB.presets, name, given)
    made = GOSSIPSUB.parameters.from_mapping(values)
    assert isinstance(made, GossipsubParameters)
    return made


SHIPPED = {
    # D, low, high, score, out, lazy
    ("degree", "degree_low", "degree_high", "degree_score", "degree_out", "degree_lazy"): {
        "go": (6, 5, 12, 4, 2, 6),
        "rust": (6, 5, 12, 4, 2, 6),
        "js": (6, 4, 12, 4, 2, 6),
        "nim": (6, 4, 12, 4, 3, 6),
        "jvm": (6, 4, 12, 4, 3, 6),
    },
    ("history_length", "history_gossip", "gossip_factor", "fanout_ttl_ms"): dict.fromkeys(
        IMPLEMENTATIONS, (5, 3, 0.25, 60_000)
    ),
    ("heartbeat_interval_ms", "first_heartbeat_ms", "first_heartbeat_spread_ms", "seen_ttl_ms"): {
        "go": (1_000, 100, 0, 120_000),
        "rust": (1_000, 6_000, 0, 60_000),
        "js": (1_000, 100, 0, 120_000),
        "nim": (1_000, 0, 0, 120_000),
        "jvm": (1_000, 1_000, 0, 120_000),
    },
    ("flood_publish", "flood_publish_mbit", "short_mesh"): {
        "go": (False, 0, "mesh_only"),
        "rust": (True, 0, "top_up"),
        "js": (True, 0, "top_up"),
        "nim": (True, 100, "mesh_only"),
        "jvm": (False, 0, "top_up"),
    },
    ("prune_backoff_ms", "unsubscribe_backoff_ms", "backoff_slack_heartbeats", "graft_flood_ms"): {
        "go": (60_000, 10_000, 2, 10_000),
        "rust": (60_000, 10_000, 1, 10_000),
        "js": (60_000, 10_000, 1, 10_000),
        "nim": (60_000, 5_000, 2, 0),
        "jvm": (60_000, 60_000, 0, 0),
    },
    ("early_graft_ms", "early_graft_penalty", "max_backoff_ms"): {
        "go": (0, 1, 3_600_000),
        "rust": (0, 1, 3_600_000),
        "js": (0, 1, 3_600_000),
        "nim": (4_000, 0.1, 86_400_000),
        "jvm": (0, 1, 3_600_000),
    },
    ("iwant_answers_per_id", "max_ihave_messages", "max_iwant_messages", "max_ids_per_ihave", "max_ids_asked"): {
        "go": (3, 10, 0, 5_000, 0),
        "rust": (3, 10, 0, 5_000, 0),
        "js": (3, 10, 10, 5_000, 0),
        "nim": (1, 0, 0, 5_000, 10),
        "jvm": (3, 10, 0, 5_000, 0),
    },
    ("iwant_followup_ms", "tracked_promises", "ask_again_heartbeats"): {
        "go": (3_000, "one", 0),
        "rust": (3_000, "all", 4),
        "js": (3_000, "one", 0),
        "nim": (3_000, "none", 0),
        "jvm": (3_000, "one", 0),
    },
    ("idontwant_threshold_bytes", "idontwant_ttl_heartbeats", "idontwant_on_publish", "heeds_idontwant"): {
        "go": (1_024, 3, True, True),
        "rust": (1_000, 4, False, True),
        "js": (512, 5, False, True),
        "nim": (513, 5, False, True),
        "jvm": (16_384, 3, True, True),
    },
    ("max_ids_per_idontwant", "max_idontwants", "max_idontwant_ids", "skip_senders", "withdraw_unwanted"): {
        "go": (10, 1_000, 0, False, False),
        "rust": (10_000, 1_000_000, 0, True, True),
        "js": (1_000_000, 1_000_000, 512, False, False),
        "nim": (1_000_000, 1_000_000, 1_000, True, False),
        "jvm": (1_000_000, 1_000_000, 50_000, False, False),
    },
    ("opportunistic_graft_ticks", "opportunistic_graft_peers", "median", "opportunity_choice"): {
        "go": (60, 2, "upper", "drawn_above"),
        "rust": (60, 2, "mean", "drawn_above"),
        "js": (60, 2, "upper", "drawn_above"),
        "nim": (1, 2, "lower", "first_from"),
        "jvm": (60, 2, "mean", "first_above"),
    },
    ("graft_choice", "graft_on_subscribe", "unsubscribed_graft", "member_graft_is_judged"): {
        "go": ("random", False, "taken_in", False),
        "rust": ("random", True, "ignore", False),
        "js": ("random", True, "taken_in", False),
        "nim": ("best", True, "taken_in", False),
        "jvm": ("random", False, "taken_in", True),
    },
    ("backoff_on_unsubscribe", "backoff_when_not_joined", "exchange_always", "mesh_before_gossip"): {
        "go": (False, False, False, False),
        "rust": (True, False, False, False),
        "js": (False, False, False, False),
        "nim": (True, False, False, False),
        "jvm": (False, True, True, True),
    },
    ("asked_peer_must_send", "ihave_parts_count", "ihave_ids_of_rpc"): {
        "go": (False, False, False),
        "rust": (False, False, False),
        "js": (False, False, True),
        "nim": (False, False, False),
        "jvm": (True, True, False),
    },
    ("prune_trigger", "full_mesh", "outbound_when_full", "outbound_repair", "unwelcome_graft"): {
        "go": ("at_high", "refuse", "always", "to_degree_out", "prune"),
        "rust": ("at_high", "refuse", "always", "to_degree_out", "prune"),
        "js": ("above_high", "refuse", "always", "to_degree", "prune"),
        "nim": ("above_high", "refuse", "quota", "to_degree_out", "taken_in"),
        "jvm": ("above_high", "refuse", "always", "to_degree_out", "prune"),
    },
    ("direct_connect_ticks", "direct_graft", "graylisted_subscriptions"): {
        "go": (300, "prune", True),
        "rust": (300, "ignore", True),
        "js": (300, "prune", False),
        "nim": (60, "penalise", True),
        "jvm": (0, "prune", True),
    },
    ("exchange_peers", "accept_exchange", "exchange_dials"): {
        "go": (0, True, 16),
        "rust": (0, False, 0),
        "js": (0, True, 16),
        "nim": (0, False, 0),
        "jvm": (16, False, 0),
    },
    ("extensions", "late_extensions", "partial_group_heartbeats", "supporters_told"): {
        "go": (True, "penalise", 3, "by_requesters"),
        "rust": (True, "ignore", 5, "by_all"),
        "js": (False, "penalise", 3, "by_requesters"),
        "nim": (True, "penalise", 3, "by_requesters"),
        "jvm": (True, "penalise", 3, "by_requesters"),
    },
    ("max_peer_groups", "max_groups_per_peer", "max_metadata_bytes"): {
        "go": (255, 8, 1_000_000),
        "rust": (255, 8, 1_000),
        "js": (255, 8, 1_000),
        "nim": (1_000, 100, 1_000),
        "jvm": (255, 8, 1_000),
    },
    ("max_subscriptions_per_rpc", "max_subscriptions_per_peer"): {
        "go": (0, 20_000),
        "rust": (100, 100),
        "js": (0, 1_000),
        "nim": (0, 1_024),
        "jvm": (0, 20_000),
    },
}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("fields", SHIPPED, ids=lambda fields: fields[0])
def test_a_preset_has_the_values_of_its_implementation(fields, name):
    made = preset(name)
    assert tuple(getattr(made, field) for field in fields) == SHIPPED[fields][name]


@pytest.mark.parametrize(
    ("name", "thresholds", "misbehaviour", "addresses", "slow", "topic_cap", "application", "retained_s"),
    [
        ("rust", (-10, -50, -80, 10, 20), (-10, 0, 0.2), (-5, 10), (-0.2, 0.2), 3_600, 10, 3_600),
        ("js", (-10, -50, -80, 10, 20), (-10, 0, 0.2), (-5, 10), (0, 0), 10, 10, 3_600),
        ("nim", (-100, -1_000, -10_000, 0, 0), (-1, 0, 0.999), (0, 1), (0, 0.2), 0, 0, 120),
        ("jvm", (0, 0, 0, 0, 0), (0, 1, 0.9), (0, 0), (0, 0), 0, 0, 600),
    ],
)
def test_a_preset_has_the_scores_of_its_implementation(
    name, thresholds, misbehaviour, addresses, slow, topic_cap, application, retained_s
):
    score = preset(name).score
    peer = score.peer
    assert tuple(score.thresholds.to_mapping().values()) == thresholds
    assert (peer.misbehaviour_weight, peer.misbehaviour_threshold, peer.misbehaviour_decay) == misbehaviour
    assert (peer.shared_address_weight, peer.shared_address_threshold) == addresses
    assert (peer.slow_peer_weight, peer.slow_peer_decay) == slow
    assert (peer.topic_cap, peer.application_weight, peer.retain_ms / 1000) == (topic_cap, application, retained_s)


@pytest.mark.parametrize(
    ("name", "quanta", "zero"),
    [("rust", "fraction", 0.1), ("js", "fraction", 0.1), ("nim", "fraction", 0.01), ("jvm", "fraction", 5e-324)],
)
def test_time_in_a_mesh_and_the_zero_of_counters(name, quanta, zero):
    peer = preset(name).score.peer
    assert (peer.time_in_mesh_quanta, peer.decay_to_zero) == (quanta, zero)


def test_no_implementation_scores_topics_by_default():
    assert preset("go").score is None
    assert [dict(preset(name).score.topics) for name in IMPLEMENTATIONS[1:]] == [{}] * 4


def test_the_page_locates_each_difference_in_the_sources():
    """Each parameter in which presets differ has a row with file and line, or a dash, for each implementation."""
    text = PAGE.read_text(encoding="utf-8")
    made = text.partition("<!-- made: presets -->")[2].partition("<!-- end -->")[0]
    placed = text.partition("### Where it stands")[2].partition("The default scores")[0]
    rows = [line for line in placed.splitlines() if line.startswith("|`")]
    found = {name for row in rows for name in re.findall("`([a-z_]+)`", row)}
    assert set(re.findall(r"^\|`([a-z_]+)`", made, re.MULTILINE)) <= found
    assert found <= set(GossipsubParameters.names())
    assert all(re.fullmatch(r"\|[^|]+(\|(—|[\w.]*( ?\d+,?)+([\w., ]*\d+)?)){5}\|", row) for row in rows)


@pytest.mark.parametrize("name", ["ethereum", "ethereum-prysm"])
def test_ethereums_mesh_is_that_of_the_consensus_specifications(name):
    made = preset(name)
    assert (made.degree, made.degree_low, made.degree_high, made.degree_lazy) == (8, 6, 12, 6)
    assert (made.heartbeat_interval_ms, made.fanout_ttl_ms, made.seen_ttl_ms) == (700, 60_000, 768_000)
    assert (made.history_length, made.history_gossip, made.flood_publish) == (6, 3, False)


def test_ethereum_is_lighthouse_on_rust_and_prysm_on_go():
    lighthouse, prysm = preset("ethereum"), preset("ethereum-prysm")
    heartbeat_ms = lighthouse.heartbeat_interval_ms
    clocks = (lighthouse.ask_again_heartbeats, lighthouse.idontwant_ttl_heartbeats)
    assert all(3_000 <= beats * heartbeat_ms < 3_000 + heartbeat_ms for beats in clocks)
    assert (lighthouse.unsubscribed_graft, prysm.unsubscribed_graft) == ("ignore", "taken_in")
    assert (lighthouse.score.peer.shared_address_threshold, prysm.score.peer.shared_address_threshold) == (8, 10)
    assert [score.topics["beacon_block"].mesh_deliveries_weight for score in (lighthouse.score, prysm.score)] == [
        -0.5,
        0,
    ]


@pytest.mark.parametrize(("validators", "first_cap"), [(51_000, 46.4472), (1_000_000, 910.73)])
def test_ethereums_scores_are_made_from_the_number_of_validators(validators, first_cap):
    made = preset("ethereum", validators=validators).score
    assert made.topics["beacon_attestation"].first_deliveries_cap == pytest.approx(first_cap, rel=5e-6)
    assert preset("ethereum") == preset("ethereum", validators=1_000_000)


def test_filecoin():
    made, bootstrap = preset("filecoin"), preset("filecoin-bootstrap")
    mesh = (made.degree, made.degree_low, made.degree_high, made.degree_score, made.degree_out, made.degree_lazy)
    assert mesh == (8, 6, 12, 6, 3, 12)
    assert (made.history_length, made.gossip_factor, made.iwant_followup_ms, made.flood_publish) == (
        10,
        0.1,
        5_000,
        True,
    )
    assert made.gater == GO_GATER
    assert made.score.of_topic("/fil/msgs/testnetnet").first_deliveries_weight == 0.5
    assert (bootstrap.degree, bootstrap.degree_high, bootstrap.degree_lazy, bootstrap.gossip_factor) == (
        0,
        0,
        64,
        0.25,
    )
    assert (bootstrap.prune_backoff_ms, bootstrap.exchange_peers) == (300_000, 16)
    assert bootstrap.gater == replace(GO_GATER, source_decay=decay_over(600, 0.01))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("go", {"validators": 5_000}, "validators = 5000: is for the presets ethereum, ethereum-prysm"),
        ("ethereum", {"validators": 5}, "validators = 5: must be an integer in 2048…100000000"),
        ("ethereum", {"validators": "many"}, "validators = 'many': must be an integer in 2048…100000000"),
        ("ethereum-prysm", {"validators": True}, "validators = True: must be an integer in 2048…100000000"),
    ],
)
def test_invalid_arguments_of_presets_are_refused(name, given, message):
    with pytest.raises(ParameterError) as refusal:
        preset(name, **given)
    assert str(refusal.value) == message
