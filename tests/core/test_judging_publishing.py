"""Peers that a router with scores publishes to: flood publishing, fan-out, direct peers, peers that only flood."""

from __future__ import annotations

import pytest
from router_driver import SECOND, TOPIC, RouterDriver, copies, dialled, message, receivers, score_table, ways

from hearsay.core.language.actions import Via
from hearsay.core.language.events import DirectPeerChosen, Join, PeerRated, Publish, Verdict
from hearsay.core.language.rpc import FLOODSUB, MESHSUB_12, Graft, IDontWant, IHave
from hearsay.core.shell.contract import UsageError

MANY = [f"p{number:02}" for number in range(20)]


def test_own_messages_go_to_all_peers_with_sufficient_scores():
    """Rules: JUDGE-3, THRESHOLD-3. Copies for members have the reason MESH. Another author's message goes to members
    only."""
    driver = RouterDriver(score=score_table(), flood_publish=True)
    driver.connect(*MANY)
    driver.graft("p00", "p01")
    driver.rate(-100, "p00", "p05")
    driver.rate(-100.5, "p01", "p06")
    found = ways(driver.publish("m1"))
    assert found == {
        peer: Via.MESH if peer in ("p00", "p01") else Via.FLOOD_PUBLISH for peer in MANY if peer != "p06"
    }
    assert ways(driver.receive("p09", message("m2"))) == {"p00": Via.MESH, "p01": Via.MESH}


@pytest.mark.parametrize(("size", "copies_sent"), [(1, 20), (100_000, 20), (812_500, 15), (5_000_000, 5)])
def test_flood_publishing_is_limited_by_the_rate_of_one_heartbeat(size, copies_sent):
    """Rules: JUDGE-7. As in nim: 100 Mbit/s are 12 500 bytes in a millisecond; D_low peers or more get a copy."""
    driver = RouterDriver(score=score_table(), flood_publish=True, flood_publish_mbit=100)
    driver.connect(*MANY)
    driver.graft("p00", "p01")
    found = ways(driver.feed(Publish(message("m1", "me", size))))
    assert len(found) == copies_sent
    assert {found["p00"], found["p01"]} == {Via.MESH}


def test_topping_up_and_flood_publishing_send_one_copy_to_each_peer():
    driver = RouterDriver(score=score_table(), flood_publish=True, short_mesh="top_up")
    driver.connect(*MANY)
    driver.graft("p00")
    assert sorted(copies(driver.publish("m1"))) == [(peer, "m1") for peer in MANY]


def test_topping_up_leaves_out_low_scores():
    """Rules: THRESHOLD-3. `short_mesh` top_up (rust, js)."""
    driver = RouterDriver(score=score_table(), short_mesh="top_up")
    driver.connect("p", "q", "r")
    driver.rate(-101, "q")
    assert ways(driver.publish("m1")) == {"p": Via.TOP_UP, "r": Via.TOP_UP}


def test_flood_publishing_ignores_idontwant_outside_the_mesh():
    """IDONTWANT of members is obeyed (IDONTWANT-4), that of other peers is not (go)."""
    driver = RouterDriver(score=score_table(), flood_publish=True, idontwant_threshold_bytes=1)
    driver.connect("p", "q", protocol=MESHSUB_12)
    driver.graft("p")
    for peer in "pq":
        driver.receive(peer, IDontWant(("m1",)))
    assert ways(driver.publish("m1")) == {"q": Via.FLOOD_PUBLISH}


def test_flood_publishing_in_a_topic_that_is_not_joined():
    """Rules: JUDGE-3. Only copies of flood publishing are sent."""
    driver = RouterDriver(joined=(), score=score_table(), flood_publish=True, degree=2, degree_low=2, degree_out=0)
    driver.connect(*MANY)
    driver.rate(-101, "p03")
    found = ways(driver.publish("m1"))
    assert found == dict.fromkeys(set(MANY) - {"p03"}, Via.FLOOD_PUBLISH)


