"""When a router counts deliveries and offences for scores: validation, heartbeats, refreshes, connections."""

from __future__ import annotations

import pytest
from router_driver import MS, SECOND, TOPIC, RouterDriver, message, receivers, score_table

from hearsay.core.language.events import Join, Leave, Publish, SendFailed, TimerFired, Verdict
from hearsay.core.language.rpc import Graft, IHave, Message, Prune, Rpc, Subscription

MESH_DELIVERIES = {
    "mesh_deliveries_weight": -1,
    "mesh_deliveries_decay": 0.999,
    "mesh_deliveries_cap": 100,
    "mesh_deliveries_threshold": 20,
    "mesh_deliveries_window_ms": 10,
    "mesh_deliveries_activation_ms": 1_000,
}
FIRST = {"first_deliveries_weight": 1, "first_deliveries_decay": 0.9, "first_deliveries_cap": 100}
INVALID = {"invalid_messages_weight": -1}
GO_AFTER_PRUNE = {"deficit_after_prune": True, "second_prune_counts": True}


def topic_parts(driver, peer, topic=TOPIC):
    """Return the parts of a peer's score in a topic."""
    return dict(dict(driver.strategy.scores())[peer].topics).get(topic)


def test_near_first_copies_count_for_members():
    """Rules: DELIVERY-1, DELIVERY-2, DELIVERY-3. All copies before the verdict count, and copies within ten
    milliseconds after it. Later copies and second copies do not count, nor do those of a peer outside the mesh."""
    driver = RouterDriver(score=score_table({**MESH_DELIVERIES, **FIRST}), validate=True, first_heartbeat_ms=100_000)
    driver.connect("first", "during", "soon", "late", "outside")
    driver.graft("first", "during", "soon", "late")
    driver.wait(2 * SECOND)
    for number in range(20):
        driver.receive("first", message(f"m{number}"))
        driver.now += 500 * MS
        driver.receive("during", message(f"m{number}"))
        driver.receive("outside", message(f"m{number}"))
        driver.now += 500 * MS
        driver.verdict(f"m{number}", Verdict.ACCEPT)
        driver.now += 10 * MS
        driver.receive("soon", message(f"m{number}"))
        driver.receive("soon", message(f"m{number}"))
        driver.now += 1
        driver.receive("late", message(f"m{number}"))
    found = {peer: topic_parts(driver, peer).mesh_deliveries for peer in ("first", "during", "soon", "late")}
    assert found == {"first": 0, "during": 0, "soon": 0, "late": -400}
    assert topic_parts(driver, "first").first_deliveries == 20
    assert (topic_parts(driver, "outside").mesh_deliveries, topic_parts(driver, "outside").first_deliveries) == (0, 0)


def test_all_senders_of_an_invalid_message_are_blamed_before_or_after_the_verdict():
    """Rules: DELIVERY-4."""
    driver = RouterDriver(score=score_table(INVALID), validate=True)
    driver.connect("first", "during", "later", "other")
    driver.receive("first", message("m1"))
    driver.receive("during", message("m1"))
    assert [driver.score(peer) for peer in ("first", "during")] == [0, 0]
    driver.verdict("m1", Verdict.REJECT)
    driver.receive("later", message("m1"))
    assert [driver.score(peer) for peer in ("first", "during", "later", "other")] == [-1, -1, -1, 0]


@pytest.mark.parametrize("verdict", [Verdict.IGNORE, Verdict.ACCEPT])
def test_no_peer_is_blamed_for_ignored_or_accepted_messages(verdict):
    """Rules: DELIVERY-6."""
    driver = RouterDriver(score=score_table(INVALID), validate=True)
    driver.connect("first", "during", "later")
    driver.receive("first", message("m1"))
    driver.receive("during", message("m1"))
    driver.verdict("m1", verdict)
    driver.receive("later", message("m1"))
    assert [driver.score(peer) for peer in ("first", "during", "later")] == [0, 0, 0]


def test_no_peer_is_blamed_for_throttled_messages_or_topics_that_are_not_joined():
    """Rules: DELIVERY-6. One message is throttled, one topic is not joined, one is left before the verdict."""
    driver = RouterDriver(score=score_table({**INVALID, **FIRST}), validate=True, max_pending_validations=1)
    driver.connect("p", "q")
    driver.receive("p", message("m1"), message("m2"), message("m3", topic="elsewhere"))
    driver.receive("q", message("m2"))
    driver.feed(Leave(TOPIC))
    driver.verdict("m1", Verdict.ACCEPT)
    assert driver.score("p") == driver.score("q") == 0


