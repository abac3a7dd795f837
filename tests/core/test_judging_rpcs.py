"""Checks of a router with scores on the RPCs of a peer: thresholds, limits of gossip, promises, the gater."""

from __future__ import annotations

import pytest
from judged import MS, SECOND, TOPIC, Judge, copies, dropped, message, receivers, rpc, score, sent

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
def test_of_the_graylisted_nothing_is_looked_at_but_subscriptions(accepted):
    """Rules: JUDGE-1, THRESHOLD-4. go and rust; js ignores these too."""
    judge = Judge(
        score=score(thresholds={"graylist": -1000, "publish": -500, "gossip": -100}),
        graylisted_subscriptions=accepted,
    )
    judge.connect("p")
    judge.publish("kept")
    judge.rate(-1000.5, "p")
    actions = judge.feed(RpcReceived("p", rpc(*EVERYTHING)))
    kinds = [("PUBLISH", 2), ("IHAVE", 1), ("IWANT", 1), ("GRAFT", 1), ("PRUNE", 1), ("IDONTWANT", 1)]
    kinds += [] if accepted else [("SUBSCRIBE", 1)]
    assert dropped(actions) == [("p", kind, count, Reason.GRAYLISTED) for kind, count in kinds]
    assert len(actions) == len(kinds)
    assert ("new" in judge.router.connected["p"].topics) is accepted
    judge.say("p", Subscription(TOPIC, False))
    assert (TOPIC in judge.router.connected["p"].topics) is not accepted


def test_at_the_graylists_threshold_a_peer_is_accepted():
    judge = Judge(score=score(thresholds={"graylist": -1000, "publish": -500, "gossip": -100}))
    judge.connect("p")
    judge.rate(-1000, "p")
    judge.say("p", message("m1"))
    assert judge.strategy.holds("m1")


def test_extensions_and_empty_rpcs_of_the_graylisted():
    judge = Judge(score=score(thresholds={"graylist": -1000}))
    judge.connect("p")
    judge.rate(-2000, "p")
    assert judge.feed(RpcReceived("p", Rpc())) == []
    found = judge.feed(RpcReceived("p", Rpc(control=Control(extensions=(Extension(FIRST_EXTENSION_FIELD, b"x"),)))))
    assert dropped(found) == [("p", "EXTENSION", 1, Reason.GRAYLISTED)]


def test_below_the_gossip_threshold_neither_ihave_nor_iwant_is_looked_at():
    """Rules: JUDGE-2, THRESHOLD-2."""
    judge = Judge(score=score())
    judge.connect("p", "q")
    judge.publish("kept")
    judge.rate(-10, "p")
    judge.rate(-10.5, "q")
    assert asked(judge.say("p", IHave(TOPIC, ("m1",)))) == ["m1"]
    assert copies(judge.say("p", IWant(("kept",)))) == [("p", "kept")]
    actions = judge.say("q", IHave(TOPIC, ("m2", "m3")), IWant(("kept",)), message("m9"))
    assert dropped(actions) == [("q", "IHAVE", 2, Reason.LOW_SCORE), ("q", "IWANT", 1, Reason.LOW_SCORE)]
    assert judge.strategy.holds("m9")


def test_below_the_gossip_threshold_no_ihave_is_sent():
    """Rules: JUDGE-2."""
    judge = Judge(score=score(), degree=0, degree_low=0, degree_score=0, degree_out=0, degree_high=0)
    judge.connect("p", "q", "friend")
    judge.feed(DirectPeerChosen("friend"))
    judge.rate(-10, "p")
    judge.rate(-10.5, "q")
    judge.publish("m1")
    assert receivers(judge.beat(), IHave) == ["p"]


def test_all_rpcs_of_a_direct_peer_are_looked_at():
    """Rules: STANDING-1. A PRUNE answers its GRAFT, whatever its score."""
    judge = Judge(score=score())
    judge.feed(DirectPeerChosen("p"))
    judge.connect("p")
    judge.publish("kept")
    judge.rate(-1_000_000, "p")
    actions = judge.feed(RpcReceived("p", rpc(*EVERYTHING)))
    assert asked(actions) == ["m3"]
    assert copies(actions) == [("p", "kept")]
    assert judge.strategy.holds("m1")
    assert receivers(actions, Prune) == ["p"]


