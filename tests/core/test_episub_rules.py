"""Rules of episub that conversations cannot show, since they concern inner state or malformed parts."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Dial, Disconnect, PartDropped, Reason, Send
from hearsay.core.language.episub_parts import Disconnect as LeaveOfNeighbour
from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave, EpisubPrune, ForwardJoin, Neighbor, Role
from hearsay.core.language.events import (
    ContactsFound,
    Join,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    StreamOpened,
    TimerFired,
)
from hearsay.core.language.rpc import EPISUB, Control, Message, PartKind, Rpc, Subscription
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness

KIND = ROUTERS["episub"]


class Node:
    """A router with a clock."""

    def __init__(self, name="p", **values):
        values = {"shuffle_interval_ms": 3_600_000, "contacts_interval_ms": 0, "probe_count": 0, **values}
        self.router = create(KIND, name, KIND.parameters.from_mapping(values), Randomness(1))
        self.now = 0

    def feed(self, event):
        return self.router.handle(event, self.now)

    def receive(self, peer, *parts, subscribe=()):
        control = Control(episub=parts) if parts else None
        changes = tuple(Subscription(topic, True) for topic in subscribe)
        return self.feed(RpcReceived(peer, Rpc(changes, control=control)))

    def run_until(self, time_us):
        actions = []
        while self.router.deadline() is not None and self.router.deadline() <= time_us:
            self.now = self.router.deadline()
            actions += self.feed(TimerFired())
        self.now = time_us
        return actions

    def views(self, topic="news"):
        return self.router.strategy.memberships[topic].views


def test_an_ihave_with_unequal_numbers_of_ids_and_hops_is_dropped():
    node = Node(overlay="connections")
    node.feed(Join("news"))
    node.feed(PeerConnected("a", EPISUB, ("news",)))
    for ids, hops, dropped in ((("m1",), (1, 2, 3), 2), (("m1", "m2", "m3"), (), 3)):
        actions = node.receive("a", EpisubIHave("news", ids, hops))
        assert [action for action in actions if isinstance(action, PartDropped)] == [
            PartDropped("a", PartKind.IHAVE, dropped, Reason.OVER_LIMIT)
        ]


def test_state_of_a_lost_connection_does_not_close_the_next_one():
    """A lost neighbour needs no connection any more. This must not start the idle time of the next connection."""
    node = Node(idle_ms=3000, stabilise_min_ms=60_000, stabilise_max_ms=60_000)
    node.feed(Join("news"))
    node.feed(PeerConnected("a", EPISUB))
    node.receive("a", Neighbor("news", Role.ACCEPT, True, 1, 1), subscribe=["news"])
    node.feed(PeerDisconnected("a"))
    assert not node.router.strategy.remembers("a")
    node.run_until(2_900_000)
    node.feed(PeerConnected("a", EPISUB))
    actions = node.run_until(3_100_000)
    assert not any(isinstance(action, Disconnect) for action in actions)


def test_thirty_topics_joined_at_once_do_not_change_passive_lists():
    """The limit of dials delays the others. A delayed dial is no failure, so no peer is removed."""
    node = Node(max_dials=4, probe_count=4, probe_interval_ms=1000)
    node.feed(PeerConnected("a", EPISUB))
    topics = [f"topic{number}" for number in range(30)]
    node.receive("a", subscribe=topics)
    for topic in topics:
        node.feed(Join(topic))
        node.feed(ContactsFound(topic, ("a",)))
        node.receive("a", Neighbor(topic, Role.ACCEPT, True, 1, 1))
        node.receive("a", *(ForwardJoin(topic, f"{topic}-{number}", 0, number) for number in range(10)))
    actions = node.run_until(1_500_000)
    dialled = {action.peer for action in actions if isinstance(action, Dial)}
    assert 0 < len(dialled) <= 4
    for topic in topics:
        assert len(node.views(topic).passive) == 10


def test_leaving_and_returning_does_not_reset_the_limit_of_graft_answers():
    """Rules: TREE-3."""
    node = Node(stabilise_min_ms=60_000, stabilise_max_ms=60_000)
    node.feed(Join("news"))
    node.feed(PeerConnected("a", EPISUB))
    node.receive("a", subscribe=["news"])
    node.feed(Publish(Message("m1", "news", b"x")))
    answers = 0
    for _ in range(5):
        node.receive("a", Neighbor("news", Role.REQUEST, True, 0, 0))
        for _ in range(node.router.parameters.graft_answers_per_id):
            actions = node.receive("a", EpisubGraft("news", ("m1",)))
            answers += sum(isinstance(action, Send) and bool(action.rpc.messages) for action in actions)
        node.receive("a", LeaveOfNeighbour("news", refused=False))
    assert answers == node.router.parameters.graft_answers_per_id
    node.feed(PeerDisconnected("a"))
    assert not node.router.strategy.remembers("a")


def test_no_id_is_left_out_of_every_ihave():
    """There are more ids than an IHAVE may have. A sample is announced, so low ids are announced, too."""
    announced = set()
    for number in range(20):
        node = Node(overlay="connections", max_ids_per_part=4)
        node.now = number
        node.feed(Join("news"))
        node.feed(PeerConnected("a", EPISUB, ("news",)))
        node.router.strategy.trees["news"]._announce({f"m{place}": 1 for place in range(8)}, {"a"})
        for action in node.feed(PeerConnected("b", EPISUB, ("news",))):
            if isinstance(action, Send) and action.peer == "a" and action.rpc.control is not None:
                (part,) = action.rpc.control.episub
                assert len(part.ids) == 4
                announced.update(part.ids)
    assert announced == {f"m{place}" for place in range(8)}


def deliver_all(nodes, sender, actions):
    """Deliver the RPCs among a router's actions, and all answers, until there are none."""
    for action in actions:
        if isinstance(action, Send) and action.peer in nodes:
            deliver_all(nodes, action.peer, nodes[action.peer].feed(RpcReceived(sender, action.rpc)))


