"""Networks of routers with scores: go-libp2p-pubsub's tests with their numbers of nodes, messages and seconds."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from itertools import combinations
from typing import Any

import pytest
from router_driver import GO, MS, SECOND, TOPIC, message, rpc, score_table

from hearsay.core.language.actions import Deliver, Dial, Send
from hearsay.core.language.events import (
    DirectPeerChosen,
    Event,
    Join,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    RpcReceived,
    TimerFired,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import MESHSUB_11, Graft
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.parameters import preset_values
from hearsay.core.shell.router import Router

TWENTY = [f"n{number:02}" for number in range(20)]


class ScoredNetwork:
    """Routers of gossipsub 1.1 on one clock and peers without a router, connected by links with a latency of 1 ms."""

    def __init__(self) -> None:
        self.now: Micros = 0
        self.routers: dict[str, Router] = {}
        self.squatters: set[str] = set()
        """Peers without a router: they subscribe, receive everything and send only the GRAFTs of `squat`."""
        self.links: set[tuple[str, str]] = set()
        self.delivered: defaultdict[str, set[object]] = defaultdict(set)
        """Ids of the messages that each router has delivered."""
        self.copies_from: defaultdict[str, set[object]] = defaultdict(set)
        """The peers from which each router got a copy of a message."""
        self._in_flight: deque[tuple[Micros, str, RpcReceived]] = deque()
        """RPCs in flight: arrival, destination and event, in order of arrival, since all latencies are equal."""

    def add(self, *names: str, **given: Any) -> None:
        parameters = GossipsubParameters.from_mapping({**GO, **given})
        for name in names:
            self.routers[name] = Router(name, Gossipsub(parameters), Randomness(1), self.now)

    def strategy(self, name: str) -> Gossipsub:
        strategy = self.routers[name].strategy
        assert isinstance(strategy, Gossipsub)
        return strategy

    def join(self, *names: str) -> None:
        for name in names:
            self.feed(name, Join(TOPIC))

    def connect(self, one: str, other: str) -> None:
        """Connect two peers; `one` dials `other`."""
        self.links |= {(one, other), (other, one)}
        for name, peer, outbound in ((one, other, True), (other, one, False)):
            if name in self.routers:
                subscribed = (TOPIC,) if peer in self.squatters else ()
                self.feed(name, PeerConnected(peer, MESHSUB_11, subscribed, "", outbound))

    def disconnect(self, one: str, other: str) -> None:
        self.links -= {(one, other), (other, one)}
        for name, peer in ((one, other), (other, one)):
            self.feed(name, PeerDisconnected(peer))

    def publish(self, name: str, number: object) -> None:
        self.feed(name, Publish(message(f"m{number}", name)))

    def send_graft(self, squatter: str, victim: str) -> None:
        self._send(squatter, victim, rpc(Graft(TOPIC)))

    def feed(self, name: str, event: Event) -> None:
        if isinstance(event, RpcReceived) and event.rpc.messages:
            self.copies_from[name].add(event.peer)
        for action in self.routers[name].handle(event, self.now):
            match action:
                case Send():
                    self._send(name, str(action.peer), action.rpc)
                case Dial() if (name, str(action.peer)) not in self.links:
                    self.connect(name, str(action.peer))
                case Deliver():
                    self.delivered[name].add(action.message.id)
                case _:
                    pass

    def _send(self, source: str, destination: str, rpc_sent: Any) -> None:
        if destination in self.routers:
            self._in_flight.append((self.now + MS, destination, RpcReceived(source, rpc_sent)))

    def run(self, until: Micros) -> None:
        while True:
            due, name = min((router.deadline() or until + 1, name) for name, router in self.routers.items())
            if self._in_flight and self._in_flight[0][0] <= min(due, until):
                self.now, destination, event = self._in_flight.popleft()
                if (destination, str(event.peer)) in self.links:
                    self.feed(destination, event)
            elif due <= until:
                self.now = due
                self.feed(name, TimerFired())
            else:
                self.now = until
                return

    def wait(self, span: Micros) -> None:
        self.run(self.now + span)


def connect_densely(net, names, degree=10):
    """Connect each router to a number of others, which are drawn; the router dials them."""
    draws = random.Random(1)
    for name in names:
        for peer in draws.sample(sorted(set(names) - {name}), degree):
            if (name, peer) not in net.links:
                net.connect(name, peer)


def test_a_node_with_a_negative_score_exchanges_no_messages():
    """Go's NegativeScore: 20 nodes with ten links each, one with the score -1000; thresholds -10/-100/-10000."""
    net = ScoredNetwork()
    net.add(*TWENTY, score=score_table())
    connect_densely(net, TWENTY)
    for name in TWENTY[1:]:
        net.feed(name, PeerRated("n00", -1000))
    net.join(*TWENTY)
    net.wait(3 * SECOND)
    for number, name in enumerate(TWENTY):
        net.publish(name, number)
        net.wait(20 * MS)
    net.wait(2 * SECOND)
    assert net.delivered["n00"] == {"m0"}
    for name in TWENTY[1:]:
        assert net.delivered[name] == {f"m{number}" for number in range(1, 20)}
        assert "n00" not in net.copies_from[name]


