"""Checks of a router with scores on the RPCs of a peer: thresholds, limits of gossip, promises, the gater."""

from __future__ import annotations

import pytest
from router_driver import MS, SECOND, TOPIC, RouterDriver, copies, dropped, message, receivers, rpc, score_table, sent

from hearsay.core.language.actions import DuplicateReceived, MessageRejected, Reason, Validate
from hearsay.core.language.events import DirectPeerChosen, RpcReceived, Verdict
from hearsay.core.language.rpc import (
    FIRST_EXTENSION_FIELD,
    FLOODSUB,
    MESHSUB,
    MESHSUB_11,
    MESHSUB_12,
    Control,
    Extension,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Prune,
    Rpc,
    Subscription,
)

MISBEHAVIOUR = {"misbehaviour_weight": -1, "misbehaviour_decay": 0.9}
EVERYTHING = (
    Subscription("new", True),
    message("m1"),
    message("m2"),
    IHave(TOPIC, ("m3",)),
    IWant(("kept",)),
    Graft(TOPIC),
    Prune("other"),
    IDontWant(("m4", "m5")),
)


def asked(actions):
    return [message_id for _, part in sent(actions, IWant) for message_id in part.ids]


@pytest.mark.parametrize("accepted", [True, False])
def test_only_subscriptions_of_graylisted_peers_are_accepted(accepted):
    """Rules: JUDGE-1, THRESHOLD-4. go and rust accept subscriptions, js drops them, too."""
    driver = RouterDriver(
        score=score_table(thresholds={"graylist": -1000, "publish": -500, "gossip": -100}),
        graylisted_subscriptions=accepted,
    )
    driver.connect("p")
    driver.publish("kept")
    driver.rate(-1000.5, "p")
    actions = driver.feed(RpcReceived("p", rpc(*EVERYTHING)))
    kinds = [("PUBLISH", 2), ("IHAVE", 1), ("IWANT", 1), ("GRAFT", 1), ("PRUNE", 1), ("IDONTWANT", 1)]
    kinds += [] if accepted else [("SUBSCRIBE", 1)]
    assert dropped(actions) == [("p", kind, count, Reason.GRAYLISTED) for kind, count in kinds]
    assert len(actions) == len(kinds)
    assert ("new" in driver.router.connected["p"].topics) is accepted
    driver.receive("p", Subscription(TOPIC, False))
    assert (TOPIC in driver.router.connected["p"].topics) is not accepted


def test_at_the_graylists_threshold_a_peer_is_accepted():
    driver = RouterDriver(score=score_table(thresholds={"graylist": -1000, "publish": -500, "gossip": -100}))
    driver.connect("p")
    driver.rate(-1000, "p")
    driver.receive("p", message("m1"))
    assert driver.strategy.holds("m1")


def test_extensions_of_graylisted_peers_are_dropped():
    driver = RouterDriver(score=score_table(thresholds={"graylist": -1000}))
    driver.connect("p")
    driver.rate(-2000, "p")
    assert driver.feed(RpcReceived("p", Rpc())) == []
    found = driver.feed(RpcReceived("p", Rpc(control=Control(extensions=(Extension(FIRST_EXTENSION_FIELD, b"x"),)))))
    assert dropped(found) == [("p", "EXTENSION", 1, Reason.GRAYLISTED)]


def test_below_the_gossip_threshold_neither_ihave_nor_iwant_is_accepted():
    """Rules: JUDGE-2, THRESHOLD-2."""
    driver = RouterDriver(score=score_table())
    driver.connect("p", "q")
    driver.publish("kept")
    driver.rate(-10, "p")
    driver.rate(-10.5, "q")
    assert asked(driver.receive("p", IHave(TOPIC, ("m1",)))) == ["m1"]
    assert copies(driver.receive("p", IWant(("kept",)))) == [("p", "kept")]
    actions = driver.receive("q", IHave(TOPIC, ("m2", "m3")), IWant(("kept",)), message("m9"))
    assert dropped(actions) == [("q", "IHAVE", 2, Reason.LOW_SCORE), ("q", "IWANT", 1, Reason.LOW_SCORE)]
    assert driver.strategy.holds("m9")