@pytest.mark.parametrize("overlay", ["episub", "hyparview"])
def test_a_link_that_a_peer_removed_with_its_stream_becomes_mutual_again(overlay):
    """Rules: NEIGHBOR-4. For q the end of the stream is a disconnection, so it removes the link. p opens a new stream
    and keeps the link."""
    nodes = {name: Node(name, overlay=overlay) for name in ("p", "q")}
    for name, other in (("p", "q"), ("q", "p")):
        nodes[name].feed(Join("news"))
        nodes[name].feed(PeerConnected(other, EPISUB, ("news",)))
    deliver_all(nodes, "p", nodes["p"].feed(ContactsFound("news", ("q",))))
    links = [node.views().active for node in nodes.values()]
    assert [list(active) for active in links] == [["q"], ["p"]]
    nodes["q"].feed(PeerDisconnected("p"))
    nodes["q"].feed(PeerConnected("p", EPISUB, ("news",)))
    assert [list(active) for active in links] == [["q"], []]
    deliver_all(nodes, "p", nodes["p"].feed(StreamOpened("q")))
    assert [list(active) for active in links] == [["q"], ["p"]]
    again = nodes["p"].feed(StreamOpened("q"))
    deliver_all(nodes, "p", again)
    assert [list(active) for active in links] == [["q"], ["p"]], "ACCEPT changes nothing where the link is mutual"


def test_a_peer_that_replaces_its_stream_gets_recent_announcements_again():
    """Rules: TREE-1."""
    node = Node(overlay="connections")
    node.feed(Join("news"))
    node.feed(PeerConnected("a", EPISUB, ("news",)))
    node.receive("a", EpisubPrune("news"))

    def announced(actions):
        return [action.rpc.control.episub for action in actions if isinstance(action, Send) and action.rpc.control]

    node.feed(Publish(Message("m1", "news", b"x")))
    assert announced(node.run_until(200_000)) == [(EpisubIHave("news", ("m1",), (0,)),)]
    assert announced(node.feed(StreamOpened("a")) + node.run_until(400_000)) == [
        (EpisubIHave("news", ("m1",), (0,)),)
    ]
    assert announced(node.run_until(600_000)) == []
