"""Peers that stay in or enter the mesh of a router with scores: go-libp2p-pubsub's tests, and the rules."""

from __future__ import annotations

import pytest
from judged import SECOND, TOPIC, Judge, receivers, score, sent

from hearsay.core.language.actions import PeerGrafted, PeerPruned
from hearsay.core.language.events import DirectPeerChosen
from hearsay.core.language.rpc import Graft, Prune

MANY = [f"p{number:02}" for number in range(40)]


def grown(count, outbound=(), **given):
    """A router before its heartbeat, whose mesh has this number of members; it dialled more than D_high of them."""
    given.setdefault("degree_high", 12)
    judge = Judge(**{"score": score(), "full_mesh": "accept", **given})
    for peer in MANY[:count]:
        judge.connect(peer, outbound=peer in outbound)
    judge.graft(*MANY[:count])
    return judge


@pytest.mark.parametrize(("size", "left"), [(7, 7), (8, 6), (9, 6)])
def test_a_mesh_of_d_high_is_pruned_to_d(size, left):
    """Go's PruneMeshCorrectly: eight links, D_high 8, and six are left."""
    judge = grown(size, degree_high=8, degree_out=0)
    judge.beat()
    assert len(judge.mesh()) == left


def test_negative_scores_leave_first_and_are_named_to_no_peer():
    """Rules: KEEP-1, THRESHOLD-1."""
    judge = grown(13, exchange_peers=4, degree_low=2, degree_out=0)
    judge.rate(-0.001, *MANY[:7])
    actions = judge.beat()
    assert judge.mesh() == MANY[7:13]
    assert [(peer, part.backoff_s, part.peers) for peer, part in sent(actions, Prune)] == [
        (peer, 60, ()) for peer in MANY[:7]
    ]


def test_no_peer_with_a_score_of_nought_leaves():
    judge = grown(6)
    judge.rate(0, *MANY[:6])
    judge.beat()
    assert judge.mesh() == MANY[:6]


@pytest.mark.parametrize("seed", range(4))
def test_the_best_stay(seed):
    """Rules: KEEP-2."""
    judge = grown(30, seed=seed, degree_out=0)
    judge.rate(5, "p07", "p11", "p23", "p29")
    judge.rate(1, "p01", "p02", "p03")
    judge.beat()
    assert len(judge.mesh()) == 6
    assert {"p07", "p11", "p23", "p29"} <= set(judge.mesh())


def test_the_others_that_stay_are_drawn_among_all():
    stayed = set()
    for seed in range(40):
        judge = grown(20, seed=seed, degree_out=0)
        judge.rate(5, *MANY[:4])
        judge.beat()
        assert judge.mesh()[:4] == MANY[:4]
        stayed |= set(judge.mesh())
    assert stayed == set(MANY[:20])


@pytest.mark.parametrize("seed", range(6))
def test_two_dialled_peers_stay(seed):
    """Rules: KEEP-3. They take no place of the best."""
    judge = grown(30, seed=seed, outbound=("p03", "p14"))
    judge.rate(9, "p20", "p21", "p22", "p23")
    judge.beat()
    assert judge.mesh() == ["p03", "p14", "p20", "p21", "p22", "p23"]


def test_as_many_stay_as_there_are():
    judge = grown(30, outbound=("p03",))
    judge.beat()
    assert "p03" in judge.mesh()
    assert len(judge.mesh()) == 6


@pytest.mark.parametrize(("repair", "staying"), [("to_degree_out", 2), ("to_degree", 5)])
def test_a_cut_that_would_leave_too_few_dialled_ones_keeps_more_of_them(repair, staying):
    """Rules: KEEP-3. js keeps as many as have places, once fewer than D_out would stay."""
    dialled = MANY[20:25]
    judge = grown(30, outbound=dialled, outbound_repair=repair, degree_score=0, seed=4)
    judge.beat()
    assert len(judge.mesh()) == 6
    assert len(set(judge.mesh()) & set(dialled)) == staying


def test_a_mesh_without_dialled_members_grafts_some():
    """Rules: KEEP-4."""
    judge = grown(7)
    judge.connect(*MANY[10:20], outbound=True)
    judge.connect(*MANY[20:30])
    judge.beat()
    assert len(judge.mesh()) == 9
    assert set(judge.mesh()) - set(MANY[:7]) <= set(MANY[10:20])


def test_a_mesh_that_was_filled_needs_no_more_dialled_ones_than_d_out():
    """Each step of a heartbeat sees what the one before it did."""
    judge = Judge(score=score())
    judge.connect(*MANY[:6], outbound=True)
    judge.connect(*MANY[6:9])
    judge.graft("p06", "p07", "p08")
    judge.beat()
    assert len(judge.mesh()) == 6


def test_dialled_ones_in_backoff_or_with_negative_scores_are_not_grafted():
    judge = grown(7)
    judge.connect("x", "y", "z", outbound=True)
    judge.graft("x")
    judge.say("x", Prune(TOPIC))
    judge.rate(-1, "y")
    judge.beat()
    assert set(judge.mesh()) - set(MANY[:7]) == {"z"}


def test_a_mesh_with_too_few_takes_any_peer_or_the_best():
    """`graft_choice`: at random, or by score (nim)."""
    for choice in ("random", "best"):
        judge = Judge(score=score(), graft_choice=choice, degree_out=0)
        judge.connect(*MANY)
        judge.rate(1, *MANY[30:36])
        judge.beat()
        assert len(judge.mesh()) == 6
        assert (judge.mesh() == MANY[30:36]) is (choice == "best")