def test_without_flood_publish_the_mesh_alone_gets_it():
    driver = RouterDriver(score=score_table())
    driver.connect(*MANY)
    driver.graft("p00", "p01")
    assert ways(driver.publish("m1")) == {"p00": Via.MESH, "p01": Via.MESH}


def test_peers_that_only_flood_get_messages_if_their_scores_suffice():
    """Rules: JUDGE-4. This holds for own and for forwarded messages (go)."""
    driver = RouterDriver(score=score_table(), flood_publish=True)
    driver.connect("old", "older", "direct", protocol=FLOODSUB)
    driver.connect("q")
    driver.rate(-100.5, "older", "direct")
    driver.feed(DirectPeerChosen("direct"))
    assert ways(driver.publish("m1")) == {"direct": Via.FLOOD, "old": Via.FLOOD, "q": Via.FLOOD_PUBLISH}
    assert ways(driver.receive("q", message("m2"))) == {"direct": Via.FLOOD, "old": Via.FLOOD}


def test_a_direct_peer_is_neither_in_the_fanout_nor_in_the_mesh():
    """Rules: STANDING-1. Go's DirectPeersFanout."""
    driver = RouterDriver(joined=(), score=score_table())
    driver.feed(DirectPeerChosen("friend"))
    driver.connect("friend", "other")
    assert ways(driver.publish("m1")) == {"friend": Via.DIRECT, "other": Via.FANOUT}
    assert list(driver.strategy.fanout.peers(TOPIC)) == ["other"]
    driver.feed(Join(TOPIC))
    assert driver.mesh() == ["other"]


def test_a_peer_that_becomes_direct_leaves_the_fanout():
    driver = RouterDriver(joined=(), score=score_table())
    driver.connect("p", "q")
    driver.publish("m1")
    driver.feed(DirectPeerChosen("p"))
    assert list(driver.strategy.fanout.peers(TOPIC)) == ["q"]
    assert ways(driver.publish("m2")) == {"p": Via.DIRECT, "q": Via.FANOUT}


def test_low_scores_leave_the_fanout_at_the_heartbeat_and_others_take_their_places():
    """Rules: THRESHOLD-3. A peer whose score has recovered may enter the fan-out."""
    driver = RouterDriver(joined=(), score=score_table(), degree=2, degree_low=2, degree_out=0)
    driver.connect("p", "q")
    driver.rate(-101, "p")
    assert ways(driver.publish("m1")) == {"q": Via.FANOUT}
    driver.rate(0, "p")
    driver.beat()
    assert list(driver.strategy.fanout.peers(TOPIC)) == ["p", "q"]
    driver.rate(-101, "q")
    driver.connect("r")
    driver.beat()
    assert list(driver.strategy.fanout.peers(TOPIC)) == ["p", "r"]


def test_a_fanout_becomes_a_mesh_without_negative_scores():
    """Rules: THRESHOLD-1. A slightly negative score is enough for a fan-out, but not for a mesh."""
    driver = RouterDriver(joined=(), score=score_table())
    driver.connect("p", "q")
    driver.rate(-1, "p")
    assert set(ways(driver.publish("m1"))) == {"p", "q"}
    assert receivers(driver.feed(Join(TOPIC)), Graft) == ["q"]


def test_direct_peers_get_every_message_once_and_no_gossip():
    """Rules: STANDING-1. A direct peer gets neither the messages that it sent nor those that it does not want."""
    driver = RouterDriver(score=score_table(), idontwant_threshold_bytes=1, degree_out=0)
    driver.feed(DirectPeerChosen("friend"))
    driver.feed(DirectPeerChosen("second"))
    driver.connect("friend", "second", "q", protocol=MESHSUB_12)
    driver.rate(-1_000_000, "friend")
    driver.graft("q")
    assert ways(driver.publish("m1")) == {"friend": Via.DIRECT, "second": Via.DIRECT, "q": Via.MESH}
    assert ways(driver.receive("friend", message("m2"))) == {"second": Via.DIRECT, "q": Via.MESH}
    driver.receive("second", IDontWant(("m3",)))
    assert ways(driver.receive("q", message("m3"))) == {"friend": Via.DIRECT}
    assert receivers(driver.beat(), IHave) == []


