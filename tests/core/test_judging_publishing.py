"""Peers that a router with scores publishes to: flood publishing, fan-out, direct peers, peers that only flood."""

from __future__ import annotations

import pytest
from judged import SECOND, TOPIC, Judge, copies, dialled, message, receivers, score, ways

from hearsay.core.language.actions import Via
from hearsay.core.language.events import DirectPeerChosen, Join, PeerRated, Publish, Verdict
from hearsay.core.language.rpc import FLOODSUB, MESHSUB_12, Graft, IDontWant, IHave
from hearsay.core.shell.contract import UsageError

MANY = [f"p{number:02}" for number in range(20)]


def test_ones_own_messages_go_to_all_whose_score_is_enough():
    """Rules: JUDGE-3, THRESHOLD-3. The mesh gets its copies as such; a message of others goes to the mesh alone."""
    judge = Judge(score=score(), flood_publish=True)
    judge.connect(*MANY)
    judge.graft("p00", "p01")
    judge.rate(-100, "p00", "p05")
    judge.rate(-100.5, "p01", "p06")
    found = ways(judge.publish("m1"))
    assert found == {
        peer: Via.MESH if peer in ("p00", "p01") else Via.FLOOD_PUBLISH for peer in MANY if peer != "p06"
    }
    assert ways(judge.say("p09", message("m2"))) == {"p00": Via.MESH, "p01": Via.MESH}


@pytest.mark.parametrize(("size", "copies_sent"), [(1, 20), (100_000, 20), (812_500, 15), (5_000_000, 5)])
def test_flooding_serves_as_many_as_the_rate_does_in_a_heartbeat(size, copies_sent):
    """Rules: JUDGE-7. nim: 100 Mbit/s are 12 500 bytes a millisecond; D_low are served in any case."""
    judge = Judge(score=score(), flood_publish=True, flood_publish_mbit=100)
    judge.connect(*MANY)
    judge.graft("p00", "p01")
    found = ways(judge.feed(Publish(message("m1", "me", size))))
    assert len(found) == copies_sent
    assert {found["p00"], found["p01"]} == {Via.MESH}


def test_one_copy_each_with_topping_up_next_to_flooding():
    judge = Judge(score=score(), flood_publish=True, short_mesh="top_up")
    judge.connect(*MANY)
    judge.graft("p00")
    assert sorted(copies(judge.publish("m1"))) == [(peer, "m1") for peer in MANY]


def test_topping_up_leaves_out_low_scores():
    """Rules: THRESHOLD-3. `short_mesh` top_up (rust, js)."""
    judge = Judge(score=score(), short_mesh="top_up")
    judge.connect("p", "q", "r")
    judge.rate(-101, "q")
    assert ways(judge.publish("m1")) == {"p": Via.TOP_UP, "r": Via.TOP_UP}


def test_flooding_does_not_ask_who_wants_it():
    """Members of the mesh get IDONTWANT (IDONTWANT-4), peers outside it do not (go)."""
    judge = Judge(score=score(), flood_publish=True, idontwant_threshold_bytes=1)
    judge.connect("p", "q", protocol=MESHSUB_12)
    judge.graft("p")
    for peer in "pq":
        judge.say(peer, IDontWant(("m1",)))
    assert ways(judge.publish("m1")) == {"q": Via.FLOOD_PUBLISH}


def test_flooding_a_topic_one_is_not_in():
    """Rules: JUDGE-3. No fan-out is made."""
    judge = Judge(joined=(), score=score(), flood_publish=True, degree=2, degree_low=2, degree_out=0)
    judge.connect(*MANY)
    judge.rate(-101, "p03")
    found = ways(judge.publish("m1"))
    assert found == dict.fromkeys(set(MANY) - {"p03"}, Via.FLOOD_PUBLISH)


def test_without_flood_publish_the_mesh_alone_gets_it():
    judge = Judge(score=score())
    judge.connect(*MANY)
    judge.graft("p00", "p01")
    assert ways(judge.publish("m1")) == {"p00": Via.MESH, "p01": Via.MESH}


def test_who_only_floods_gets_messages_if_its_score_is_enough():
    """Rules: JUDGE-4. Others' messages, too (go)."""
    judge = Judge(score=score(), flood_publish=True)
    judge.connect("old", "older", "direct", protocol=FLOODSUB)
    judge.connect("q")
    judge.rate(-100.5, "older", "direct")
    judge.feed(DirectPeerChosen("direct"))
    assert ways(judge.publish("m1")) == {"direct": Via.FLOOD, "old": Via.FLOOD, "q": Via.FLOOD_PUBLISH}
    assert ways(judge.say("q", message("m2"))) == {"direct": Via.FLOOD, "old": Via.FLOOD}


def test_a_fanout_has_no_direct_peer_and_then_the_mesh_has_none():
    """Rules: STANDING-1. Go's DirectPeersFanout."""
    judge = Judge(joined=(), score=score())
    judge.feed(DirectPeerChosen("friend"))
    judge.connect("friend", "other")
    assert ways(judge.publish("m1")) == {"friend": Via.DIRECT, "other": Via.FANOUT}
    assert list(judge.strategy.fanout.peers(TOPIC)) == ["other"]
    judge.feed(Join(TOPIC))
    assert judge.mesh() == ["other"]


