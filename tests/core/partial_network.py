"""Routers with an application of eight parts for each message, connected by links without loss and latency."""

from __future__ import annotations

from collections import deque

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial, Send
from hearsay.core.language.events import (
    Event,
    Join,
    PartialPeer,
    PartialsChosen,
    PartsFor,
    PeerConnected,
    Publish,
    RpcReceived,
    TimerFired,
)
from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import IDontWant, Message, PartialUse, Rpc
from hearsay.core.registry import ROUTERS, create, negotiate
from hearsay.core.rules.randomness import Randomness
from hearsay.partial import PartsExchange, counted, counted_parts
from hearsay.partial.exchange import Outcome

TOPIC = "t"
ALL_PARTS = range(8)
NO_EXTENSION = "none"
EXTENSION_ONLY = "extension"


class CountingExchange(PartsExchange):
    """An application that counts the requests of its router for parts for peers that get gossip."""

    gossip_requests = 0

    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        self.gossip_requests += peer.gossip
        return super().parts_for(topic, group, peer)


class Node:
    def __init__(self, name: str, use: str, **given: object) -> None:
        kind = ROUTERS["gossipsub"]
        values = {**kind.presets["go"], "partial_messages": use != NO_EXTENSION, **given}
        self.name = name
        self.router = create(kind, name, kind.parameters.from_mapping(values), Randomness(1))
        self.application = CountingExchange(counted_parts())
        self.uses_parts = use in (PartialUse.SUPPORTS, PartialUse.REQUESTS)
        self.whole: list[bytes] = []
        """Groups whose message the node completed from parts or received as a full message, once for each time."""
        if self.uses_parts:
            self.router.handle(PartialsChosen(TOPIC, PartialUse(use), self.application), 0)
        self.router.handle(Join(TOPIC), 0)


class Network:
    def __init__(self, **use: str) -> None:
        self.nodes = {name: Node(name, use) for name, use in use.items()}
        self.now = 0
        self.sent: list[tuple[str, str, Rpc]] = []
        self._in_flight: deque[tuple[str, str, Rpc]] = deque()

    def connect(self, *pairs: tuple[str, str]) -> None:
        for one, other in pairs:
            protocols = [self.nodes[name].router.strategy.protocols for name in (one, other)]
            protocol = negotiate(*protocols)
            assert protocol is not None
            self.feed(one, PeerConnected(other, protocol))
            self.feed(other, PeerConnected(one, protocol))
        self.deliver_all()

    def add(self, name: str, group: bytes, indexes: range = ALL_PARTS) -> None:
        """Add parts of a group to a node's application; a node without partial messages publishes one message."""
        node = self.nodes[name]
        parts = counted(group, indexes)
        if node.uses_parts:
            self._apply(name, group, node.application.add(TOPIC, group, parts))
        else:
            self.publish(name, group, b"".join(parts.values()))
        self.deliver_all()

    def publish(self, name: str, group: bytes, data: bytes) -> None:
        self.feed(name, Publish(Message(group, TOPIC, data, name)))
        self.deliver_all()

    def beat(self, times: int = 1) -> None:
        for _ in range(times):
            for name, node in self.nodes.items():
                due = node.router.deadline()
                assert due is not None
                self.now = max(self.now, due)
                self.feed(name, TimerFired())
            self.deliver_all()

    def deliver_all(self) -> None:
        while self._in_flight:
            source, destination, rpc = self._in_flight.popleft()
            self.feed(destination, RpcReceived(source, rpc))

    def feed(self, name: str, event: Event) -> None:
        node = self.nodes[name]
        for action in node.router.handle(event, self.now):
            match action:
                case Send():
                    self.sent.append((name, str(action.peer), action.rpc))
                    self._in_flight.append(self.sent[-1])
                case DeliverPartial():
                    outcome = node.application.received(action.partial, action.received_from)
                    self._apply(name, action.partial.group, outcome)
                case RemindOfPartial():
                    self._apply(name, action.group, node.application.reminded(TOPIC, action.group))
                case Deliver() if action.received_from is not None:
                    assert isinstance(action.message.id, bytes)
                    node.whole.append(action.message.id)
                    if node.uses_parts:
                        outcome = node.application.message_received(TOPIC, action.message.data)
                        self._apply(name, action.message.id, outcome)
                case _:
                    pass

    def _apply(self, name: str, group: bytes, outcome: Outcome) -> None:
        for event in outcome.events:
            self.feed(name, event)
        if outcome.whole is not None:
            self.nodes[name].whole.append(group)
            self.feed(name, Publish(Message(group, TOPIC, outcome.whole, name)))

    def partials(self, source: str, destination: str) -> list[tuple[bool, bool]]:
        """Return two flags for each partial message from one node to another: it has parts, it has metadata."""
        return [
            (rpc.partial.parts is not None, rpc.partial.metadata is not None)
            for one, other, rpc in self.sent
            if (one, other) == (source, destination) and rpc.partial is not None
        ]

    def full_messages(self, source: str, destination: str) -> int:
        return sum(len(rpc.messages) for one, other, rpc in self.sent if (one, other) == (source, destination))

    def idontwants(self, source: str) -> list[str]:
        """Return the receivers of a node's IDONTWANTs."""
        return [
            other
            for one, other, rpc in self.sent
            if one == source and rpc.control is not None
            for part in rpc.control.parts()
            if isinstance(part, IDontWant)
        ]