def test_a_message_reaches_a_direct_peer_though_the_mesh_is_empty():
    driver = RouterDriver(score=score_table(), flood_publish=False)
    driver.feed(DirectPeerChosen("direct"))
    driver.connect("direct")
    assert driver.strategy.mesh.topics[TOPIC].members == set()
    assert driver.strategy.reaches(TOPIC)
    assert ways(driver.publish("m1")) == {"direct": Via.DIRECT}


def test_a_direct_peer_that_is_not_in_the_topic_gets_nothing_of_it():
    driver = RouterDriver(score=score_table())
    driver.feed(DirectPeerChosen("friend"))
    driver.connect("friend", topics=())
    assert copies(driver.publish("m1")) == []


def test_disconnected_direct_peers_are_dialled_every_second_heartbeat():
    """Rules: JUDGE-5. The first heartbeat dials, and from then on each second one."""
    driver = RouterDriver(score=score_table(), direct_connect_ticks=2)
    driver.feed(DirectPeerChosen("b"))
    driver.feed(DirectPeerChosen("a"))
    driver.connect("b")
    assert [dialled(driver.beat()) for _ in range(4)] == [["a"], [], ["a"], []]
    driver.disconnect("b")
    assert [dialled(driver.beat()) for _ in range(2)] == [["a", "b"], []]
    driver.connect("a")
    driver.feed(DirectPeerChosen("b", False))
    assert [dialled(driver.beat()) for _ in range(2)] == [[], []]


@pytest.mark.parametrize(("ticks", "found"), [(1, [True] * 4), (3, [True, False, False, True]), (0, [False] * 4)])
def test_direct_peers_are_dialled_every_direct_connect_ticks(ticks, found):
    """Rules: JUDGE-5."""
    driver = RouterDriver(score=score_table(), direct_connect_ticks=ticks)
    driver.feed(DirectPeerChosen("a"))
    assert [dialled(driver.beat()) == ["a"] for _ in range(4)] == found


def test_direct_peers_can_change_at_run_time():
    """Go's DynamicDirectPeers: first one direct peer, then none."""
    driver = RouterDriver(score=score_table())
    driver.connect("p")
    driver.feed(DirectPeerChosen("p"))
    assert driver.strategy.standing.direct == {"p"}
    driver.feed(DirectPeerChosen("p", False))
    driver.feed(DirectPeerChosen("p", False))
    assert driver.strategy.standing.direct == set()


@pytest.mark.parametrize(
    "event",
    [
        DirectPeerChosen("me"),
        PeerRated("p", float("nan")),
        PeerRated("p", float("inf")),
        PeerRated("p", -2e9),
    ],
)
def test_invalid_events_are_refused_before_anything_changes(event):
    driver = RouterDriver(score=score_table())
    driver.connect("p")
    with pytest.raises(UsageError):
        driver.router.handle(event, SECOND)
    assert driver.router.now == 0
    assert driver.score("p") == 0
    assert driver.strategy.standing.direct == set()


def test_a_message_that_is_ignored_or_rejected_goes_to_no_peer():
    """Go's ScoreValidatorEx. The sender of an ignored message has a score of zero, the sender of a rejected one a
    negative score."""
    driver = RouterDriver(score=score_table({"invalid_messages_weight": -1}), validate=True)
    driver.connect("b", "c", "d")
    driver.graft("d")
    driver.feed(DirectPeerChosen("friend"))
    driver.receive("b", message("m1"))
    driver.receive("c", message("m2"))
    assert copies(driver.verdict("m1", Verdict.IGNORE)) == copies(driver.verdict("m2", Verdict.REJECT)) == []
    assert driver.score("b") == 0
    assert driver.score("c") < 0
