"""RPCs that go, rust, js, nim and jvm handle alike, and that a router with scores handles as they do."""

from __future__ import annotations

from judged import SECOND, TOPIC, Judge, dialled, message, receivers, score, sent, ways

from hearsay.core.language.actions import Via
from hearsay.core.language.events import Join, Leave, TopicScored, Verdict
from hearsay.core.language.rpc import Graft, IHave, IWant, PeerInfo, Prune
from hearsay.core.scores.score_parameters import TopicScoreParameters

INVALID = {"invalid_messages_weight": -1}
DEFICIT = {
    "mesh_deliveries_weight": -0.001,
    "mesh_deliveries_decay": 0.999,
    "mesh_deliveries_cap": 100,
    "mesh_deliveries_threshold": 20,
    "mesh_deliveries_window_ms": 10,
    "mesh_deliveries_activation_ms": 1_000,
    "mesh_failure_weight": -1,
    "mesh_failure_decay": 0.999,
}


def test_a_copy_of_a_throttled_message_is_judged_again():
    """Rules: DELIVERY-9."""
    judge = Judge(score=score(INVALID), validate=True, max_pending_validations=1)
    judge.connect("busy", "early", "first", "copy")
    judge.say("busy", message("m0"))
    judge.say("early", message("m1"))
    judge.verdict("m0", Verdict.ACCEPT)
    judge.say("first", message("m1"))
    judge.say("copy", message("m1"))
    judge.verdict("m1", Verdict.REJECT)
    assert [judge.score(peer) for peer in ("early", "first", "copy")] == [0, -1, -1]


def test_a_flooded_message_is_not_announced_to_those_who_have_it():
    """Rules: JUDGE-3."""
    judge = Judge(joined=(), score=score(), flood_publish=True, degree=2, degree_low=2, degree_out=0)
    judge.connect(*"abcdefgh")
    assert ways(judge.publish("m1")) == dict.fromkeys("abcdefgh", Via.FLOOD_PUBLISH)
    assert receivers(judge.beat(3), IHave) == []
    assert list(judge.strategy.fanout_topics()) == []


def test_names_in_a_prune_are_judged_by_the_score_before_it():
    """Rules: THRESHOLD-5. Leaving the mesh costs the peer its deficit, and that comes after."""
    judge = Judge(score=score(DEFICIT), exchange_peers=16, accept_exchange=True, first_heartbeat_ms=100_000)
    judge.connect("p")
    judge.rate(10, "p")
    judge.graft("p")
    judge.wait(3 * SECOND)
    assert judge.score("p") > 0
    actions = judge.say("p", Prune(TOPIC, 60, (PeerInfo("x"),)))
    assert judge.score("p") < 0
    assert dialled(actions) == ["x"]


def test_all_grafts_of_an_rpc_are_judged_by_the_score_before_them():
    """Rules: GRAFT-9."""
    penalty = {"misbehaviour_weight": -10, "misbehaviour_decay": 0.9}
    judge = Judge(joined=(TOPIC, "u"), score=score(**penalty), first_heartbeat_ms=100_000)
    judge.connect("p", topics=(TOPIC, "u"))
    judge.say("p", Prune(TOPIC, 60))
    judge.say("p", Graft(TOPIC), Graft("u"))
    assert judge.score("p") < 0
    assert (judge.mesh(TOPIC), judge.mesh("u")) == ([], ["p"])
    judge.say("p", Prune("u", 60))
    judge.now += 61 * SECOND
    judge.say("p", Graft("u"))
    assert judge.mesh("u") == []


def test_too_many_announced_ids_are_asked_for_by_chance():
    """Rules: GOSSIP-8."""
    asked = []
    for seed in range(8):
        judge = Judge(score=score(), seed=seed, max_ids_asked=3)
        judge.connect("p")
        ((_, iwant),) = sent(judge.say("p", IHave(TOPIC, tuple(f"m{number}" for number in range(30)))), IWant)
        assert len(set(iwant.ids)) == 3
        asked.append(iwant.ids)
    assert len({message_id for ids in asked for message_id in ids}) > 10


def test_the_score_parameters_of_the_application_outlast_a_join():
    judge = Judge(score=score(INVALID))
    parameters = TopicScoreParameters.from_mapping(
        {"validation": "selective", "topic_weight": 5, "time_in_mesh_quantum_ms": 1_000,
         "invalid_messages_weight": -1, "invalid_messages_decay": 0.99}
    )  # fmt: skip
    judge.feed(TopicScored(TOPIC, parameters))
    judge.feed(Leave(TOPIC))
    judge.feed(Join(TOPIC))
    judge.connect("p")
    judge.strategy.standing.feedback("p", TOPIC, useful=False)
    assert judge.score("p") == -5
