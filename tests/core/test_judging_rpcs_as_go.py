"""Cases in which go, rust, js, nim and jvm handle RPCs alike; a router with scores does the same."""

from __future__ import annotations

from router_driver import SECOND, TOPIC, RouterDriver, dialled, message, receivers, score_table, sent, ways

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


def test_a_copy_of_a_throttled_message_is_validated():
    """Rules: DELIVERY-9."""
    driver = RouterDriver(score=score_table(INVALID), validate=True, max_pending_validations=1)
    driver.connect("busy", "early", "first", "copy")
    driver.receive("busy", message("m0"))
    driver.receive("early", message("m1"))
    driver.verdict("m0", Verdict.ACCEPT)
    driver.receive("first", message("m1"))
    driver.receive("copy", message("m1"))
    driver.verdict("m1", Verdict.REJECT)
    assert [driver.score(peer) for peer in ("early", "first", "copy")] == [0, -1, -1]


def test_a_flooded_message_is_not_announced_to_its_receivers():
    """Rules: JUDGE-3."""
    driver = RouterDriver(joined=(), score=score_table(), flood_publish=True, degree=2, degree_low=2, degree_out=0)
    driver.connect(*"abcdefgh")
    assert ways(driver.publish("m1")) == dict.fromkeys("abcdefgh", Via.FLOOD_PUBLISH)
    assert receivers(driver.beat(3), IHave) == []
    assert list(driver.strategy.fanout_topics()) == []


def test_dials_after_a_prune_depend_on_the_score_before_it():
    """Rules: THRESHOLD-5. The PRUNE lowers the score by the deficit (P3b), but only afterwards."""
    driver = RouterDriver(
        score=score_table(DEFICIT), exchange_peers=16, accept_exchange=True, first_heartbeat_ms=100_000
    )
    driver.connect("p")
    driver.rate(10, "p")
    driver.graft("p")
    driver.wait(3 * SECOND)
    assert driver.score("p") > 0
    actions = driver.receive("p", Prune(TOPIC, 60, (PeerInfo("x"),)))
    assert driver.score("p") < 0
    assert dialled(actions) == ["x"]


def test_answers_to_grafts_depend_on_the_score_before_their_rpc():
    """Rules: GRAFT-9."""
    penalty = {"misbehaviour_weight": -10, "misbehaviour_decay": 0.9}
    driver = RouterDriver(joined=(TOPIC, "u"), score=score_table(**penalty), first_heartbeat_ms=100_000)
    driver.connect("p", topics=(TOPIC, "u"))
    driver.receive("p", Prune(TOPIC, 60))
    driver.receive("p", Graft(TOPIC), Graft("u"))
    assert driver.score("p") < 0
    assert (driver.mesh(TOPIC), driver.mesh("u")) == ([], ["p"])
    driver.receive("p", Prune("u", 60))
    driver.now += 61 * SECOND
    driver.receive("p", Graft("u"))
    assert driver.mesh("u") == []


def test_requested_ids_are_drawn_if_too_many_are_announced():
    """Rules: GOSSIP-8."""
    asked = []
    for seed in range(8):
        driver = RouterDriver(score=score_table(), seed=seed, max_ids_asked=3)
        driver.connect("p")
        ((_, iwant),) = sent(driver.receive("p", IHave(TOPIC, tuple(f"m{number}" for number in range(30)))), IWant)
        assert len(set(iwant.ids)) == 3
        asked.append(iwant.ids)
    assert len({message_id for ids in asked for message_id in ids}) > 10


def test_the_score_parameters_of_the_application_outlast_a_join():
    driver = RouterDriver(score=score_table(INVALID))
    parameters = TopicScoreParameters.from_mapping(
        {"validation": "selective", "topic_weight": 5, "time_in_mesh_quantum_ms": 1_000,
         "invalid_messages_weight": -1, "invalid_messages_decay": 0.99}
    )  # fmt: skip
    driver.feed(TopicScored(TOPIC, parameters))
    driver.feed(Leave(TOPIC))
    driver.feed(Join(TOPIC))
    driver.connect("p")
    driver.strategy.standing.feedback("p", TOPIC, useful=False)
    assert driver.score("p") == -5
