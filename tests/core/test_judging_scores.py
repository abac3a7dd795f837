"""When a router counts what for a score: validation that takes time, heartbeats, refreshes, who is not here yet."""

from __future__ import annotations

import pytest
from judged import MS, SECOND, TOPIC, Judge, message, receivers, score

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


def parts(judge, peer, topic=TOPIC):
    """The parts of a peer's score in a topic."""
    return dict(dict(judge.strategy.scores())[peer].topics).get(topic)


def test_near_first_copies_count_for_members():
    """Rules: DELIVERY-1, DELIVERY-2, DELIVERY-3. Before the verdict all do, however long it takes; then those within
    ten milliseconds; after that none, and none twice. A peer outside the mesh gets no credit."""
    judge = Judge(score=score({**MESH_DELIVERIES, **FIRST}), validate=True, first_heartbeat_ms=100_000)
    judge.connect("first", "during", "soon", "late", "outside")
    judge.graft("first", "during", "soon", "late")
    judge.wait(2 * SECOND)
    for number in range(20):
        judge.say("first", message(f"m{number}"))
        judge.now += 500 * MS
        judge.say("during", message(f"m{number}"))
        judge.say("outside", message(f"m{number}"))
        judge.now += 500 * MS
        judge.verdict(f"m{number}", Verdict.ACCEPT)
        judge.now += 10 * MS
        judge.say("soon", message(f"m{number}"))
        judge.say("soon", message(f"m{number}"))
        judge.now += 1
        judge.say("late", message(f"m{number}"))
    found = {peer: parts(judge, peer).mesh_deliveries for peer in ("first", "during", "soon", "late")}
    assert found == {"first": 0, "during": 0, "soon": 0, "late": -400}
    assert parts(judge, "first").first_deliveries == 20
    assert (parts(judge, "outside").mesh_deliveries, parts(judge, "outside").first_deliveries) == (0, 0)


def test_all_who_brought_an_invalid_message_are_blamed_before_or_after_the_verdict():
    """Rules: DELIVERY-4."""
    judge = Judge(score=score(INVALID), validate=True)
    judge.connect("first", "during", "later", "other")
    judge.say("first", message("m1"))
    judge.say("during", message("m1"))
    assert [judge.score(peer) for peer in ("first", "during")] == [0, 0]
    judge.verdict("m1", Verdict.REJECT)
    judge.say("later", message("m1"))
    assert [judge.score(peer) for peer in ("first", "during", "later", "other")] == [-1, -1, -1, 0]


@pytest.mark.parametrize("verdict", [Verdict.IGNORE, Verdict.ACCEPT])
def test_for_what_is_ignored_or_accepted_no_peer_is_blamed(verdict):
    """Rules: DELIVERY-6."""
    judge = Judge(score=score(INVALID), validate=True)
    judge.connect("first", "during", "later")
    judge.say("first", message("m1"))
    judge.say("during", message("m1"))
    judge.verdict("m1", verdict)
    judge.say("later", message("m1"))
    assert [judge.score(peer) for peer in ("first", "during", "later")] == [0, 0, 0]


def test_for_what_finds_no_room_or_topic_no_peer_is_blamed():
    """Rules: DELIVERY-6. Turned away for want of time, not joined, left before the verdict."""
    judge = Judge(score=score({**INVALID, **FIRST}), validate=True, max_pending_validations=1)
    judge.connect("p", "q")
    judge.say("p", message("m1"), message("m2"), message("m3", topic="elsewhere"))
    judge.say("q", message("m2"))
    judge.feed(Leave(TOPIC))
    judge.verdict("m1", Verdict.ACCEPT)
    assert judge.score("p") == judge.score("q") == 0


def test_who_sends_one_back_ones_own_message_is_blamed():
    """Rules: DELIVERY-5. While it is remembered, and later; go checks that before all else."""
    judge = Judge(score=score({**INVALID, **MESH_DELIVERIES}), first_heartbeat_ms=100_000)
    judge.connect("p", "q")
    judge.publish("m1")
    judge.say("p", message("m1", source="me"))
    judge.say("p", message("never-said", source="me"))
    judge.say("q", Message("anonymous", TOPIC, b""))
    assert (judge.score("p"), judge.score("q")) == (-4, 0)