def test_a_hub_with_flood_publish_reaches_all():
    """Go's FloodPublish: a star of 20 nodes, and no names in PRUNEs. All 20 messages of the hub reach all nodes."""
    net = ScoredNetwork()
    net.add(*TWENTY, score=score_table(), flood_publish=True)
    for name in TWENTY[1:]:
        net.connect("n00", name)
    net.join(*TWENTY)
    net.wait(2 * SECOND)
    for number in range(20):
        net.publish("n00", number)
    net.wait(100 * MS)
    assert all(len(net.delivered[name]) == 20 for name in TWENTY)


def test_a_star_becomes_a_network_by_the_names_in_prunes():
    """Go's StarTopology: D, D_low and D_high are 0 at the hub, which names peers, and 4, 3 and 5 at the others. 10 s
    after joining each node has more than one connection, and a message of each node reaches all."""
    net = ScoredNetwork()
    none = {"degree": 0, "degree_low": 0, "degree_high": 0, "degree_score": 0, "degree_out": 0}
    few = {"degree": 4, "degree_low": 3, "degree_high": 5, "degree_score": 3, "degree_out": 0}
    both = {"score": score_table(), "flood_publish": True, "exchange_peers": 16, "accept_exchange": True}
    net.add("hub", **none, **both)
    net.add(*TWENTY[1:], **few, **both)
    for name in TWENTY[1:]:
        net.connect("hub", name)
    net.join(*net.routers)
    net.wait(10 * SECOND)
    assert all(len(router.connected) > 1 for router in net.routers.values())
    for name in net.routers:
        net.publish(name, name)
    net.wait(5 * SECOND)
    assert all(len(net.delivered[name]) == 20 for name in net.routers)
    assert net.strategy("hub").mesh_peers(TOPIC) == []


def test_a_peer_with_a_low_score_is_in_backoff_at_all_others():
    """Go's PruneBackoffTime: ten nodes in a full mesh, with heartbeats of 100 ms. A second after the rating the other
    nine have a backoff of 60 s for the peer, and a message of each reaches all nine."""
    net = ScoredNetwork()
    names = TWENTY[:10]
    sizes = {"degree": 9, "degree_low": 8, "degree_high": 12, "degree_out": 0}
    net.add(*names, score=score_table(), heartbeat_interval_ms=100, **sizes)
    for one, other in combinations(names, 2):
        net.connect(one, other)
    net.join(*names)
    net.wait(2 * SECOND)
    assert all(len(net.strategy(name).mesh_peers(TOPIC)) == 9 for name in names)
    for name in names[1:]:
        net.feed(name, PeerRated("n00", -1000))
    rated = net.now
    net.wait(SECOND)
    for name in names[1:]:
        backoffs = net.strategy(name).mesh.backoffs
        assert rated + 59 * SECOND <= backoffs.until(TOPIC, "n00") <= rated + 61 * SECOND
    for number, name in enumerate(names[1:]):
        net.publish(name, number)
    net.wait(SECOND)
    assert all(len(net.delivered[name]) == 9 for name in names[1:])
    assert net.delivered["n00"] == set()


