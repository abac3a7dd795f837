"""Answers of a router with scores to GRAFT and PRUNE: go-libp2p-pubsub's tests with their numbers, and the rules."""

from __future__ import annotations

import pytest
from judged import MS, SECOND, TOPIC, Judge, dialled, dropped, receivers, rpc, score, sent

from hearsay.core.language.actions import PeerGrafted, Reason
from hearsay.core.language.events import DirectPeerChosen, Join, Leave, PeerConnected, RpcReceived, TimerFired
from hearsay.core.language.rpc import MESHSUB, MESHSUB_11, Graft, PeerInfo, Prune, Subscription
from hearsay.core.registry import create, find_router
from hearsay.core.rules.randomness import Randomness

MANY = [f"p{number:02}" for number in range(30)]
MISBEHAVIOUR = {"misbehaviour_weight": -1, "misbehaviour_decay": 0.99}


def pruned(actions):
    return [(peer, part.backoff_s, [each.peer for each in part.peers]) for peer, part in sent(actions, Prune)]


def full(**given):
    """A mesh of twelve peers that dialled in, thirteen more in the topic."""
    judge = Judge(score=score(), exchange_peers=3, **given)
    judge.connect(*MANY[:25])
    judge.graft(*MANY[:12])
    return judge


def test_one_rpc_grafts_into_three_meshes():
    """Go's MultipleGraftTopics."""
    judge = Judge(joined=("t1", "t2", "t3"), score=score())
    judge.connect("p", topics=("t1", "t2", "t3"))
    judge.say("p", Graft("t1"), Graft("t2"), Graft("t3"))
    assert [judge.mesh(topic) for topic in ("t1", "t2", "t3")] == [["p"], ["p"], ["p"]]


def test_a_graft_for_a_topic_without_peers_gets_nothing_for_100_ms():
    """Go's AttackGRAFTNonExistentTopic."""
    judge = Judge(score=score(**MISBEHAVIOUR))
    judge.connect("p", topics=("elsewhere",))
    actions = judge.say("p", Graft("elsewhere"))
    assert receivers(actions + judge.wait(100 * MS), Prune) == []
    assert judge.score("p") == 0


def test_grafts_during_backoff_lead_to_the_graylist():
    """Rules: BACKOFF-7, GRAFT-5, JUDGE-1. Go's AttackGRAFTDuringBackoff: backoff 200 ms, flood limit 100 ms, P7 -100,
    graylist -1000."""
    judge = Judge(
        prune_backoff_ms=200,
        graft_flood_ms=100,
        first_heartbeat_ms=10_000,
        score=score(
            misbehaviour_weight=-100,
            misbehaviour_decay=0.99,
            thresholds={"gossip": -100, "publish": -500, "graylist": -1000},
        ),
    )
    judge.connect("p")
    judge.graft("p")
    assert receivers(judge.say("p", Prune(TOPIC)), Prune) == []
    judge.wait(121 * MS)
    assert receivers(judge.graft("p"), Prune) == ["p"]
    assert judge.score("p") == -100
    judge.wait(20 * MS)
    assert receivers(judge.graft("p"), Prune) == ["p"]
    assert judge.score("p") == -900
    judge.wait(20 * MS)
    assert receivers(judge.graft("p"), Prune) == ["p"]
    assert judge.score("p") == -2500 < -1000
    judge.wait(221 * MS)
    assert receivers(judge.graft("p"), Prune) == []
    assert judge.mesh() == []


@pytest.mark.parametrize(("after", "expected"), [(9_999, -4), (10_000, -1), (59_999, -1), (60_000, 0)])
def test_a_graft_within_ten_seconds_of_the_prune_counts_twice(after, expected):
    """Rules: BACKOFF-7."""
    judge = Judge(first_heartbeat_ms=200_000, score=score(**MISBEHAVIOUR, decay_interval_ms=200_000))
    judge.connect("p")
    judge.graft("p")
    judge.say("p", Prune(TOPIC, 60))
    judge.wait(after * MS)
    judge.graft("p")
    assert judge.score("p") == expected


