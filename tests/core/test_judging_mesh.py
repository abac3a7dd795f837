"""Peers that a heartbeat of a router with scores keeps, prunes or grafts: go-libp2p-pubsub's tests, and the rules."""

from __future__ import annotations

import pytest
from router_driver import SECOND, TOPIC, RouterDriver, receivers, score_table, sent

from hearsay.core.language.actions import PeerGrafted, PeerPruned
from hearsay.core.language.events import DirectPeerChosen
from hearsay.core.language.rpc import Graft, Prune

MANY = [f"p{number:02}" for number in range(40)]


def grown(count, outbound=(), **given):
    """Return a router before its heartbeat, with a number of members. It dialled the members in `outbound`."""
    given.setdefault("degree_high", 12)
    driver = RouterDriver(**{"score": score_table(), "full_mesh": "accept", **given})
    for peer in MANY[:count]:
        driver.connect(peer, outbound=peer in outbound)
    driver.graft(*MANY[:count])
    return driver


@pytest.mark.parametrize(("size", "left"), [(7, 7), (8, 6), (9, 6)])
def test_a_mesh_of_d_high_is_pruned_to_d(size, left):
    """Go's PruneMeshCorrectly: eight links, D_high 8, and six are left."""
    driver = grown(size, degree_high=8, degree_out=0)
    driver.beat()
    assert len(driver.mesh()) == left


def test_negative_scores_leave_first_and_are_named_to_no_peer():
    """Rules: KEEP-1, THRESHOLD-1."""
    driver = grown(13, exchange_peers=4, degree_low=2, degree_out=0)
    driver.rate(-0.001, *MANY[:7])
    actions = driver.beat()
    assert driver.mesh() == MANY[7:13]
    assert [(peer, part.backoff_s, part.peers) for peer, part in sent(actions, Prune)] == [
        (peer, 60, ()) for peer in MANY[:7]
    ]


def test_no_peer_with_a_score_of_zero_is_pruned():
    driver = grown(6)
    driver.rate(0, *MANY[:6])
    driver.beat()
    assert driver.mesh() == MANY[:6]


@pytest.mark.parametrize("seed", range(4))
def test_members_with_the_best_scores_stay(seed):
    """Rules: KEEP-2."""
    driver = grown(30, seed=seed, degree_out=0)
    driver.rate(5, "p07", "p11", "p23", "p29")
    driver.rate(1, "p01", "p02", "p03")
    driver.beat()
    assert len(driver.mesh()) == 6
    assert {"p07", "p11", "p23", "p29"} <= set(driver.mesh())


def test_the_others_that_stay_are_drawn_among_all():
    stayed = set()
    for seed in range(40):
        driver = grown(20, seed=seed, degree_out=0)
        driver.rate(5, *MANY[:4])
        driver.beat()
        assert driver.mesh()[:4] == MANY[:4]
        stayed |= set(driver.mesh())
    assert stayed == set(MANY[:20])


@pytest.mark.parametrize("seed", range(6))
def test_two_dialled_peers_stay(seed):
    """Rules: KEEP-3. All D_score peers with the best scores stay, too."""
    driver = grown(30, seed=seed, outbound=("p03", "p14"))
    driver.rate(9, "p20", "p21", "p22", "p23")
    driver.beat()
    assert driver.mesh() == ["p03", "p14", "p20", "p21", "p22", "p23"]


def test_the_only_dialled_member_stays():
    driver = grown(30, outbound=("p03",))
    driver.beat()
    assert "p03" in driver.mesh()
    assert len(driver.mesh()) == 6


@pytest.mark.parametrize(("repair", "staying"), [("to_degree_out", 2), ("to_degree", 5)])
def test_pruning_that_would_leave_too_few_dialled_members_keeps_more_of_them(repair, staying):
    """Rules: KEEP-3. If fewer than D_out dialled members would stay, js keeps all of them that fit."""
    dialled = MANY[20:25]
    driver = grown(30, outbound=dialled, outbound_repair=repair, degree_score=0, seed=4)
    driver.beat()
    assert len(driver.mesh()) == 6
    assert len(set(driver.mesh()) & set(dialled)) == staying


def test_a_mesh_without_dialled_members_grafts_some():
    """Rules: KEEP-4."""
    driver = grown(7)
    driver.connect(*MANY[10:20], outbound=True)
    driver.connect(*MANY[20:30])
    driver.beat()
    assert len(driver.mesh()) == 9
    assert set(driver.mesh()) - set(MANY[:7]) <= set(MANY[10:20])


def test_a_mesh_that_was_filled_needs_no_more_dialled_ones_than_d_out():
    """The step that grafts dialled peers counts those that the step before has grafted."""
    driver = RouterDriver(score=score_table())
    driver.connect(*MANY[:6], outbound=True)
    driver.connect(*MANY[6:9])
    driver.graft("p06", "p07", "p08")
    driver.beat()
    assert len(driver.mesh()) == 6


def test_dialled_ones_in_backoff_or_with_negative_scores_are_not_grafted():
    driver = grown(7)
    driver.connect("x", "y", "z", outbound=True)
    driver.graft("x")
    driver.receive("x", Prune(TOPIC))
    driver.rate(-1, "y")
    driver.beat()
    assert set(driver.mesh()) - set(MANY[:7]) == {"z"}


