"""Random events for episub routers that choose their connections, and a hostile peer.

The test drives the routers. It fulfils their requests (dials, disconnections, pings, discovery) late or not at all,
and delivers RPCs in order on each connection. The hostile peer `mallory` connects at times and sends any RPC.
"""

from __future__ import annotations

from collections import defaultdict, deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from test_router_machines import MALLORY, hostile

from hearsay.core.episub.membership import ManagedOverlay
from hearsay.core.language.actions import Dial, Disconnect, FindContacts, PartDropped, Ping, Send
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    Join,
    Leave,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RoundTripMeasured,
    RpcReceived,
    SendFailed,
    TimerFired,
)
from hearsay.core.language.rpc import EPISUB, Message
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness

PEERS = ("a", "b", "c", "d", "e")
TOPICS = ("news", "sport")
EPISUB_KIND = ROUTERS["episub"]
LIMITS = {
    "active_limit": 6,
    "passive_size": 4,
    "random_links": 1,
    "near_links": 1,
    "max_missing": 5,
    "max_ids_per_part": 4,
    "max_cached_messages": 6,
    "max_dials": 3,
    "max_seen": 12,
}


class Overlay(RuleBasedStateMachine):
    preset = "episub"

    @initialize(validated=st.booleans(), leave=st.sampled_from(["leave", "disconnect"]))
    def start(self, validated, leave):
        values = {**EPISUB_KIND.presets[self.preset], **LIMITS, "leave_by": leave}
        if self.preset == "episub":
            values["view_sizes"] = "estimated" if validated else "fixed"
        self.now = 0
        self.parameters = EPISUB_KIND.parameters.from_mapping(values)
        self.routers = {name: create(EPISUB_KIND, name, self.parameters, Randomness(5)) for name in PEERS}
        self.connected_pairs: set[tuple[str, str]] = set()
        """Pairs (router, peer) in which the router regards the peer as connected."""
        self.in_flight: defaultdict[tuple[str, str], deque[object]] = defaultdict(deque)
        self.requests: deque[tuple[str, object]] = deque()
        """Requests of routers that the driver has not fulfilled yet, the oldest first."""
        self.published = 0
        self.fed: set[str] = set()
        """Routers that got an event since the last check; nothing else changes a router."""
        for name in PEERS:
            self.feed(name, Join("news"))

    def feed(self, name, event):
        self.fed.add(name)
        for action in self.routers[name].handle(event, self.now):
            match action:
                case Send():
                    assert (name, action.peer) in self.connected_pairs
                    self.in_flight[name, action.peer].append(action.rpc)
                case Dial():
                    assert (name, action.peer) not in self.connected_pairs
                    assert action.peer != name
                    self.requests.append((name, action))
                case Disconnect() | Ping():
                    assert (name, action.peer) in self.connected_pairs
                    self.requests.append((name, action))
                case FindContacts():
                    self.requests.append((name, action))
                case PartDropped():
                    assert action.count > 0
                case _:
                    pass

    def disconnect(self, one, other):
        for a, b in ((one, other), (other, one)):
            self.in_flight.pop((a, b), None)
        for a, b in ((one, other), (other, one)):
            if (a, b) in self.connected_pairs:
                self.connected_pairs.remove((a, b))
                self.feed(a, PeerDisconnected(b))

    def connect(self, one, other):
        for a, b in ((one, other), (other, one)):
            if a in self.routers and (a, b) not in self.connected_pairs:
                self.connected_pairs.add((a, b))
                self.feed(a, PeerConnected(b, EPISUB))

    @rule(works=st.booleans(), rtt=st.integers(1, 200_000), names=st.sets(st.sampled_from(PEERS)))
    def fulfil_request(self, works, rtt, names):
        """Fulfil the oldest request, or report that it failed."""
        if not self.requests:
            return
        name, action = self.requests.popleft()
        match action:
            case Dial(peer):
                if works and peer in self.routers:
                    self.connect(name, peer)
                elif (name, peer) not in self.connected_pairs:
                    self.feed(name, DialFailed(peer))
            case Disconnect(peer):
                self.disconnect(name, peer)
            case Ping(peer):
                if works and (name, peer) in self.connected_pairs:
                    self.feed(name, RoundTripMeasured(peer, rtt))
            case FindContacts(topic, count):
                self.feed(name, ContactsFound(topic, tuple(sorted(names))[:count] if works else ()))

    @rule(data=st.data())
    def deliver_one(self, data):
        waiting = sorted(pair for pair, queue in self.in_flight.items() if queue and pair[1] in self.routers)
        if waiting:
            source, destination = data.draw(st.sampled_from(waiting))
            rpc = self.in_flight[source, destination].popleft()
            if (destination, source) in self.connected_pairs:
                self.feed(destination, RpcReceived(source, rpc))

    @rule(data=st.data())
    def fail_one(self, data):
        waiting = sorted(pair for pair, queue in self.in_flight.items() if queue)
        if waiting:
            source, destination = data.draw(st.sampled_from(waiting))
            self.feed(source, SendFailed(destination, self.in_flight[source, destination].pop()))

    @rule(one=st.sampled_from(PEERS), other=st.sampled_from([*PEERS, MALLORY]))
    def disconnect_or_connect_mallory(self, one, other):
        if (one, other) in self.connected_pairs:
            self.disconnect(one, other)
        elif other == MALLORY:
            self.connect(one, other)

    @rule(name=st.sampled_from(PEERS), rpc=hostile)
    def mallory_sends(self, name, rpc):
        if (name, MALLORY) in self.connected_pairs:
            self.feed(name, RpcReceived(MALLORY, rpc))

    @rule(name=st.sampled_from(PEERS), topic=st.sampled_from(TOPICS))
    def join_or_leave(self, name, topic):
        self.feed(name, (Leave if topic in self.routers[name].joined else Join)(topic))

    @rule(name=st.sampled_from(PEERS), topic=st.sampled_from(TOPICS))
    def publish(self, name, topic):
        self.published += 1
        self.feed(name, Publish(Message(f"p{self.published}", topic, b"", name)))

    @rule(name=st.sampled_from(PEERS))
    def beat(self, name):
        due = self.routers[name].deadline()
        if due is not None:
            self.now = max(self.now, due)
            self.feed(name, TimerFired())

    @rule()
    def run_until_idle(self):
        """Fulfil all requests and deliver all RPCs, until there are none; fail if that takes more than 400 rounds."""
        for _ in range(400):
            for _ in range(len(self.requests)):
                self.fulfil_request(works=True, rtt=10_000, names=set(PEERS))
            waiting = sorted(pair for pair, queue in self.in_flight.items() if queue)
            if not waiting and not self.requests:
                return
            for source, destination in waiting:
                if self.in_flight[source, destination]:
                    rpc = self.in_flight[source, destination].popleft()
                    if (destination, source) in self.connected_pairs and destination in self.routers:
                        self.feed(destination, RpcReceived(source, rpc))
        raise AssertionError("the routers still send RPCs or requests after 400 rounds")

    @invariant()
    def bounded_and_consistent(self):
        fed, self.fed = getattr(self, "fed", set()), set()
        for name in sorted(fed):
            router = self.routers[name]
            strategy = router.strategy
            own = self.parameters
            assert set(strategy.trees) == set(strategy.memberships) == router.joined
            assert {state.peer for state in router.inspect().peers} == set(router.connected)
            assert not any(strategy.remembers(peer) for peer in (*PEERS, MALLORY) if peer not in router.connected)
            for topic, tree in strategy.trees.items():
                membership = strategy.memberships[topic]
                assert isinstance(membership, ManagedOverlay)
                active, passive = membership.views.active.keys(), membership.views.passive.keys()
                assert len(active) <= own.active_limit
                assert len(passive) <= membership.target_sizes.passive_size
                assert not active & passive
                assert name not in active | passive
                assert active <= router.connected.keys()
                assert tree.eager.members | tree.lazy.members == active
                assert not tree.eager.members & tree.lazy.members
                assert len(tree.missing) <= own.max_missing
                assert len(tree.queue) <= own.max_ids_per_part
                assert len(tree.kept) <= own.max_cached_messages