@pytest.mark.parametrize(("after", "expected"), [(55_999, -0.01), (56_000, 0), (60_000, 0)])
def test_a_graft_shortly_before_the_end_is_none_too_early(after, expected):
    """Rules: BACKOFF-8. nim: four seconds, and a tenth of misbehaviour before."""
    judge = Judge(
        first_heartbeat_ms=200_000,
        score=score(**MISBEHAVIOUR, decay_interval_ms=200_000),
        early_graft_ms=4_000,
        early_graft_penalty=0.1,
        graft_flood_ms=0,
    )
    judge.connect("p")
    judge.graft("p")
    judge.say("p", Prune(TOPIC, 60))
    judge.wait(after * MS)
    judge.graft("p")
    assert judge.score("p") == pytest.approx(expected)
    assert judge.mesh() == ([] if expected else ["p"])


def test_a_graft_with_a_negative_score_is_taken_in_for_a_while_or_gets_nothing():
    """Rules: GRAFT-9. nim: below `publish` nothing is said, above it the next heartbeat prunes."""
    judge = Judge(score=score(), unwelcome_graft="taken_in", degree=1, degree_low=1, degree_out=0)
    judge.connect("bad", "worst")
    judge.rate(-100, "bad")
    judge.rate(-100.5, "worst")
    assert pruned(judge.graft("bad", "worst")) == []
    assert judge.mesh() == ["bad"]
    assert pruned(judge.beat()) == [("bad", 60, [])]
    judge.rate(0, "worst")
    assert judge.graft("worst") == [PeerGrafted(TOPIC, "worst")]


def test_a_graft_with_a_negative_score_gets_a_prune_that_names_no_peer_and_a_backoff():
    """Rules: GRAFT-9, THRESHOLD-1."""
    judge = Judge(score=score(), exchange_peers=3)
    judge.connect("bad", "good", "better")
    judge.rate(-0.5, "bad")
    actions = judge.graft("bad")
    assert dropped(actions) == [("bad", "GRAFT", 1, Reason.LOW_SCORE)]
    assert pruned(actions) == [("bad", 60, [])]
    judge.rate(0, "bad")
    assert dropped(judge.graft("bad")) == [("bad", "GRAFT", 1, Reason.BACKOFF)]


def test_a_full_mesh_refuses_with_the_names_of_others_that_are_welcome():
    """Rules: GRAFT-6, THRESHOLD-1."""
    judge = full()
    judge.rate(-1, *MANY[:23])
    assert pruned(judge.graft("p24")) == [("p24", 60, ["p23"])]


@pytest.mark.parametrize("when", ["always", "quota", "never"])
def test_peers_that_a_full_mesh_takes_in(when):
    """Rules: KEEP-6. go and js keep all peers that were dialled, nim keeps two, rust none."""
    judge = full(outbound_when_full=when)
    judge.connect("q1", "q2", "q3", outbound=True)
    judge.graft("q1", "q2", "q3")
    taken = {"always": ["q1", "q2", "q3"], "quota": ["q1", "q2"], "never": []}
    assert [peer for peer in judge.mesh() if str(peer)[0] == "q"] == taken[when]
    assert "p24" not in judge.mesh()


@pytest.mark.parametrize("topics", [("nowhere", TOPIC), (TOPIC, "nowhere")])
def test_after_a_graft_out_of_place_no_peer_is_named_in_its_rpc(topics):
    """Go's protection against peers that collect names: an unknown topic and a full mesh, in either order."""
    judge = full()
    judge.say("p24", Subscription("other", True))
    assert pruned(judge.say("p24", *map(Graft, topics))) == [("p24", 60, [])]


def test_no_peer_is_named_to_others_either_only_while_that_rpc_lasts():
    """A heartbeat after it names others again."""
    judge = full()
    judge.say("p24", Graft("nowhere"))
    assert all(len(named) == 3 for _, _, named in pruned(judge.beat()))
    judge = full()
    judge.say("p24", Graft("nowhere"))
    assert all(len(named) == 3 for _, _, named in pruned(judge.feed(Leave(TOPIC))))


def test_a_member_that_sends_graft_again_still_gets_the_names_of_others():
    judge = full()
    judge.feed(Join("second"))
    for peer in MANY[13:25]:
        judge.say(peer, Subscription("second", True), Graft("second"))
    judge.say("p00", Subscription("second", True))
    [(peer, _, named)] = pruned(judge.say("p00", Graft(TOPIC), Graft("second")))
    assert (peer, len(named)) == ("p00", 3)