def test_direct_peers_find_each_other_again():
    """Go's DirectPeers: b and c are direct peers and dial each other every second heartbeat. They are connected
    within two seconds, and within five seconds after a disconnection. Messages of all three nodes reach all."""
    net = ScoredNetwork()
    net.add("a", "b", "c", score=score_table(), direct_connect_ticks=2)
    net.connect("a", "b")
    net.connect("a", "c")
    net.feed("b", DirectPeerChosen("c"))
    net.feed("c", DirectPeerChosen("b"))
    net.join("a", "b", "c")
    net.wait(2 * SECOND)
    assert ("b", "c") in net.links
    for name in "abc":
        net.publish(name, f"1{name}")
    net.wait(SECOND)
    net.disconnect("b", "c")
    net.wait(5 * SECOND)
    assert ("b", "c") in net.links
    for name in "abc":
        net.publish(name, f"2{name}")
    net.wait(SECOND)
    assert all(len(net.delivered[name]) == 6 for name in "abc")
    assert net.strategy("b").mesh_peers(TOPIC) == ["a"]


def test_honest_members_come_into_meshes_full_of_squatters():
    """Rules: KEEP-5. Go's OpportunisticGrafting: 10 honest nodes with 5 links each, and 40 squatters, which graft all
    of them and forward nothing. The threshold is 1, checked every two heartbeats; the backoff is 500 ms; P2 has
    weight 1 and cap 100. After 1000 messages, one each 20 ms, and 7 s more, each honest mesh has three honest members
    or more.
    """
    net = ScoredNetwork()
    honest = TWENTY[:10]
    first = {"first_deliveries_weight": 1, "first_deliveries_decay": 0.9997, "first_deliveries_cap": 100}
    thresholds = {"gossip": -10, "publish": -100, "graylist": -10_000, "opportunistic_graft": 1}
    net.add(
        *honest,
        score=score_table(first, thresholds=thresholds),
        flood_publish=True,
        prune_backoff_ms=500,
        graft_flood_ms=100,
        opportunistic_graft_ticks=2,
        opportunistic_graft_peers=2,
    )
    net.squatters |= {f"s{number:02}" for number in range(40)}
    for squatter in sorted(net.squatters):
        for name in honest:
            net.connect(squatter, name)
    connect_densely(net, honest, 5)
    net.join(*honest)
    for squatter in sorted(net.squatters):
        for name in honest:
            net.send_graft(squatter, name)
    net.wait(SECOND)
    for number in range(1_000):
        net.publish(honest[number % 10], number)
        net.wait(20 * MS)
    net.wait(7 * SECOND)
    assert all(len(set(net.strategy(name).mesh_peers(TOPIC)) & set(honest)) >= 3 for name in honest)


THRESHOLDS = {"gossip": -10, "publish": -100, "graylist": -10_000, "accept_exchange": 10}


@pytest.mark.parametrize(
    ("bootstrapper", "nodes", "given", "rating"),
    [
        ("bootstrapper", "go", {"score": score_table(thresholds=THRESHOLDS)}, 100),
        ("bootstrapper", "js", {"score": score_table(thresholds=THRESHOLDS)}, 100),
        ("filecoin-bootstrap", "filecoin", {}, 2_500),
    ],
)
def test_nodes_that_know_a_bootstrapper_alone_become_a_network(bootstrapper, nodes, given, rating):
    """Rules: MESH-6, THRESHOLD-5. Nodes start one after another, and accept names only from the bootstrapper, to
    which they give a high score. Without the bootstrapper their meshes connect them, and each message reaches all."""
    presets = ROUTERS["gossipsub"].presets
    net = ScoredNetwork()
    net.add("boot", **preset_values(presets, bootstrapper, {})[1])
    net.add(*TWENTY, **{**preset_values(presets, nodes, {})[1], **given})
    net.join("boot")
    for name in TWENTY:
        net.feed(name, PeerRated("boot", rating))
        net.connect(name, "boot")
        net.join(name)
        net.wait(200 * MS)
    net.wait(10 * SECOND)
    assert net.strategy("boot").mesh_peers(TOPIC) == []
    for name in TWENTY:
        net.disconnect(name, "boot")
    reached, unvisited = set(), ["n00"]
    while unvisited:
        name = unvisited.pop()
        reached.add(name)
        unvisited += sorted({*net.strategy(name).mesh_peers(TOPIC)} - reached)
    assert reached == set(TWENTY)
    for name in TWENTY:
        net.publish(name, name)
    net.wait(SECOND)
    assert all(len(net.delivered[name]) == 20 for name in TWENTY)