def test_a_peer_that_sends_a_routers_own_message_back_is_blamed():
    """Rules: DELIVERY-5. As in go, this holds for remembered and for unknown ids. `q` sends no author."""
    driver = RouterDriver(score=score_table({**INVALID, **MESH_DELIVERIES}), first_heartbeat_ms=100_000)
    driver.connect("p", "q")
    driver.publish("m1")
    driver.receive("p", message("m1", source="me"))
    driver.receive("p", message("never-said", source="me"))
    driver.receive("q", Message("anonymous", TOPIC, b""))
    assert (driver.score("p"), driver.score("q")) == (-4, 0)


def test_a_copy_of_an_own_message_without_an_author_counts_as_a_delivery():
    driver = RouterDriver(
        score=score_table({**MESH_DELIVERIES, "mesh_deliveries_threshold": 1}), first_heartbeat_ms=100_000
    )
    driver.connect("p", "q")
    driver.graft("p", "q")
    driver.wait(2 * SECOND)
    driver.feed(Publish(Message("m1", TOPIC, b"")))
    driver.receive("p", Message("m1", TOPIC, b""))
    assert (driver.score("p"), driver.score("q")) == (0, -1)


@pytest.mark.parametrize(("validate", "expected"), [(False, 1), (True, 0)])
def test_first_deliveries_count_with_the_verdict(validate, expected):
    """Part of go's PeerScoreInspect: the first sender of a message has a higher score."""
    driver = RouterDriver(score=score_table(FIRST), validate=validate)
    driver.connect("p")
    driver.receive("p", message("m1"))
    assert driver.score("p") == expected
    if validate:
        driver.verdict("m1", Verdict.ACCEPT)
    assert driver.score("p") == 1


def test_ten_messages_are_worth_nine_at_least():
    """Go's PeerScoreInspect: two nodes send 20 messages in turn; the decay is 0.999."""
    driver = RouterDriver(score=score_table({**FIRST, "first_deliveries_decay": 0.999}))
    driver.connect("p", "q")
    for number in range(20):
        driver.receive("pq"[number % 2], message(f"m{number}"))
        driver.wait(100 * MS)
    assert driver.score("p") >= 9
    assert driver.score("q") >= 9


def test_an_application_score_counts_for_a_peer_that_connects_later_or_again():
    """P5."""
    driver = RouterDriver(score=score_table(application_weight=0.5))
    driver.rate(-30, "p")
    assert driver.score("p") == 0
    driver.connect("p")
    assert driver.score("p") == -15
    driver.disconnect("p")
    driver.connect("p")
    assert driver.score("p") == -15
    driver.rate(0, "p")
    assert driver.score("p") == 0


def test_peers_at_one_address_have_lower_scores():
    """P6. The router uses the address of the connection."""
    driver = RouterDriver(score=score_table(shared_address_weight=-1, shared_address_threshold=1))
    driver.connect("a", address="10.0.0.1")
    driver.connect("b", "c", "d", address="10.0.0.2")
    driver.connect("unknown", "unknown2")
    assert [driver.score(peer) for peer in ("a", "b", "c", "d", "unknown")] == [0, -4, -4, -4, 0]
    driver.disconnect("c")
    assert driver.score("b") == -1


def test_messages_that_could_not_be_sent_count_against_a_slow_peer():
    """Rules: SCORE-10. As in rust and nim."""
    driver = RouterDriver(score=score_table(slow_peer_weight=-1, slow_peer_threshold=1, slow_peer_decay=0.2))
    driver.connect("p")
    driver.feed(SendFailed("p", Rpc((), (message("m1"), message("m2"), message("m3")))))
    driver.feed(SendFailed("gone", Rpc((), (message("m1"),))))
    assert driver.score("p") == -2


def test_a_refresh_precedes_a_heartbeat_of_the_same_microsecond():
    """Rules: STANDING-3. The heartbeat reads the decayed score."""
    driver = RouterDriver(
        score=score_table(misbehaviour_weight=-1, misbehaviour_threshold=2, misbehaviour_decay=0.5),
        first_heartbeat_ms=1_000,
    )
    driver.connect("p")
    driver.graft("p")
    driver.strategy.standing.penalise("p", 3.0)
    assert driver.score("p") == -1
    assert receivers(driver.run(SECOND), Prune) == []
    assert driver.mesh() == ["p"]