def test_below_the_gossip_threshold_no_ihave_is_sent():
    """Rules: JUDGE-2."""
    driver = RouterDriver(score=score_table(), degree=0, degree_low=0, degree_score=0, degree_out=0, degree_high=0)
    driver.connect("p", "q", "friend")
    driver.feed(DirectPeerChosen("friend"))
    driver.rate(-10, "p")
    driver.rate(-10.5, "q")
    driver.publish("m1")
    assert receivers(driver.beat(), IHave) == ["p"]


def test_all_rpcs_of_a_direct_peer_are_accepted():
    """Rules: STANDING-1. Its score does not matter. A PRUNE answers its GRAFT."""
    driver = RouterDriver(score=score_table())
    driver.feed(DirectPeerChosen("p"))
    driver.connect("p")
    driver.publish("kept")
    driver.rate(-1_000_000, "p")
    actions = driver.feed(RpcReceived("p", rpc(*EVERYTHING)))
    assert asked(actions) == ["m3"]
    assert copies(actions) == [("p", "kept")]
    assert driver.strategy.holds("m1")
    assert receivers(actions, Prune) == ["p"]


def test_ten_of_fifteen_thousand_ihaves_are_answered():
    """Rules: GOSSIP-14, GOSSIP-8, PROMISE-3. Go's AttackSpamIHAVE: P7 -1, decay of a minute, follow-up of ten
    seconds. The score is negative when no requested message has come in this time."""
    driver = RouterDriver(
        score=score_table(misbehaviour_weight=-1, misbehaviour_decay_ms=60_000), iwant_followup_ms=10_000
    )
    driver.connect("p")
    driver.beat()
    first = [asked(driver.receive("p", IHave(TOPIC, (f"a{number}",)))) for number in range(15_000)]
    assert sum(map(len, first)) == 10
    assert driver.score("p") == 0
    driver.beat()
    second = [asked(driver.receive("p", IHave(TOPIC, (f"b{number}",)))) for number in range(15_000)]
    assert sum(map(len, second)) == 10
    assert driver.score("p") == 0
    driver.wait(11 * SECOND)
    assert driver.score("p") < 0


def test_five_thousand_ids_are_asked_for_between_two_heartbeats():
    """Rules: GOSSIP-8, GOSSIP-14."""
    driver = RouterDriver(score=score_table())
    driver.connect("p")
    found = [
        asked(driver.receive("p", IHave(TOPIC, tuple(f"{part}-{number}" for number in range(900)))))
        for part in range(9)
    ]
    assert [len(ids) for ids in found] == [900] * 5 + [500] + [0] * 3


def test_answered_rpcs_with_iwant_are_bounded_between_two_heartbeats():
    """Rules: GOSSIP-14. js answers ten."""
    driver = RouterDriver(max_iwant_messages=2, iwant_answers_per_id=100)
    driver.connect("p")
    driver.publish("m1")
    answers = [copies(driver.receive("p", IWant(("m1",)))) for _ in range(3)]
    assert answers == [[("p", "m1")], [("p", "m1")], []]
    driver.beat()
    assert copies(driver.receive("p", IWant(("m1",)))) == [("p", "m1")]


def test_requested_ids_have_a_limit_of_their_own():
    """Rules: GOSSIP-8. nim asks for ten between two heartbeats, and answers more."""
    driver = RouterDriver(max_ids_asked=3)
    driver.connect("p")
    asked = [part for _, part in sent(driver.receive("p", IHave(TOPIC, ("a", "b"))), IWant)]
    asked += [part for _, part in sent(driver.receive("p", IHave(TOPIC, ("c", "d"))), IWant)]
    assert [message_id for part in asked for message_id in part.ids] == ["a", "b", "c"]
    for name in "wxyz":
        driver.publish(name)
    assert len(copies(driver.receive("p", IWant(tuple("wxyz"))))) == 4