def test_a_pair_and_a_full_triangle_become_one_overlay():
    """HyParView with two links for each node. A node of the triangle that loses a link to the pair waits for its next
    round of stabilisation. Before, all three nodes joined again at once, without end."""
    overlay = type("Pair and triangle", (Overlay,), {"preset": "hyparview-plumtree-10k"})()
    overlay.start(validated=False, leave="leave")
    overlay.run_until_idle()
    for one, other in (("e", "c"), ("a", "d")):
        overlay.disconnect_or_connect_mallory(one, other)
        overlay.run_until_idle()

    def neighbours():
        memberships = {name: router.strategy.memberships["news"] for name, router in overlay.routers.items()}
        return {name: set(membership.views.active) for name, membership in memberships.items()}

    assert neighbours() == {"a": {"b", "d"}, "b": {"a", "d"}, "d": {"a", "b"}, "c": {"e"}, "e": {"c"}}
    for _ in range(8):
        for name in PEERS:
            overlay.beat(name)
        overlay.run_until_idle()
    links = neighbours()
    assert all(len(peers) == 2 for peers in links.values())
    reached = {"a"}
    for _ in PEERS:
        reached |= {peer for name in reached for peer in links[name]}
    assert reached == set(PEERS)


@pytest.mark.parametrize("preset", EPISUB_KIND.presets)
def test_random_events_keep_the_overlay_bounded_and_consistent(preset):
    machine = type(f"Overlay of {preset}", (Overlay,), {"preset": preset})
    run_state_machine_as_test(machine)


@pytest.mark.parametrize("preset", EPISUB_KIND.presets)
def test_links_are_mutual_when_nothing_is_in_flight(preset):
    """After random events all requests are fulfilled and all RPCs are delivered, several times: no one-sided link is
    left."""
    machine = type(
        f"Mutual links of {preset}", (Overlay,), {"preset": preset, "mallory_sends": None, "fail_one": None}
    )

    def links_are_mutual(self):
        for _ in range(8):
            self.run_until_idle()
            for name in PEERS:
                self.beat(name)
        self.run_until_idle()
        for name, router in self.routers.items():
            for topic, membership in router.strategy.memberships.items():
                for peer in membership.views.active:
                    if peer in self.routers:
                        assert name in self.routers[peer].strategy.memberships[topic].views.active

    machine.links_are_mutual = rule()(links_are_mutual)
    run_state_machine_as_test(machine)
