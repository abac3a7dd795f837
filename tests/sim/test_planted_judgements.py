"""The checker finds planted faults in routers with scores."""

from __future__ import annotations

import pytest
from test_planted_faults import assert_reported, problems

from hearsay.core.language.rpc import PeerInfo
from hearsay.core.mesh import mesh, meshsub, standing
from hearsay.core.mesh.graft_bounds import Backoffs
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules import deliveries
from hearsay.core.scores import promises
from hearsay.core.scores.named_sets import named_set
from hearsay.core.scores.promises import IwantPromises
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.text import value_text

SCORED = {
    "router__preset": "hardening",
    "router__backoff_until_forgotten": "false",
    "router__score__application_weight": 1,
    "linger_s": 5,
}
"""A backoff that has ended allows GRAFTs before its removal. Waiting for the removal would hide early GRAFTs."""

SMALL = {
    "router__degree": 2,
    "router__degree_low": 2,
    "router__degree_high": 2,
    "router__degree_score": 0,
    "router__degree_out": 0,
}
PROMISED = {**SCORED, **SMALL, "loss__rate": 0.8, "workload__messages": 40, "workload__interval_s": 0.05}
"""Many copies are lost, so routers send many IWANTs, and many answers are late or lost."""


def rated(rating: int) -> dict[str, object]:
    return {**SCORED, "ratings": f"[{{rating = {rating}, share = 0.3}}]"}


def rejoining(unsubscribe_backoff_ms: int) -> dict[str, object]:
    """Return keys with which a node leaves its topic and rejoins a second later. The meshes of all other nodes lack
    members then.
    """
    timed = {f"timed__{n}__{key}": value for n, action in enumerate(("leave", "join")) for key, value in
             {"at_s": 6 + n, "node": 3, "action": action, "topic": "topic"}.items()}  # fmt: skip
    backoffs = {"router__prune_backoff_ms": 3_000, "router__unsubscribe_backoff_ms": unsubscribe_backoff_ms}
    return {**SCORED, **timed, **backoffs, "network__nodes": 6, "linger_s": 12}


@pytest.mark.parametrize("keys", [SCORED, PROMISED, rejoining(8_000), rated(-1), rated(-4_500), rated(-20_000)])
def test_a_sound_router_is_not_accused(keys):
    """Rules: KEEP-1, KEEP-4, THRESHOLD-1, THRESHOLD-2, THRESHOLD-3."""
    assert problems(**keys) == ()


RUST = named_set("rust").to_mapping()
RUST["topics"] = [{**RUST["topics"][0], "topic": "any"}]
DELIVERIES = {"mesh_deliveries_weight": -1, "mesh_deliveries_decay": 0.5, "mesh_deliveries_cap": 100,
              "mesh_deliveries_threshold": 20, "mesh_deliveries_window_ms": 10,
              "mesh_deliveries_activation_ms": 5_000}  # fmt: skip
TOPIC = {"topic": "any", "topic_weight": 0.5, "time_in_mesh_quantum_ms": 1, "invalid_messages_decay": 0.3}
FEW = {"decay_interval_ms": 1_000, "decay_to_zero": 0.1, "retain_ms": 3_600_000, "thresholds": RUST["thresholds"]}


@pytest.mark.parametrize(("seed", "score"), [(2549, RUST), (17, {**FEW, "topics": [TOPIC | DELIVERIES]})])
def test_a_link_may_be_one_sided_after_a_graylist_dropped_a_graft_or_a_prune(seed, score, tmp_path):
    """Seed 2549: node 1 drops the GRAFT of node 14, whose score is good again at the end. Seed 17: a PRUNE."""
    file = tmp_path / "scenario.toml"
    file.write_text(f"""
seed = {seed}
warmup_s = 3
linger_s = 12
network = {{ nodes = 20, degree = 1 }}
workload = {{ messages = 20, interval_s = 0.05 }}
faults = {{ detection_s = 0.001, churn = {{ away_share = 0.3, mean_session_s = 10, goodbye = true }} }}
[router]
kind = "gossipsub"
preset = "go"
degree = 2
degree_low = 2
degree_high = 3
degree_score = 1
degree_out = 1
unsubscribe_backoff_ms = 1000
iwant_followup_ms = 200
score = {value_text(score)}
""")
    assert Simulation(load_scenario(file), check=True).run().problems == ()


def test_a_mesh_need_not_graft_a_peer_whose_backoff_is_not_removed_yet(tmp_path):
    """Rules: BACKOFF-2. With the preset `go` an expired backoff forbids a GRAFT until it is removed."""
    file = tmp_path / "scenario.toml"
    file.write_text(f"""
seed = 0
warmup_s = 3
linger_s = 5
network = {{ nodes = 17, degree = 1 }}
workload = {{ messages = 0 }}
faults = {{ detection_s = 0.001 }}
[router]
kind = "gossipsub"
preset = "go"
prune_backoff_ms = 1000
unsubscribe_backoff_ms = 1000
degree = 2
degree_low = 2
degree_high = 3
degree_score = 1
degree_out = 1
score = {value_text({**FEW, "topics": [TOPIC | DELIVERIES]})}
""")
    assert Simulation(load_scenario(file), check=True).run().problems == ()


def test_keeps_members_with_a_negative_score(monkeypatch):
    """Rules: KEEP-1."""
    monkeypatch.setattr(Standing, "is_welcome", lambda self, peer: True)
    monkeypatch.setattr(Standing, "may_be_in_mesh", lambda self, peer: True)
    assert_reported("mesh of 'topic' holds .*, which has the score -1", problems(**rated(-1)))