def test_fifteen_thousand_ihaves():
    """Rules: GOSSIP-14, GOSSIP-8, PROMISE-3. Go's AttackSpamIHAVE: P7 -1, decay of a minute, follow-up of ten
    seconds; at most 5000 IWANTs in a heartbeat, and blame when nothing of it has come."""
    judge = Judge(score=score(misbehaviour_weight=-1, misbehaviour_decay_ms=60_000), iwant_followup_ms=10_000)
    judge.connect("p")
    judge.beat()
    first = [asked(judge.say("p", IHave(TOPIC, (f"a{number}",)))) for number in range(15_000)]
    assert sum(map(len, first)) == 10
    assert judge.score("p") == 0
    judge.beat()
    second = [asked(judge.say("p", IHave(TOPIC, (f"b{number}",)))) for number in range(15_000)]
    assert sum(map(len, second)) == 10
    assert judge.score("p") == 0
    judge.wait(11 * SECOND)
    assert judge.score("p") < 0


def test_five_thousand_ids_are_asked_for_between_two_heartbeats():
    """Rules: GOSSIP-8, GOSSIP-14."""
    judge = Judge(score=score())
    judge.connect("p")
    found = [
        asked(judge.say("p", IHave(TOPIC, tuple(f"{part}-{number}" for number in range(900))))) for part in range(9)
    ]
    assert [len(ids) for ids in found] == [900] * 5 + [500] + [0] * 3


def test_of_one_peer_so_many_rpcs_with_iwant_are_answered_between_two_heartbeats():
    """Rules: GOSSIP-14. js answers ten."""
    judge = Judge(max_iwant_messages=2, iwant_answers_per_id=100)
    judge.connect("p")
    judge.publish("m1")
    answers = [copies(judge.say("p", IWant(("m1",)))) for _ in range(3)]
    assert answers == [[("p", "m1")], [("p", "m1")], []]
    judge.beat()
    assert copies(judge.say("p", IWant(("m1",)))) == [("p", "m1")]


def test_of_one_peer_fewer_ids_are_asked_than_it_may_ask():
    """Rules: GOSSIP-8. nim asks for ten between two heartbeats, and answers more."""
    judge = Judge(max_ids_asked=3)
    judge.connect("p")
    asked = [part for _, part in sent(judge.say("p", IHave(TOPIC, ("a", "b"))), IWant)]
    asked += [part for _, part in sent(judge.say("p", IHave(TOPIC, ("c", "d"))), IWant)]
    assert [message_id for part in asked for message_id in part.ids] == ["a", "b", "c"]
    for name in "wxyz":
        judge.publish(name)
    assert len(copies(judge.say("p", IWant(tuple("wxyz"))))) == 4


def test_the_eleventh_rpc_with_ihave_is_not_looked_at_until_the_next_heartbeat():
    """Rules: GOSSIP-14. Parts of one RPC are one; reconnecting does not help."""
    judge = Judge(score=score())
    judge.connect("p", "q")
    for number in range(10):
        assert len(asked(judge.say("p", IHave(TOPIC, (f"x{number}",)), IHave(TOPIC, (f"y{number}",))))) == 2
    assert dropped(judge.say("p", IHave(TOPIC, ("z", "zz")))) == [("p", "IHAVE", 2, Reason.OVER_LIMIT)]
    judge.disconnect("p")
    judge.connect("p")
    assert asked(judge.say("p", IHave(TOPIC, ("z",)))) == []
    assert asked(judge.say("q", IHave(TOPIC, ("z",)))) == ["z"]
    judge.beat()
    assert asked(judge.say("p", IHave(TOPIC, ("z",)))) == ["z"]


def test_without_a_limit_all_ihaves_are_looked_at():
    judge = Judge(score=score(), max_ihave_messages=0)
    judge.connect("p")
    assert [asked(judge.say("p", IHave(TOPIC, (str(number),)))) for number in range(12)][11] == ["11"]


@pytest.mark.parametrize(
    ("lazy", "factor", "others", "receiver_counts"), [(6, 0.25, 40, 10), (6, 0.25, 20, 6), (0, 0.25, 7, 1)]
)
def test_gossip_goes_to_a_share_of_the_others(lazy, factor, others, receiver_counts):
    """Rules: GOSSIP-13."""
    judge = Judge(score=score(), degree_lazy=lazy, gossip_factor=factor, degree_low=0, degree_out=0)
    judge.connect(*[f"p{number:02}" for number in range(others)])
    judge.publish("m1")
    assert len(receivers(judge.beat(), IHave)) == receiver_counts


