"""Random events for a few routers of each kind and a hostile peer: invariants of state and actions.

Links deliver in order. The peer `mallory` is no router; it sends any RPC.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import pytest
from episub_strategy import any_episub_part
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hearsay.core.language.actions import Deliver, Send, Validate, Via
from hearsay.core.language.events import (
    Join,
    Leave,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    SendFailed,
    TimerFired,
    Verdict,
)
from hearsay.core.language.rpc import (
    FIRST_EXTENSION_FIELD,
    Control,
    Extension,
    Graft,
    IHave,
    IWant,
    Message,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.meshsub import MeshStrategy
from hearsay.core.registry import ROUTERS, create, negotiate
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.inspection import knows

TOPICS = ("news", "sport")
PEERS = ("a", "b", "c", "d")
MALLORY = "mallory"

topics = st.sampled_from([*TOPICS, "nowhere"])
ids = st.integers(0, 30).map(lambda number: f"m{number}")
id_lists = st.lists(ids, max_size=8).map(tuple)
peer_lists = st.lists(st.sampled_from([*PEERS, MALLORY, "stranger"]), max_size=6).map(tuple)
episub_parts = any_episub_part(
    topics=topics,
    id_lists=id_lists,
    announced=st.tuples(id_lists, st.lists(st.integers(0, 1 << 40), max_size=8).map(tuple)),
    peers=st.sampled_from([*PEERS, MALLORY, "stranger"]),
    peer_lists=peer_lists,
    numbers=st.integers(0, 9),
    sketches=st.lists(st.integers(0, 1 << 70), max_size=4).map(tuple),
)
hostile = st.builds(
    Rpc,
    st.lists(st.builds(Subscription, topics, st.booleans()), max_size=6).map(tuple),
    st.lists(st.builds(Message, ids, topics, st.just(b""), st.sampled_from([*PEERS, MALLORY, None])), max_size=4).map(
        tuple
    ),
    st.none()
    | st.builds(
        Control,
        st.lists(st.builds(IHave, topics, st.lists(ids, max_size=12).map(tuple)), max_size=3).map(tuple),
        st.lists(st.builds(IWant, st.lists(ids, max_size=12).map(tuple)), max_size=3).map(tuple),
        st.lists(st.builds(Graft, topics), max_size=3).map(tuple),
        st.lists(st.builds(Prune, topics), max_size=3).map(tuple),
        st.lists(
            st.builds(
                Extension, st.integers(FIRST_EXTENSION_FIELD, FIRST_EXTENSION_FIELD + 6), st.binary(max_size=4)
            ),
            max_size=2,
        ).map(tuple),
        episub=st.lists(episub_parts, max_size=3).map(tuple),
    ),
)
SMALL_LIMITS = {
    "max_seen": 12,
    "max_subscriptions_per_peer": 2,
    "max_messages_per_rpc": 3,
    "max_control_per_rpc": 5,
    "max_pending_validations": 3,
}


class Network(RuleBasedStateMachine):
    kind = "floodsub"
    extra_parameters: Mapping[str, object] = {}
    """Parameters in addition to those that are drawn."""

    @initialize(low=st.integers(0, 2), extra=st.integers(0, 2), more=st.integers(0, 2), coalesce=st.booleans(),
                validate=st.booleans(), option=st.integers(0, 2), ready=st.integers(0, 3))  # fmt: skip
    def start(self, low, extra, more, coalesce, validate, option, ready):
        kind = ROUTERS[self.kind]
        wanted = {
            **SMALL_LIMITS,
            "coalesce": coalesce,
            "validate": validate,
            "degree_low": low,
            "degree": low + extra,
            "degree_high": low + extra + more,
            "degree_lazy": 2,
            "max_ids_per_ihave": 4,
            "max_ids_per_iwant": 3,
            "max_cached_messages": 6,
            "graft_on_missing": option,
            "overlay": "connections",
            "repair": ("eager", "lazy", "eager")[option],
            "max_missing": 5,
            "max_ids_per_part": 4,
            **self.extra_parameters,
        }
        known = {name: value for name, value in wanted.items() if name in kind.parameters.names()}
        parameters = kind.parameters.from_mapping(known)
        self.now = 0
        self.routers = {name: create(kind, name, parameters, Randomness(7)) for name in PEERS}
        self.links: set[tuple[str, str]] = set()
        self.in_flight: defaultdict[tuple[str, str], deque[Rpc]] = defaultdict(deque)
        self.came_from: dict[tuple[str, str], str | None] = {}
        self.published = 0
        if ready:
            self.connect_all()

    def connect_all(self):
        """Connect all peers; each router joins a topic and has a heartbeat."""
        for name in PEERS:
            self.join_or_leave(name, "news")
        for index, one in enumerate(PEERS):
            for other in (*PEERS[index + 1 :], MALLORY):
                self.connect_or_disconnect(one, other)
            self.mallory_sends(one, Rpc((Subscription("news", True), Subscription("sport", True))))
        self.run_until_idle()
        for name in PEERS:
            self.beat(name)
        self.run_until_idle()

    def feed(self, name, event):
        router = self.routers[name]
        self.last_actions = actions = router.handle(event, self.now)
        peers = [action.peer for action in actions if isinstance(action, Send)]
        assert peers == sorted(peers)
        if router.parameters.coalesce:
            assert len(peers) == len(set(peers))
        for action in actions:
            match action:
                case Send():
                    assert action.peer in router.connected
                    for message, via in zip(action.rpc.messages, action.vias, strict=True):
                        if via not in (Via.IWANT, Via.LAZY):
                            assert action.peer != message.source
                            assert action.peer != self.came_from.get((name, message.id))
                    if action.peer in self.routers:
                        self.in_flight[name, action.peer].append(action.rpc)
                case Validate() | Deliver():
                    self.came_from[name, action.message.id] = action.received_from
                case _:
                    pass

    @rule(one=st.sampled_from(PEERS), other=st.sampled_from([*PEERS, MALLORY]))
    def connect_or_disconnect(self, one, other):
        if one == other:
            return
        pair = (min(one, other), max(one, other))
        ends = [(a, b) for a, b in (pair, pair[::-1]) if a in self.routers]
        protocol = negotiate(self.routers[one].strategy.protocols, self.routers[one].strategy.protocols)
        if pair in self.links:
            self.links.remove(pair)
            for a, b in ends:
                self.in_flight.pop((a, b), None)
                self.in_flight.pop((b, a), None)
            for a, b in ends:
                self.feed(a, PeerDisconnected(b))
                assert all(state.peer != b for state in self.routers[a].inspect().peers)
        else:
            self.links.add(pair)
            for a, b in ends:
                self.feed(a, self.connection(a, b, protocol))

    def connection(self, name, peer, protocol):
        return PeerConnected(peer, protocol)

    @rule(name=st.sampled_from(PEERS), topic=st.sampled_from(TOPICS))
    def join_or_leave(self, name, topic):
        self.feed(name, (Leave if topic in self.routers[name].joined else Join)(topic))

    @rule(name=st.sampled_from(PEERS), topic=st.sampled_from(TOPICS))
    def publish(self, name, topic):
        self.published += 1
        self.feed(name, Publish(Message(f"p{self.published}", topic, b"", name)))

    @rule(data=st.data())
    def deliver_one(self, data):
        waiting = sorted(pair for pair, queue in self.in_flight.items() if queue)
        if waiting:
            source, destination = data.draw(st.sampled_from(waiting))
            self.feed(destination, RpcReceived(source, self.in_flight[source, destination].popleft()))

    @rule(data=st.data())
    def fail_one(self, data):
        waiting = sorted(pair for pair, queue in self.in_flight.items() if queue)
        if waiting:
            source, destination = data.draw(st.sampled_from(waiting))
            self.feed(source, SendFailed(destination, self.in_flight[source, destination].pop()))

    @rule(name=st.sampled_from(PEERS), rpc=hostile)
    def mallory_sends(self, name, rpc):
        if (min(name, MALLORY), max(name, MALLORY)) in self.links:
            self.feed(name, RpcReceived(MALLORY, rpc))

    @rule(name=st.sampled_from(PEERS), verdict=st.sampled_from(Verdict))
    def verdict(self, name, verdict):
        pending = sorted(self.routers[name].pending)
        if pending:
            self.feed(name, MessageValidated(pending[0], verdict))

    @rule(name=st.sampled_from(PEERS))
    def beat(self, name):
        due = self.routers[name].deadline()
        if due is not None:
            self.now = max(self.now, due)
            self.feed(name, TimerFired())
            self.check_bounds(name)

    def check_bounds(self, name):
        router = self.routers[name]
        strategy = router.strategy
        if not isinstance(strategy, MeshStrategy):
            return
        parameters = strategy.parameters
        for topic, mesh in strategy.mesh.topics.items():
            available = len(router.peers.in_topic(topic).native)
            assert min(parameters.degree_low, available) <= len(mesh) <= parameters.degree_high

    @rule()
    def run_until_idle(self):
        """Deliver all RPCs in flight and those that they cause; fail if that takes more than 200 rounds."""
        for _ in range(200):
            waiting = sorted(pair for pair, queue in self.in_flight.items() if queue)
            if not waiting:
                break
            for source, destination in waiting:
                self.feed(destination, RpcReceived(source, self.in_flight[source, destination].popleft()))
        else:
            raise AssertionError("the routers still send RPCs after 200 rounds")

    @invariant()
    def state_is_bounded_and_consistent(self):
        for name, router in getattr(self, "routers", {}).items():
            assert len(router.seen) <= SMALL_LIMITS["max_seen"]
            assert len(router.pending) <= SMALL_LIMITS["max_pending_validations"]
            for peer in router.connected.values():
                assert len(peer.topics) <= SMALL_LIMITS["max_subscriptions_per_peer"]
            connected = set(router.connected)
            assert {state.peer for state in router.inspect().peers} == connected
            assert {peer for peer in (*PEERS, MALLORY) if knows(router, router.strategy, peer)} == connected
            for topic, peer, _ in router.strategy.peerings():
                assert topic in router.connected[peer].topics, (name, topic, peer)


@pytest.mark.parametrize("kind", sorted(ROUTERS))
def test_random_events_keep_invariants(kind):
    machine = type(f"Network of {kind}", (Network,), {"kind": kind})
    run_state_machine_as_test(machine)