def test_from_the_eleventh_on_rpcs_with_ihave_are_ignored_until_the_next_heartbeat():
    """Rules: GOSSIP-14. All IHAVEs of an RPC count once, and a new connection does not reset the count."""
    driver = RouterDriver(score=score_table())
    driver.connect("p", "q")
    for number in range(10):
        assert len(asked(driver.receive("p", IHave(TOPIC, (f"x{number}",)), IHave(TOPIC, (f"y{number}",))))) == 2
    assert dropped(driver.receive("p", IHave(TOPIC, ("z", "zz")))) == [("p", "IHAVE", 2, Reason.OVER_LIMIT)]
    driver.disconnect("p")
    driver.connect("p")
    assert asked(driver.receive("p", IHave(TOPIC, ("z",)))) == []
    assert asked(driver.receive("q", IHave(TOPIC, ("z",)))) == ["z"]
    driver.beat()
    assert asked(driver.receive("p", IHave(TOPIC, ("z",)))) == ["z"]


def test_without_a_limit_all_ihaves_are_accepted():
    driver = RouterDriver(score=score_table(), max_ihave_messages=0)
    driver.connect("p")
    assert [asked(driver.receive("p", IHave(TOPIC, (str(number),)))) for number in range(12)][11] == ["11"]


@pytest.mark.parametrize(
    ("lazy", "factor", "others", "receiver_counts"), [(6, 0.25, 40, 10), (6, 0.25, 20, 6), (0, 0.25, 7, 1)]
)
def test_gossip_goes_to_a_share_of_the_others(lazy, factor, others, receiver_counts):
    """Rules: GOSSIP-13."""
    driver = RouterDriver(score=score_table(), degree_lazy=lazy, gossip_factor=factor, degree_low=0, degree_out=0)
    driver.connect(*[f"p{number:02}" for number in range(others)])
    driver.publish("m1")
    assert len(receivers(driver.beat(), IHave)) == receiver_counts


def test_gossip_may_be_drawn_before_the_mesh_is_left_out():
    """`gossip_targets` applies to routers with scores, too (r1)."""
    receiver_counts = {}
    for targets in ("filter_then_select", "select_then_filter"):
        driver = RouterDriver(
            score=score_table(), gossip_targets=targets, degree_lazy=6, gossip_factor=0, full_mesh="accept"
        )
        driver.connect(*[f"p{number:02}" for number in range(14)])
        driver.graft(*[f"p{number:02}" for number in range(8)])
        driver.publish("m1")
        found = receivers(driver.beat(), IHave)
        assert not set(found) & set(driver.mesh())
        receiver_counts[targets] = len(found)
    assert receiver_counts["filter_then_select"] == 6 > receiver_counts["select_then_filter"]


def test_iwant_is_answered_three_times():
    """Go's AttackSpamIWANT: one copy through the mesh, three for IWANTs, then none in a second."""
    driver = RouterDriver(score=score_table())
    driver.connect("p")
    driver.graft("p")
    got = copies(driver.publish("m1"))
    for _ in range(10):
        got += copies(driver.receive("p", IWant(("m1",))))
    got += copies(driver.wait(SECOND))
    assert got == [("p", "m1")] * 4


@pytest.mark.parametrize(("tracked", "expected"), [("one", -1), ("all", -9), ("none", 0)])
def test_broken_promises_count_at_the_heartbeat_after_their_time(tracked, expected):
    """Rules: PROMISE-1, PROMISE-3. go tracks one id of an IWANT, rust all, nim none."""
    driver = RouterDriver(
        score=score_table(misbehaviour_weight=-1, misbehaviour_decay=0.99, decay_interval_ms=60_000),
        tracked_promises=tracked,
    )
    driver.connect("p")
    driver.receive("p", IHave(TOPIC, ("m1", "m2")), IHave(TOPIC, ("m3",)))
    driver.wait(3 * SECOND)
    assert driver.score("p") == 0
    driver.beat()
    assert driver.score("p") == expected