def test_a_mesh_with_too_few_takes_any_peer_or_the_best():
    """`graft_choice`: at random, or by score (nim)."""
    for choice in ("random", "best"):
        driver = RouterDriver(score=score_table(), graft_choice=choice, degree_out=0)
        driver.connect(*MANY)
        driver.rate(1, *MANY[30:36])
        driver.beat()
        assert len(driver.mesh()) == 6
        assert (driver.mesh() == MANY[30:36]) is (choice == "best")


def test_a_mesh_is_empty_when_all_scores_are_negative():
    """The mesh stays below D_low, since a peer with a negative score is not grafted."""
    driver = grown(6)
    driver.connect(*MANY[6:20])
    driver.rate(-1, *MANY[:20])
    driver.beat()
    assert driver.mesh() == []
    driver.rate(0, *MANY[6:20])
    driver.beat()
    assert len(driver.mesh()) == 6
    assert set(driver.mesh()) <= set(MANY[6:20])


def opportunity(scores, threshold=1.0, **given):
    """Return a router whose members have these scores, with opportunistic grafts in each second heartbeat."""
    thresholds = {"opportunistic_graft": threshold}
    driver = grown(
        len(scores),
        score=score_table(thresholds=thresholds),
        opportunistic_graft_ticks=2,
        degree_low=1,
        degree_out=0,
        **given,
    )
    for peer, rating in zip(MANY, scores, strict=False):
        driver.rate(rating, peer)
    return driver


def test_a_poor_mesh_grafts_two_that_are_better_than_its_median():
    """Rules: KEEP-5, THRESHOLD-6."""
    driver = opportunity([0.5] * 6)
    driver.connect("better1", "better2", "better3", "same")
    driver.rate(0.6, "better1", "better2", "better3")
    driver.rate(0.5, "same")
    driver.beat()
    assert len(driver.mesh()) == 6
    actions = driver.beat()
    assert len(driver.mesh()) == 8
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
def test_the_median_decides_on_opportunistic_grafts_except_in_a_mesh_of_one(scores, median, grafts):
    """Rules: KEEP-5. go takes the upper one, rust the mean."""
    driver = opportunity(scores, median=median)
    driver.connect("best")
    driver.rate(9, "best")
    driver.beat(2)
    assert ("best" in driver.mesh()) is grafts


def test_an_opportunistic_graft_may_exceed_d_high_until_the_next_heartbeat():
    driver = opportunity([0.5] * 7, degree_high=8)
    driver.connect("better1", "better2")
    driver.rate(3, "better1", "better2")
    driver.beat(2)
    assert len(driver.mesh()) == 9 > 8
    driver.beat()
    assert len(driver.mesh()) == 6
    assert {"better1", "better2"} <= set(driver.mesh())


def test_opportunistic_grafts_follow_pruning_and_filling():
    """As in go, the median is that of the members after pruning and filling: 5, which is above the threshold."""
    driver = opportunity([-1, -1, 5, 5])
    driver.connect(*MANY[10:14])
    driver.rate(7, *MANY[10:14])
    driver.beat()
    actions = driver.beat()
    assert set(driver.mesh()) == {"p02", "p03"}
    assert [type(each) for each in actions if isinstance(each, PeerGrafted | PeerPruned)] == []


def test_a_direct_peer_is_in_no_mesh():
    """Rules: STANDING-1. A member that becomes direct is pruned. A peer that is no longer direct may be grafted."""
    driver = RouterDriver(score=score_table(), degree_out=0)
    driver.feed(DirectPeerChosen("friend"))
    driver.connect("friend", "late", "other")
    driver.beat()
    assert driver.mesh() == ["late", "other"]
    assert receivers(driver.feed(DirectPeerChosen("late")), Prune) == ["late"]
    assert driver.mesh() == ["other"]
    driver.feed(DirectPeerChosen("friend", False))
    driver.beat()
    assert driver.mesh() == ["friend", "other"]


def test_places_by_address_hold_without_scores():
    """Rules: PLACES-1, PLACES-2, in a router with `flood_publish` and without scores."""
    driver = RouterDriver(flood_publish=True, places_per_address=2, degree_score=0, degree_out=0)
    driver.connect(*MANY[:20], address="10.0.0.1")
    driver.connect("a", "b", "c", "d")
    driver.beat()
    assert {"a", "b", "c", "d"} <= set(driver.mesh())
    assert len(driver.mesh()) == 6


def test_lent_places_are_pruned_first_without_scores():
    """Rules: PLACES-2."""
    driver = RouterDriver(flood_publish=True, places_per_address=2, degree_score=4, degree_out=0, full_mesh="accept")
    driver.connect(*MANY[:12], address="10.0.0.1")
    driver.connect("a", "b", "c", "d")
    driver.graft(*MANY[:12], "a", "b", "c", "d")
    driver.beat()
    assert driver.mesh()[:4] == ["a", "b", "c", "d"]
    assert len(driver.mesh()) == 6


def test_a_peer_whose_score_has_recovered_is_grafted_after_its_backoff_and_the_slack():
    driver = grown(3, degree_out=0)
    driver.rate(-1, "p00")
    driver.beat()
    assert driver.mesh() == ["p01", "p02"]
    driver.rate(0, "p00")
    driver.wait(61 * SECOND)
    assert driver.mesh() == ["p01", "p02"]
    driver.wait(2 * SECOND)
    assert driver.mesh() == ["p00", "p01", "p02"]