def test_gossip_may_be_drawn_before_the_mesh_is_left_out():
    """`gossip_targets` holds for routers with scores too (r1)."""
    receiver_counts = {}
    for targets in ("filter_then_select", "select_then_filter"):
        judge = Judge(score=score(), gossip_targets=targets, degree_lazy=6, gossip_factor=0, full_mesh="accept")
        judge.connect(*[f"p{number:02}" for number in range(14)])
        judge.graft(*[f"p{number:02}" for number in range(8)])
        judge.publish("m1")
        found = receivers(judge.beat(), IHave)
        assert not set(found) & set(judge.mesh())
        receiver_counts[targets] = len(found)
    assert receiver_counts["filter_then_select"] == 6 > receiver_counts["select_then_filter"]


def test_iwant_is_answered_three_times():
    """Go's AttackSpamIWANT: one copy by way of the mesh, three for IWANTs, then none for a second."""
    judge = Judge(score=score())
    judge.connect("p")
    judge.graft("p")
    got = copies(judge.publish("m1"))
    for _ in range(10):
        got += copies(judge.say("p", IWant(("m1",))))
    got += copies(judge.wait(SECOND))
    assert got == [("p", "m1")] * 4


@pytest.mark.parametrize(("tracked", "expected"), [("one", -1), ("all", -9), ("none", 0)])
def test_broken_promises_count_at_the_heartbeat_after_their_time(tracked, expected):
    """Rules: PROMISE-1, PROMISE-3. One id of an IWANT (go), all (rust), none (nim)."""
    judge = Judge(
        score=score(misbehaviour_weight=-1, misbehaviour_decay=0.99, decay_interval_ms=60_000),
        tracked_promises=tracked,
    )
    judge.connect("p")
    judge.say("p", IHave(TOPIC, ("m1", "m2")), IHave(TOPIC, ("m3",)))
    judge.wait(3 * SECOND)
    assert judge.score("p") == 0
    judge.beat()
    assert judge.score("p") == expected


@pytest.mark.parametrize(("lazy", "sender"), [(True, "q"), (False, "p")])
def test_a_promise_is_kept_by_a_peer_that_sends_the_message(lazy, sender):
    """Rules: PROMISE-2. Its validation need not be over."""
    judge = Judge(score=score(**MISBEHAVIOUR), validate=lazy)
    judge.connect("p", "q")
    judge.say("p", IHave(TOPIC, ("m1",)))
    judge.say(sender, message("m1"))
    judge.wait(10 * SECOND)
    assert judge.score("p") == 0


def test_the_promised_id_is_drawn():
    broken = set()
    for seed in range(20):
        judge = Judge(score=score(misbehaviour_weight=-1, misbehaviour_decay=0.99), seed=seed)
        judge.connect("p", "q")
        judge.say("p", IHave(TOPIC, ("m1", "m2")))
        judge.say("q", message("m1"))
        judge.wait(5 * SECOND)
        broken.add(judge.score("p") < 0)
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
    """A router that has turned much away lately, and a peer who sent it 20 invalid messages."""
    judge = Judge(gater=GATER, validate=True, max_pending_validations=1, first_heartbeat_ms=100_000, **given)
    judge.connect("bad", address="10.0.0.1")
    judge.connect("good", address="10.0.0.2")
    for number in range(20):
        judge.say("bad", message(f"b{number}"))
        judge.verdict(f"b{number}", Verdict.REJECT)
    judge.say("good", message("waits"))
    for number in range(60):
        judge.say("good", message(f"t{number}"))
    return judge


def test_a_bad_source_gets_only_its_control_accepted_while_there_is_too_much():
    """Rules: JUDGE-1, GATER-2. Nearly all of 300 draws go against it, none against a peer that sent nothing bad."""
    judge = gated()
    judge.verdict("waits", Verdict.ACCEPT)
    accepted = 0
    for number in range(300):
        actions = judge.say("bad", message(f"x{number}"), IHave(TOPIC, (f"y{number}",)))
        assert len(asked(actions)) == (number < 10)
        if ("bad", "PUBLISH", 1, Reason.GATED) not in dropped(actions):
            accepted += 1
            judge.verdict(f"x{number}", Verdict.IGNORE)
        judge.now += 1
    assert 0 < accepted < 30
    judge.now += 1
    assert any(isinstance(action, Validate) for action in judge.say("good", message("fine")))


def test_all_is_accepted_after_a_minute_without_turning_anything_away_and_of_direct_peers_always():
    """Rules: GATER-1, STANDING-1."""
    judge = gated()
    judge.feed(DirectPeerChosen("bad"))
    assert Reason.GATED not in {reason for *_, reason in dropped(judge.say("bad", message("d")))}
    judge = gated()
    judge.verdict("waits", Verdict.ACCEPT)
    judge.wait(60 * SECOND + 1)
    assert any(isinstance(action, Validate) for action in judge.say("bad", message("later")))