def test_a_direct_peers_graft():
    """Rules: GRAFT-8. go answers with a PRUNE that names no peer, rust does not answer."""
    for answer, expected in (("prune", [("p", 60, [])]), ("ignore", [])):
        judge = Judge(score=score(), exchange_peers=3, direct_graft=answer)
        judge.feed(DirectPeerChosen("p"))
        judge.connect("p", "q", "r")
        actions = judge.graft("p")
        assert dropped(actions) == [("p", "GRAFT", 1, Reason.DIRECT_PEER)]
        assert pruned(actions) == expected
        assert judge.mesh() == []


def test_leaver_and_who_stays_hold_a_backoff_of_ten_seconds():
    """Rules: BACKOFF-5. Go's LeaveTopic."""
    judge = Judge(score=score())
    judge.connect("p")
    judge.graft("p")
    assert pruned(judge.feed(Leave(TOPIC))) == [("p", 10, [])]
    judge.feed(Join(TOPIC))
    assert judge.mesh() == []
    judge.wait(9_999 * MS)
    assert dropped(judge.graft("p")) == [("p", "GRAFT", 1, Reason.BACKOFF)]
    other = Judge(score=score())
    other.connect("p")
    other.graft("p")
    other.say("p", Prune(TOPIC, 10))
    other.wait(10 * SECOND)
    other.graft("p")
    assert other.mesh() == ["p"]


def test_a_peer_in_backoff_is_not_taken_when_one_joins():
    """Go's JoinTopic: the other is, the mesh has one member."""
    judge = Judge(score=score())
    judge.connect("p", "q")
    judge.graft("p")
    judge.feed(Leave(TOPIC))
    judge.feed(Join(TOPIC))
    assert judge.mesh() == ["q"]


@pytest.mark.parametrize(("seconds", "wait"), [(2**64 - 1, 3600), (2**62, 3600), (1, 1)])
def test_hostile_backoffs_are_clamped_to_an_hour(seconds, wait):
    """Rules: BACKOFF-4."""
    judge = Judge(score=score(), first_heartbeat_ms=10_000_000)
    judge.connect("p")
    judge.graft("p")
    judge.say("p", Prune(TOPIC, seconds))
    judge.wait(wait * SECOND - 1)
    assert dropped(judge.graft("p")) == [("p", "GRAFT", 1, Reason.BACKOFF)]


def test_backoff_is_remembered_for_longer_than_a_score():
    """Retention of 30 s, backoff of 60 s, as in the evaluation of 2020: a peer comes back with a clean slate, and
    must wait all the same."""
    judge = Judge(score=score(**MISBEHAVIOUR, retain_ms=30_000))
    judge.connect("p")
    judge.graft("p")
    judge.say("p", Prune(TOPIC))
    judge.graft("p")
    assert judge.score("p") == -4
    judge.disconnect("p")
    judge.wait(20 * SECOND)
    judge.connect("p")
    assert judge.score("p") == -4
    judge.disconnect("p")
    judge.wait(32 * SECOND)
    judge.connect("p")
    assert judge.score("p") == 0
    assert dropped(judge.graft("p")) == [("p", "GRAFT", 1, Reason.BACKOFF)]


def test_names_in_a_prune_are_dialled_if_the_score_reaches_the_threshold():
    """Rules: THRESHOLD-5. The PRUNE itself counts in any case."""
    judge = Judge(score=score(thresholds={"accept_exchange": 10}), exchange_peers=16, accept_exchange=True)
    named = tuple(PeerInfo(peer) for peer in ("x", "me", "p", "q", "y"))
    for rating, expected in ((9.5, []), (10, ["x", "y"])):
        judge.connect("p", "q")
        judge.rate(rating, "p")
        judge.graft("p")
        judge.now += 61 * SECOND
        judge.graft("p")
        actions = judge.say("p", Prune(TOPIC, 60, named))
        assert (dialled(actions), judge.mesh()) == (expected, [])
        judge.disconnect("p")
        judge.disconnect("q")