def test_a_copy_of_ones_own_message_without_an_author_is_as_good_as_any():
    judge = Judge(score=score({**MESH_DELIVERIES, "mesh_deliveries_threshold": 1}), first_heartbeat_ms=100_000)
    judge.connect("p", "q")
    judge.graft("p", "q")
    judge.wait(2 * SECOND)
    judge.feed(Publish(Message("m1", TOPIC, b"")))
    judge.say("p", Message("m1", TOPIC, b""))
    assert (judge.score("p"), judge.score("q")) == (0, -1)


@pytest.mark.parametrize(("validate", "expected"), [(False, 1), (True, 0)])
def test_first_deliveries_count_with_the_verdict(validate, expected):
    """Go's PeerScoreInspect in small: who brings messages first has a score for it."""
    judge = Judge(score=score(FIRST), validate=validate)
    judge.connect("p")
    judge.say("p", message("m1"))
    assert judge.score("p") == expected
    if validate:
        judge.verdict("m1", Verdict.ACCEPT)
    assert judge.score("p") == 1


def test_ten_messages_are_worth_nine_at_least():
    """Go's PeerScoreInspect: 20 messages alternately from two nodes, decay .999."""
    judge = Judge(score=score({**FIRST, "first_deliveries_decay": 0.999}))
    judge.connect("p", "q")
    for number in range(20):
        judge.say("pq"[number % 2], message(f"m{number}"))
        judge.wait(100 * MS)
    assert judge.score("p") >= 9
    assert judge.score("q") >= 9


def test_an_opinion_counts_before_the_peer_comes_and_after_it_comes_back():
    """P5 of peers that are not here yet."""
    judge = Judge(score=score(application_weight=0.5))
    judge.rate(-30, "p")
    assert judge.score("p") == 0
    judge.connect("p")
    assert judge.score("p") == -15
    judge.disconnect("p")
    judge.connect("p")
    assert judge.score("p") == -15
    judge.rate(0, "p")
    assert judge.score("p") == 0


def test_peers_at_one_address_share_the_blame():
    """P6 by way of the router: the address is that of the connection."""
    judge = Judge(score=score(shared_address_weight=-1, shared_address_threshold=1))
    judge.connect("a", address="10.0.0.1")
    judge.connect("b", "c", "d", address="10.0.0.2")
    judge.connect("unknown", "unknown2")
    assert [judge.score(peer) for peer in ("a", "b", "c", "d", "unknown")] == [0, -4, -4, -4, 0]
    judge.disconnect("c")
    assert judge.score("b") == -1


def test_messages_that_did_not_leave_count_against_a_slow_peer():
    """Rules: SCORE-10, by way of the router (rust, nim)."""
    judge = Judge(score=score(slow_peer_weight=-1, slow_peer_threshold=1, slow_peer_decay=0.2))
    judge.connect("p")
    judge.feed(SendFailed("p", Rpc((), (message("m1"), message("m2"), message("m3")))))
    judge.feed(SendFailed("gone", Rpc((), (message("m1"),))))
    assert judge.score("p") == -2


def test_of_a_refresh_and_a_heartbeat_at_one_microsecond_the_refresh_is_first():
    """Rules: STANDING-3. The heartbeat sees what has decayed."""
    judge = Judge(
        score=score(misbehaviour_weight=-1, misbehaviour_threshold=2, misbehaviour_decay=0.5),
        first_heartbeat_ms=1_000,
    )
    judge.connect("p")
    judge.graft("p")
    judge.strategy.standing.penalise("p", 3.0)
    assert judge.score("p") == -1
    assert receivers(judge.run(SECOND), Prune) == []
    assert judge.mesh() == ["p"]