def test_a_heartbeat_reads_each_score_once():
    """Rules: STANDING-2. A PRUNE in `a` lowers the score (P3b). In `b` the lower score has an effect from the next
    heartbeat on."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    sizes = {"degree": 1, "degree_low": 1, "degree_high": 6, "degree_score": 0, "degree_out": 0}
    driver = RouterDriver(
        joined=("a", "b"),
        score=score_table({"topic": "a", **failing}),
        full_mesh="accept",
        first_heartbeat_ms=5_000,
        **sizes,
    )
    peers = [f"p{number}" for number in range(7)]
    driver.connect(*peers, topics=("a", "b"))
    for peer in peers:
        driver.receive(peer, Graft("a"))
    for peer in peers[:5]:
        driver.receive(peer, Graft("b"))
    driver.run(5 * SECOND)
    [stayed] = driver.mesh("a")
    assert driver.mesh("b") == peers[:5]
    assert {driver.score(peer) for peer in peers if peer != stayed} == {-400}
    driver.beat()
    assert set(driver.mesh("b")) <= {stayed}


def test_broken_promises_count_before_a_heartbeat_maintains_meshes():
    """Rules: PROMISE-3. The heartbeat that counts a broken promise prunes the peer."""
    driver = RouterDriver(score=score_table(misbehaviour_weight=-1, misbehaviour_decay=0.5, decay_interval_ms=60_000))
    driver.connect("p", "q")
    driver.graft("p", "q")
    driver.beat()
    driver.receive("p", IHave(TOPIC, ("m1",)))
    driver.beat(3)
    assert driver.mesh() == ["p", "q"]
    assert receivers(driver.beat(), Prune) == ["p"]


def test_a_topic_is_scored_from_when_it_is_joined():
    driver = RouterDriver(joined=(), score=score_table({**FIRST, "topic": "any"}))
    driver.connect("p", topics=("x",))
    driver.feed(Join("x"))
    driver.receive("p", message("m1", topic="x"))
    assert driver.score("p") == 1


def test_late_timers_skip_refreshes_and_keep_their_schedule():
    driver = RouterDriver(
        score=score_table(misbehaviour_weight=-1, misbehaviour_decay=0.5), first_heartbeat_ms=100_000
    )
    driver.connect("p")
    driver.strategy.standing.penalise("p", 4.0)
    driver.now = 3_400 * MS
    driver.feed(TimerFired())
    assert driver.score("p") == -4
    assert driver.router.deadline() == 4 * SECOND


def test_the_deficit_of_a_peer_that_disconnects_counts_once():
    """Rules: RETAIN-2. It counts at the disconnection, and not again when the peer leaves the mesh."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999}
    driver = RouterDriver(score=score_table(failing, retain_ms=60_000, **GO_AFTER_PRUNE), first_heartbeat_ms=100_000)
    driver.connect("p")
    driver.graft("p")
    driver.wait(2 * SECOND)
    assert driver.score("p") == -400
    driver.disconnect("p")
    driver.connect("p")
    assert topic_parts(driver, "p").mesh_failures == -400
    assert driver.mesh() == []


def test_another_message_with_the_same_id_brings_neither_blame_nor_credit():
    """The author may have written both messages. They arrive before and after the verdict."""
    driver = RouterDriver(score=score_table(INVALID), validate=True)
    driver.connect("first", "early", "late", "same")
    other = Message("m1", TOPIC, b"other", "author")
    driver.receive("first", message("m1"))
    driver.receive("early", other)
    driver.verdict("m1", Verdict.REJECT)
    driver.receive("late", other)
    driver.receive("same", message("m1"))
    assert [driver.score(peer) for peer in ("first", "early", "late", "same")] == [-1, 0, 0, -1]


def test_the_deficit_of_a_member_that_unsubscribes_counts_once():
    """go sends UNSUBSCRIBE and then PRUNE, which does not count again. Another PRUNE of the peer counts (go)."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    driver = RouterDriver(score=score_table(failing, **GO_AFTER_PRUNE), first_heartbeat_ms=60_000)
    driver.connect("p")
    driver.graft("p")
    driver.run(5 * SECOND)
    driver.receive("p", Subscription(TOPIC, False))
    assert driver.score("p") == -400
    driver.receive("p", Prune(TOPIC))
    assert driver.score("p") == -400
    driver.receive("p", Prune(TOPIC))
    assert driver.score("p") == -800


def test_gossip_depends_on_the_score_after_pruning():
    """Rules: JUDGE-2. The PRUNE makes the score (P3b) too low for gossip (go, rust, js)."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    driver = RouterDriver(score=score_table(failing), first_heartbeat_ms=5_000)
    driver.connect("p")
    driver.graft("p")
    driver.publish("m")
    driver.rate(-1, "p")
    actions = driver.run(5 * SECOND)
    assert receivers(actions, Prune) == ["p"]
    assert receivers(actions, IHave) == []