@pytest.mark.parametrize(("lazy", "sender"), [(True, "q"), (False, "p")])
def test_a_promise_is_kept_by_a_peer_that_sends_the_message(lazy, sender):
    """Rules: PROMISE-2. Also another peer may send it, and the message may still be in validation."""
    driver = RouterDriver(score=score_table(**MISBEHAVIOUR), validate=lazy)
    driver.connect("p", "q")
    driver.receive("p", IHave(TOPIC, ("m1",)))
    driver.receive(sender, message("m1"))
    driver.wait(10 * SECOND)
    assert driver.score("p") == 0


def test_the_promised_id_is_drawn():
    broken = set()
    for seed in range(20):
        driver = RouterDriver(score=score_table(misbehaviour_weight=-1, misbehaviour_decay=0.99), seed=seed)
        driver.connect("p", "q")
        driver.receive("p", IHave(TOPIC, ("m1", "m2")))
        driver.receive("q", message("m1"))
        driver.wait(5 * SECOND)
        broken.add(driver.score("p") < 0)
    assert broken == {True, False}


GATER = {
    "threshold": 0.33,
    "global_decay": 0.9,
    "source_decay": 0.9,
    "decay_to_zero": 0.01,
    "duplicate_weight": 0.125,
    "ignore_weight": 1,
    "reject_weight": 16,
}


def gated(**given):
    """Return a router that has throttled many messages lately, and that got 20 invalid messages from `bad`."""
    driver = RouterDriver(gater=GATER, validate=True, max_pending_validations=1, first_heartbeat_ms=100_000, **given)
    driver.connect("bad", address="10.0.0.1")
    driver.connect("good", address="10.0.0.2")
    for number in range(20):
        driver.receive("bad", message(f"b{number}"))
        driver.verdict(f"b{number}", Verdict.REJECT)
    driver.receive("good", message("waits"))
    for number in range(60):
        driver.receive("good", message(f"t{number}"))
    return driver


def test_only_control_of_a_bad_source_is_accepted_while_the_gater_is_active():
    """Rules: JUDGE-1, GATER-2. Fewer than 30 of 300 messages of `bad` are accepted, and the message of `good` is."""
    driver = gated()
    driver.verdict("waits", Verdict.ACCEPT)
    accepted = 0
    for number in range(300):
        actions = driver.receive("bad", message(f"x{number}"), IHave(TOPIC, (f"y{number}",)))
        assert len(asked(actions)) == (number < 10)
        if ("bad", "PUBLISH", 1, Reason.GATED) not in dropped(actions):
            accepted += 1
            driver.verdict(f"x{number}", Verdict.IGNORE)
        driver.now += 1
    assert 0 < accepted < 30
    driver.now += 1
    assert any(isinstance(action, Validate) for action in driver.receive("good", message("fine")))


def test_the_gater_accepts_direct_peers_and_after_a_quiet_minute_all_peers():
    """Rules: GATER-1, STANDING-1."""
    driver = gated()
    driver.feed(DirectPeerChosen("bad"))
    assert Reason.GATED not in {reason for *_, reason in dropped(driver.receive("bad", message("d")))}
    driver = gated()
    driver.verdict("waits", Verdict.ACCEPT)
    driver.wait(60 * SECOND + 1)
    assert any(isinstance(action, Validate) for action in driver.receive("bad", message("later")))


def test_promises_of_gated_peers_are_dropped():
    """Rules: PROMISE-4."""
    driver = gated(score=score_table(misbehaviour_weight=-1, misbehaviour_decay=0.99))
    driver.receive("bad", IHave(TOPIC, ("m1",)))
    for number in range(5):
        driver.now += 1
        driver.receive("bad", message(f"n{number}"))
    driver.wait(120 * SECOND)
    assert driver.score("bad") == 0