def test_who_becomes_direct_leaves_the_fanout():
    judge = Judge(joined=(), score=score())
    judge.connect("p", "q")
    judge.publish("m1")
    judge.feed(DirectPeerChosen("p"))
    assert list(judge.strategy.fanout.peers(TOPIC)) == ["q"]
    assert ways(judge.publish("m2")) == {"p": Via.DIRECT, "q": Via.FANOUT}


def test_low_scores_leave_the_fanout_at_the_heartbeat_and_others_take_their_places():
    """Rules: THRESHOLD-3. And once more enter it."""
    judge = Judge(joined=(), score=score(), degree=2, degree_low=2, degree_out=0)
    judge.connect("p", "q")
    judge.rate(-101, "p")
    assert ways(judge.publish("m1")) == {"q": Via.FANOUT}
    judge.rate(0, "p")
    judge.beat()
    assert list(judge.strategy.fanout.peers(TOPIC)) == ["p", "q"]
    judge.rate(-101, "q")
    judge.connect("r")
    judge.beat()
    assert list(judge.strategy.fanout.peers(TOPIC)) == ["p", "r"]


def test_a_fanout_becomes_a_mesh_without_the_negative():
    """Rules: THRESHOLD-1. Enough for a fan-out is not enough for a mesh."""
    judge = Judge(joined=(), score=score())
    judge.connect("p", "q")
    judge.rate(-1, "p")
    assert set(ways(judge.publish("m1"))) == {"p", "q"}
    assert receivers(judge.feed(Join(TOPIC)), Graft) == ["q"]


def test_direct_peers_get_every_message_once_and_no_gossip():
    """Rules: STANDING-1. Not their own, nor what they do not want."""
    judge = Judge(score=score(), idontwant_threshold_bytes=1, degree_out=0)
    judge.feed(DirectPeerChosen("friend"))
    judge.feed(DirectPeerChosen("second"))
    judge.connect("friend", "second", "q", protocol=MESHSUB_12)
    judge.rate(-1_000_000, "friend")
    judge.graft("q")
    assert ways(judge.publish("m1")) == {"friend": Via.DIRECT, "second": Via.DIRECT, "q": Via.MESH}
    assert ways(judge.say("friend", message("m2"))) == {"second": Via.DIRECT, "q": Via.MESH}
    judge.say("second", IDontWant(("m3",)))
    assert ways(judge.say("q", message("m3"))) == {"friend": Via.DIRECT}
    assert receivers(judge.beat(), IHave) == []


def test_a_direct_peer_that_is_not_in_the_topic_gets_nothing_of_it():
    judge = Judge(score=score())
    judge.feed(DirectPeerChosen("friend"))
    judge.connect("friend", topics=())
    assert copies(judge.publish("m1")) == []


def test_direct_peers_that_are_not_here_are_dialled_every_so_many_heartbeats():
    """Rules: JUDGE-5. At the first heartbeat and every second from then on."""
    judge = Judge(score=score(), direct_connect_ticks=2)
    judge.feed(DirectPeerChosen("b"))
    judge.feed(DirectPeerChosen("a"))
    judge.connect("b")
    assert [dialled(judge.beat()) for _ in range(4)] == [["a"], [], ["a"], []]
    judge.disconnect("b")
    assert [dialled(judge.beat()) for _ in range(2)] == [["a", "b"], []]
    judge.connect("a")
    judge.feed(DirectPeerChosen("b", False))
    assert [dialled(judge.beat()) for _ in range(2)] == [[], []]


@pytest.mark.parametrize(("ticks", "found"), [(1, [True] * 4), (3, [True, False, False, True]), (0, [False] * 4)])
def test_how_often_one_looks_for_direct_peers(ticks, found):
    """Rules: JUDGE-5."""
    judge = Judge(score=score(), direct_connect_ticks=ticks)
    judge.feed(DirectPeerChosen("a"))
    assert [dialled(judge.beat()) == ["a"] for _ in range(4)] == found


def test_direct_peers_come_and_go_at_run_time():
    """Go's DynamicDirectPeers: one, then none."""
    judge = Judge(score=score())
    judge.connect("p")
    judge.feed(DirectPeerChosen("p"))
    assert judge.strategy.standing.direct == {"p"}
    judge.feed(DirectPeerChosen("p", False))
    judge.feed(DirectPeerChosen("p", False))
    assert judge.strategy.standing.direct == set()


@pytest.mark.parametrize(
    "event",
    [
        DirectPeerChosen("me"),
        PeerRated("p", float("nan")),
        PeerRated("p", float("inf")),
        PeerRated("p", -2e9),
    ],
)
def test_what_cannot_be_is_refused_before_anything_changes(event):
    judge = Judge(score=score())
    judge.connect("p")
    with pytest.raises(UsageError):
        judge.router.handle(event, SECOND)
    assert judge.router.now == 0
    assert judge.score("p") == 0
    assert judge.strategy.standing.direct == set()


def test_a_message_that_is_ignored_or_rejected_goes_to_no_peer():
    """Go's ScoreValidatorEx: the one who sent what is ignored has no score, the other a bad one."""
    judge = Judge(score=score({"invalid_messages_weight": -1}), validate=True)
    judge.connect("b", "c", "d")
    judge.graft("d")
    judge.feed(DirectPeerChosen("friend"))
    judge.say("b", message("m1"))
    judge.say("c", message("m2"))
    assert copies(judge.verdict("m1", Verdict.IGNORE)) == copies(judge.verdict("m2", Verdict.REJECT)) == []
    assert judge.score("b") == 0
    assert judge.score("c") < 0