def test_a_heartbeat_asks_for_each_score_once():
    """Rules: STANDING-2. Leaving the mesh of `a` makes scores worse (P3b); in `b` that counts from the next heartbeat
    on."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    sizes = {"degree": 1, "degree_low": 1, "degree_high": 6, "degree_score": 0, "degree_out": 0}
    judge = Judge(
        joined=("a", "b"),
        score=score({"topic": "a", **failing}),
        full_mesh="accept",
        first_heartbeat_ms=5_000,
        **sizes,
    )
    peers = [f"p{number}" for number in range(7)]
    judge.connect(*peers, topics=("a", "b"))
    for peer in peers:
        judge.say(peer, Graft("a"))
    for peer in peers[:5]:
        judge.say(peer, Graft("b"))
    judge.run(5 * SECOND)
    [stayed] = judge.mesh("a")
    assert judge.mesh("b") == peers[:5]
    assert {judge.score(peer) for peer in peers if peer != stayed} == {-400}
    judge.beat()
    assert set(judge.mesh("b")) <= {stayed}


def test_broken_promises_count_before_meshes_are_looked_at():
    """Rules: PROMISE-3. The heartbeat that finds them prunes who broke them."""
    judge = Judge(score=score(misbehaviour_weight=-1, misbehaviour_decay=0.5, decay_interval_ms=60_000))
    judge.connect("p", "q")
    judge.graft("p", "q")
    judge.beat()
    judge.say("p", IHave(TOPIC, ("m1",)))
    judge.beat(3)
    assert judge.mesh() == ["p", "q"]
    assert receivers(judge.beat(), Prune) == ["p"]


def test_a_topic_is_scored_from_when_it_is_joined():
    judge = Judge(joined=(), score=score({**FIRST, "topic": "any"}))
    judge.connect("p", topics=("x",))
    judge.feed(Join("x"))
    judge.say("p", message("m1", topic="x"))
    assert judge.score("p") == 1


def test_late_timers_skip_refreshes_and_come_back_into_step():
    judge = Judge(score=score(misbehaviour_weight=-1, misbehaviour_decay=0.5), first_heartbeat_ms=100_000)
    judge.connect("p")
    judge.strategy.standing.penalise("p", 4.0)
    judge.now = 3_400 * MS
    judge.feed(TimerFired())
    assert judge.score("p") == -4
    assert judge.router.deadline() == 4 * SECOND


def test_what_came_of_a_peer_that_left_with_a_deficit():
    """Rules: RETAIN-2, by way of the router: judged once when it goes, not again when the mesh lets it go."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999}
    judge = Judge(score=score(failing, retain_ms=60_000, **GO_AFTER_PRUNE), first_heartbeat_ms=100_000)
    judge.connect("p")
    judge.graft("p")
    judge.wait(2 * SECOND)
    assert judge.score("p") == -400
    judge.disconnect("p")
    judge.connect("p")
    assert parts(judge, "p").mesh_failures == -400
    assert judge.mesh() == []


def test_another_message_with_the_same_id_brings_neither_blame_nor_credit():
    """The author wrote both; before the verdict and after it."""
    judge = Judge(score=score(INVALID), validate=True)
    judge.connect("first", "early", "late", "same")
    other = Message("m1", TOPIC, b"other", "author")
    judge.say("first", message("m1"))
    judge.say("early", other)
    judge.verdict("m1", Verdict.REJECT)
    judge.say("late", other)
    judge.say("same", message("m1"))
    assert [judge.score(peer) for peer in ("first", "early", "late", "same")] == [-1, 0, 0, -1]


def test_a_member_that_leaves_the_topic_is_judged_once():
    """go says UNSUBSCRIBE and then PRUNE; a PRUNE alone, of a peer that is no member, is judged (go)."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    judge = Judge(score=score(failing, **GO_AFTER_PRUNE), first_heartbeat_ms=60_000)
    judge.connect("p")
    judge.graft("p")
    judge.run(5 * SECOND)
    judge.say("p", Subscription(TOPIC, False))
    assert judge.score("p") == -400
    judge.say("p", Prune(TOPIC))
    assert judge.score("p") == -400
    judge.say("p", Prune(TOPIC))
    assert judge.score("p") == -800


def test_gossip_goes_by_the_score_after_the_pruning():
    """Rules: JUDGE-2. Leaving the mesh makes the score worse (P3b) than gossip allows (go, rust, js)."""
    failing = {**MESH_DELIVERIES, "mesh_failure_weight": -1, "mesh_failure_decay": 0.999, "mesh_deliveries_weight": 0}
    judge = Judge(score=score(failing), first_heartbeat_ms=5_000)
    judge.connect("p")
    judge.graft("p")
    judge.publish("m")
    judge.rate(-1, "p")
    actions = judge.run(5 * SECOND)
    assert receivers(actions, Prune) == ["p"]
    assert receivers(actions, IHave) == []