def test_meshes_with_a_direct_peer(monkeypatch):
    """Rules: STANDING-1."""
    monkeypatch.setattr(Standing, "may_be_in_mesh", lambda self, peer: True)
    monkeypatch.setattr(Mesh, "prune_everywhere", lambda self, peer: None)
    keys = {**SCORED, "router__direct_peers": "[[0, 1], [2, 3], [4, 5]]", "network__topology": "complete"}
    assert_reported("which is direct", problems(**keys, network__nodes=8))


def test_has_no_dialled_peers(monkeypatch):
    """Rules: KEEP-4."""
    monkeypatch.setattr(meshsub, "dialled_to_graft", lambda *_: 0)
    assert_reported("dialled peers, and could have", problems(**SCORED))


def test_gossips_with_peers_below_the_threshold(monkeypatch):
    """Rules: JUDGE-2."""
    monkeypatch.setattr(Standing, "may_gossip", lambda self, peer: True)
    assert_reported("gossip with .*, whose score -4500.0 is below -4000", problems(**rated(-4_500)))


def test_publishes_to_peers_below_the_threshold(monkeypatch):
    """Rules: JUDGE-3."""
    monkeypatch.setattr(Standing, "gets_published", lambda self, peer: True)
    found = problems(**rated(-6_000), workload__publishers="any")
    assert_reported("message beyond the mesh to .*, whose score -6000.0 is below -5000", found)


def test_accepts_the_graylisted(monkeypatch):
    """Rules: JUDGE-1, THRESHOLD-4."""
    monkeypatch.setattr(Standing, "accepts_from", lambda self, peer: True)
    found = problems(**rated(-20_000), workload__publishers="subscribers")
    assert_reported("Send for an RPC of .*, which is graylisted", found)


def test_accepts_a_graft_of_a_peer_with_a_negative_score(monkeypatch):
    """Rules: GRAFT-9, THRESHOLD-1."""
    monkeypatch.setattr(Standing, "is_welcome", lambda self, peer: True)
    assert_reported("accepts .*, whose score is -1", problems(**rated(-1)))


def test_names_peers_with_a_negative_score_in_a_prune(monkeypatch):
    """Rules: THRESHOLD-1."""
    sound = Standing.among

    def with_unwelcome_peers(self, peers, fits):
        return peers if fits == self.is_welcome else sound(self, peers, fits)

    monkeypatch.setattr(Standing, "among", with_unwelcome_peers)
    found = problems(**rated(-1), router__exchange_peers=16, network__degree=12)
    assert_reported("PRUNE names .*, whose score is -1", found)


def test_names_peers_in_a_prune_to_a_peer_with_a_negative_score(monkeypatch):
    """Rules: KEEP-1, GRAFT-9."""
    sound = Mesh.send_prune

    def with_names(self, peer, topic, backoff_ms, others=()):
        sound(self, peer, topic, backoff_ms, others or (PeerInfo(9),))

    monkeypatch.setattr(Mesh, "send_prune", with_names)
    keys = {**SCORED, "ratings": "[{rating = -1, share = 0.3, by = [0, 1, 2]}]"}
    assert_reported("PRUNE with names to .*, whose score -1.0 is below 0", problems(**keys))


def test_grafts_before_a_received_backoff_is_over(monkeypatch):
    """Rules: BACKOFF-2, BACKOFF-4."""
    monkeypatch.setattr(mesh, "received_backoff", lambda names_a_time, seconds, own, most: own)
    assert_reported("GRAFT to 3, .* us before the backoff in 'topic' is over", problems(**rejoining(8_000)))


def test_accepts_a_graft_before_a_backoff_is_over(monkeypatch):
    """Rules: GRAFT-5."""
    monkeypatch.setattr(Backoffs, "forbids_graft", lambda *_: False)
    monkeypatch.setattr(Backoffs, "holds", lambda *_: False)
    assert_reported("accepts .* us before the backoff in 'topic' is over", problems(**SCORED, **SMALL))


def test_tracks_more_than_one_promise_of_an_iwant(monkeypatch):
    """Rules: PROMISE-1."""
    sound = IwantPromises.ask

    def for_each(self, peer, ids, now, draw):
        for message_id in ids:
            sound(self, peer, [message_id], now, draw)

    monkeypatch.setattr(IwantPromises, "ask", for_each)
    assert_reported(r"awaits \d+ messages of .* after 1 IWANT", problems(**PROMISED))


def test_tracks_promises_of_messages_that_have_arrived(monkeypatch):
    """Rules: PROMISE-2."""
    monkeypatch.setattr(IwantPromises, "keep", lambda *_: None)
    assert_reported("awaits message .*, which has arrived", problems(**PROMISED))


def test_tracks_promises_after_their_time(monkeypatch):
    """Rules: PROMISE-3."""
    monkeypatch.setattr(IwantPromises, "take_broken", lambda *_: ())
    assert_reported("awaits message .*, whose time ended", problems(**PROMISED))


def test_tracks_more_promises_than_allowed(monkeypatch):
    """Rules: PROMISE-5."""
    for module in (promises, standing):
        monkeypatch.setattr(module, "MAX_PROMISES", 2)
        monkeypatch.setattr(module, "MAX_PROMISES_OF_PEER", 1)
    assert problems(**PROMISED) == ()
    monkeypatch.setattr(deliveries, "has_room", lambda *_: True)
    found = problems(**PROMISED)
    assert_reported(r"awaits \d messages, above 2", found)
    assert_reported(r"awaits \d messages of one peer, above 1", found)