def test_of_a_thousand_names_sixteen_are_dialled_drawn_among_all():
    judge = Judge(score=score(), exchange_peers=16, accept_exchange=True)
    judge.connect("p")
    named = tuple(PeerInfo(f"x{number:04}") for number in range(1000))
    found = dialled(judge.say("p", Prune(TOPIC, 60, named * 2)))
    assert len(set(found)) == len(found) == 16
    assert found != [each.peer for each in named[:16]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"accept_exchange": True, "exchange_peers": 16, "exchange_dials": 3}, 3),
        ({"accept_exchange": True, "exchange_peers": 16}, 16),
        ({"accept_exchange": True, "exchange_dials": 5}, 5),
        ({"accept_exchange": True}, 0),
        ({"exchange_peers": 16, "exchange_dials": 5}, 0),
    ],
)
def test_how_many_are_dialled_is_said_apart_from_how_many_are_named(given, expected):
    """Rules: MESH-6. Go names no peer unless it is asked, and dials 16 of those that others name."""
    named = tuple(PeerInfo(f"x{number:02}") for number in range(30))
    judge = Judge(score=score(), **given)
    judge.connect("p")
    assert len(dialled(judge.say("p", Prune(TOPIC, 60, named)))) == expected
    kind = find_router("gossipsub")
    router = create(kind, "me", kind.parameters.from_mapping({**kind.presets["v1.1"], **given}), Randomness(1))
    router.handle(Join(TOPIC), 0)
    router.handle(PeerConnected("p", MESHSUB_11, (TOPIC,)), 0)
    assert len(dialled(router.handle(RpcReceived("p", rpc(Prune(TOPIC, 60, named))), 0))) == expected


MANY_NAMES = [Prune(TOPIC, 60, tuple(PeerInfo(f"x{each}.{number}") for number in range(16))) for each in range(20)]


def test_of_many_prunes_so_many_peers_are_dialled_between_two_heartbeats():
    """Rules: MESH-6. Go has 128 dials waiting at most."""
    judge = Judge(score=score(), exchange_peers=16, accept_exchange=True)
    judge.connect("p")
    assert len(dialled(judge.say("p", *MANY_NAMES))) == 128
    assert dialled(judge.say("p", *MANY_NAMES)) == []
    judge.beat()
    assert len(dialled(judge.say("p", *MANY_NAMES))) == 128


def test_so_does_a_router_that_does_not_judge():
    """Rules: MESH-6."""
    kind = find_router("meshsub")
    given = {**kind.presets["v1.1"], "exchange_peers": 16, "accept_exchange": True}
    router = create(kind, "me", kind.parameters.from_mapping(given), Randomness(1))
    router.handle(Join(TOPIC), 0)
    router.handle(PeerConnected("p", MESHSUB_11, (TOPIC,)), 0)
    said = RpcReceived("p", rpc(*MANY_NAMES))
    assert [len(dialled(router.handle(said, 0))) for _ in range(2)] == [128, 0]
    due = router.deadline()
    assert due is not None
    router.handle(TimerFired(), due)
    assert len(dialled(router.handle(said, due))) == 128


def test_a_prune_of_one_who_has_left_counts_again_with_go():
    """Rules: ACTIVE-4, by way of the router."""
    deficit = {
        "mesh_deliveries_weight": 0,
        "mesh_failure_weight": -1,
        "mesh_failure_decay": 0.9,
        "mesh_deliveries_decay": 0.9,
        "mesh_deliveries_cap": 100,
        "mesh_deliveries_threshold": 20,
        "mesh_deliveries_activation_ms": 1_000,
    }
    for again, expected in ((True, -800), (False, -400)):
        judge = Judge(
            score=score(deficit, second_prune_counts=again, deficit_after_prune=again), first_heartbeat_ms=100_000
        )
        judge.connect("p")
        judge.graft("p")
        judge.wait(2 * SECOND)
        judge.say("p", Prune(TOPIC))
        judge.say("p", Prune(TOPIC))
        assert judge.score("p") == expected


def test_a_peer_of_one_point_nought_gets_neither_time_nor_names():
    judge = Judge(score=score(), exchange_peers=3)
    judge.connect("old", protocol=MESHSUB)
    judge.connect("q", "r")
    judge.rate(-1, "old")
    assert pruned(judge.graft("old")) == [("old", None, [])]


def test_who_joins_is_grafted_at_once_while_the_mesh_has_too_few():
    """Rules: JUDGE-6. rust and js do, go waits for its heartbeat."""
    for at_once in (True, False):
        judge = Judge(score=score(), graft_on_subscribe=at_once)
        judge.connect(*MANY[:7], topics=())
        judge.rate(-1, "p00")
        for peer in MANY[:7]:
            judge.say(peer, Subscription(TOPIC, True))
        assert judge.mesh() == (MANY[1:6] if at_once else [])