@pytest.mark.parametrize("protocol", [MESHSUB, MESHSUB_11, MESHSUB_12, FLOODSUB])
def test_versions_are_negotiated_with_scores_on(protocol):
    """Go's features: meshes from 1.0, backoffs from 1.1, IDONTWANT from 1.2; floodsub has none of them."""
    driver = RouterDriver(score=score_table(), exchange_peers=2, idontwant_threshold_bytes=1, degree_out=0)
    assert driver.strategy.protocols == (MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)
    driver.connect("p", protocol=protocol)
    driver.connect("q", "r")
    driver.beat()
    assert driver.mesh() == (["q", "r"] if protocol == FLOODSUB else ["p", "q", "r"])
    assert receivers(driver.receive("q", message("m1")), IDontWant) == (["p"] if protocol == MESHSUB_12 else [])
    if protocol != FLOODSUB:
        driver.rate(-1, "p")
        [(_, prune)] = sent(driver.beat(), Prune)
        assert prune.backoff_s == (None if protocol == MESHSUB else 60)


def test_messages_of_graylisted_peers_are_not_counted_as_duplicates():
    driver = RouterDriver(score=score_table(thresholds={"graylist": -1}))
    driver.connect("p", "q")
    driver.receive("q", message("m1"))
    driver.rate(-2, "p")
    assert not any(isinstance(each, DuplicateReceived) for each in driver.receive("p", message("m1")))


def test_graylisted_peers_get_neither_messages_nor_gossip():
    """After the PRUNE, a graylisted peer gets no RPC in ten seconds."""
    driver = RouterDriver(score=score_table(), flood_publish=True, degree_out=0)
    driver.connect("bad", "q")
    driver.beat()
    driver.rate(-20_000, "bad")
    assert receivers(driver.beat(), Prune) == ["bad"]
    later = driver.publish("m1") + driver.wait(10 * SECOND) + driver.receive("q", message("m2"))
    assert {action.peer for action in later if hasattr(action, "rpc")} == {"q"}


def test_draws_of_the_gater_differ_by_time_and_are_reproducible():
    rows = []
    for _ in range(2):
        driver = gated()
        rows.append([])
        for number in range(1_000):
            driver.now += MS
            rows[-1].append(bool(dropped(driver.receive("bad", message(f"x{number}")))))
    assert rows[0] == rows[1]
    assert set(rows[0]) == {True, False}


def test_a_sender_of_a_hundred_invalid_messages_is_graylisted_and_pruned():
    """Go's AttackInvalidMessageSpam: weights of the evaluation of 2020, thresholds -100/-200/-300. After the
    fourth rejection the peer is graylisted and its messages are dropped; the heartbeat prunes it."""
    driver = RouterDriver(
        score=score_table(
            {"topic_weight": 0.25, "invalid_messages_weight": -99, "invalid_messages_decay": 0.9994},
            thresholds={"gossip": -100, "publish": -200, "graylist": -300},
        ),
        validate=True,
    )
    driver.connect("p")
    driver.graft("p")
    actions = []
    for number in range(100):
        actions += driver.receive("p", message(f"m{number}"))
        if f"m{number}" in driver.router.pending:
            actions += driver.verdict(f"m{number}", Verdict.REJECT)
    rejected = sum(isinstance(each, MessageRejected) for each in actions)
    assert rejected == 4
    assert driver.score("p") == -99 * 0.25 * 16
    assert dropped(actions).count(("p", "PUBLISH", 1, Reason.GRAYLISTED)) == 96
    assert receivers(driver.beat(), Prune) == ["p"]


def test_messages_of_an_rpc_are_scored_before_its_gossip():
    """Rules: JUDGE-2. A message that names the router as its author makes the score too low for gossip (go, rust)."""
    driver = RouterDriver(score=score_table({"invalid_messages_weight": -20}))
    driver.connect("p")
    assert asked(driver.receive("p", message("m1", "me"), IHave(TOPIC, ("m2",)))) == []
    assert driver.score("p") == -20