def test_a_mesh_runs_dry_when_all_scores_are_negative():
    """Interaction of D_low and scores: no peer's score is high enough for a GRAFT."""
    judge = grown(6)
    judge.connect(*MANY[6:20])
    judge.rate(-1, *MANY[:20])
    judge.beat()
    assert judge.mesh() == []
    judge.rate(0, *MANY[6:20])
    judge.beat()
    assert len(judge.mesh()) == 6
    assert set(judge.mesh()) <= set(MANY[6:20])


def opportunity(scores, threshold=1.0, **given):
    """A mesh with members of these scores, and better peers outside it."""
    thresholds = {"opportunistic_graft": threshold}
    judge = grown(
        len(scores),
        score=score(thresholds=thresholds),
        opportunistic_graft_ticks=2,
        degree_low=1,
        degree_out=0,
        **given,
    )
    for peer, rating in zip(MANY, scores, strict=False):
        judge.rate(rating, peer)
    return judge


def test_a_poor_mesh_grafts_two_that_are_better_than_its_median():
    """Rules: KEEP-5, THRESHOLD-6."""
    judge = opportunity([0.5] * 6)
    judge.connect("better1", "better2", "better3", "same")
    judge.rate(0.6, "better1", "better2", "better3")
    judge.rate(0.5, "same")
    judge.beat()
    assert len(judge.mesh()) == 6
    actions = judge.beat()
    assert len(judge.mesh()) == 8
    assert {str(peer)[:6] for peer in receivers(actions, Graft)} == {"better"}


@pytest.mark.parametrize(
    ("scores", "median", "grafts"),
    [
        ([0, 0, 1, 1], "upper", False),
        ([0, 0, 1, 1], "mean", True),
        ([0, 0.9, 1], "upper", True),
        ([0, 1, 1], "mean", False),
        ([0.9], "upper", False),
    ],
)
def test_the_median_of_an_even_number_and_no_look_at_a_mesh_of_one(scores, median, grafts):
    """Rules: KEEP-5. go takes the upper one, rust the mean."""
    judge = opportunity(scores, median=median)
    judge.connect("best")
    judge.rate(9, "best")
    judge.beat(2)
    assert ("best" in judge.mesh()) is grafts


def test_an_opportunistic_graft_may_exceed_d_high_until_the_next_heartbeat():
    judge = opportunity([0.5] * 7, degree_high=8)
    judge.connect("better1", "better2")
    judge.rate(3, "better1", "better2")
    judge.beat(2)
    assert len(judge.mesh()) == 9 > 8
    judge.beat()
    assert len(judge.mesh()) == 6
    assert {"better1", "better2"} <= set(judge.mesh())


def test_pruned_by_score_then_filled_then_looked_at_for_better_ones():
    """The order of go's heartbeat: the ones pruned make room, and the median is that of who is here after."""
    judge = opportunity([-1, -1, 5, 5])
    judge.connect(*MANY[10:14])
    judge.rate(7, *MANY[10:14])
    judge.beat()
    actions = judge.beat()
    assert set(judge.mesh()) == {"p02", "p03"}
    assert [type(each) for each in actions if isinstance(each, PeerGrafted | PeerPruned)] == []


def test_a_direct_peer_is_in_no_mesh():
    """Rules: STANDING-1. One that becomes direct leaves it; one that is no longer direct may be grafted."""
    judge = Judge(score=score(), degree_out=0)
    judge.feed(DirectPeerChosen("friend"))
    judge.connect("friend", "late", "other")
    judge.beat()
    assert judge.mesh() == ["late", "other"]
    assert receivers(judge.feed(DirectPeerChosen("late")), Prune) == ["late"]
    assert judge.mesh() == ["other"]
    judge.feed(DirectPeerChosen("friend", False))
    judge.beat()
    assert judge.mesh() == ["friend", "other"]


def test_places_by_address_hold_without_scores():
    """Rules: PLACES-1, PLACES-2, in a router that ranks peers by something other than scores."""
    judge = Judge(flood_publish=True, places_per_address=2, degree_score=0, degree_out=0)
    judge.connect(*MANY[:20], address="10.0.0.1")
    judge.connect("a", "b", "c", "d")
    judge.beat()
    assert {"a", "b", "c", "d"} <= set(judge.mesh())
    assert len(judge.mesh()) == 6


def test_lent_places_are_pruned_first_without_scores():
    """Rules: PLACES-2."""
    judge = Judge(flood_publish=True, places_per_address=2, degree_score=4, degree_out=0, full_mesh="accept")
    judge.connect(*MANY[:12], address="10.0.0.1")
    judge.connect("a", "b", "c", "d")
    judge.graft(*MANY[:12], "a", "b", "c", "d")
    judge.beat()
    assert judge.mesh()[:4] == ["a", "b", "c", "d"]
    assert len(judge.mesh()) == 6


def test_a_peer_whose_score_has_recovered_is_grafted_after_its_backoff_and_the_slack():
    judge = grown(3, degree_out=0)
    judge.rate(-1, "p00")
    judge.beat()
    assert judge.mesh() == ["p01", "p02"]
    judge.rate(0, "p00")
    judge.wait(61 * SECOND)
    assert judge.mesh() == ["p01", "p02"]
    judge.wait(2 * SECOND)
    assert judge.mesh() == ["p00", "p01", "p02"]