def test_who_is_kept_out_cannot_keep_promises():
    """Rules: PROMISE-4."""
    judge = gated(score=score(misbehaviour_weight=-1, misbehaviour_decay=0.99))
    judge.say("bad", IHave(TOPIC, ("m1",)))
    for number in range(5):
        judge.now += 1
        judge.say("bad", message(f"n{number}"))
    judge.wait(120 * SECOND)
    assert judge.score("bad") == 0


@pytest.mark.parametrize("protocol", [MESHSUB, MESHSUB_11, MESHSUB_12, FLOODSUB])
def test_versions_are_negotiated_with_scores_on(protocol):
    """Go's features: the mesh from 1.0, names and times from 1.1, IDONTWANT from 1.2, and floodsub has none of it."""
    judge = Judge(score=score(), exchange_peers=2, idontwant_threshold_bytes=1, degree_out=0)
    assert judge.strategy.protocols == (MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)
    judge.connect("p", protocol=protocol)
    judge.connect("q", "r")
    judge.beat()
    assert judge.mesh() == (["q", "r"] if protocol == FLOODSUB else ["p", "q", "r"])
    assert receivers(judge.say("q", message("m1")), IDontWant) == (["p"] if protocol == MESHSUB_12 else [])
    if protocol != FLOODSUB:
        judge.rate(-1, "p")
        [(_, prune)] = sent(judge.beat(), Prune)
        assert prune.backoff_s == (None if protocol == MESHSUB else 60)


def test_messages_of_the_graylisted_are_no_duplicates_either():
    judge = Judge(score=score(thresholds={"graylist": -1}))
    judge.connect("p", "q")
    judge.say("q", message("m1"))
    judge.rate(-2, "p")
    assert not any(isinstance(each, DuplicateReceived) for each in judge.say("p", message("m1")))


def test_nothing_but_subscriptions_is_said_to_the_graylisted():
    """It is in no mesh and no fan-out, gets no gossip and no message of one's own."""
    judge = Judge(score=score(), flood_publish=True, degree_out=0)
    judge.connect("bad", "q")
    judge.beat()
    judge.rate(-20_000, "bad")
    assert receivers(judge.beat(), Prune) == ["bad"]
    later = judge.publish("m1") + judge.wait(10 * SECOND) + judge.say("q", message("m2"))
    assert {action.peer for action in later if hasattr(action, "rpc")} == {"q"}


def test_the_gater_draws_again_each_time_and_the_same_again():
    rows = []
    for _ in range(2):
        judge = gated()
        rows.append([])
        for number in range(1_000):
            judge.now += MS
            rows[-1].append(bool(dropped(judge.say("bad", message(f"x{number}")))))
    assert rows[0] == rows[1]
    assert set(rows[0]) == {True, False}


def test_a_hundred_invalid_messages():
    """Go's AttackInvalidMessageSpam: weights of the evaluation of 2020, thresholds -100/-200/-300. After the first
    heartbeat the score is negative, something was rejected, and a PRUNE was sent; then nothing is looked at."""
    judge = Judge(
        score=score(
            {"topic_weight": 0.25, "invalid_messages_weight": -99, "invalid_messages_decay": 0.9994},
            thresholds={"gossip": -100, "publish": -200, "graylist": -300},
        ),
        validate=True,
    )
    judge.connect("p")
    judge.graft("p")
    actions = []
    for number in range(100):
        actions += judge.say("p", message(f"m{number}"))
        if f"m{number}" in judge.router.pending:
            actions += judge.verdict(f"m{number}", Verdict.REJECT)
    rejected = sum(isinstance(each, MessageRejected) for each in actions)
    assert rejected == 4
    assert judge.score("p") == -99 * 0.25 * 16
    assert dropped(actions).count(("p", "PUBLISH", 1, Reason.GRAYLISTED)) == 96
    assert receivers(judge.beat(), Prune) == ["p"]


def test_messages_of_an_rpc_are_judged_before_its_gossip():
    """Rules: JUDGE-2. A message in the router's own name costs too much (go, rust)."""
    judge = Judge(score=score({"invalid_messages_weight": -20}))
    judge.connect("p")
    assert asked(judge.say("p", message("m1", "me"), IHave(TOPIC, ("m2",)))) == []
    assert judge.score("p") == -20
