"""Routers of gossipsub 1.1 on one clock, connected by links with a latency of 1 ms, and peers without a router."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from judged import GO, MS, TOPIC, message, rpc

from hearsay.core.language.actions import Deliver, Dial, Send
from hearsay.core.language.events import (
    Event,
    Join,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    TimerFired,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import MESHSUB_11, Graft
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router


class JudgedNetwork:
    def __init__(self) -> None:
        self.now: Micros = 0
        self.routers: dict[str, Router] = {}
        self.squatters: set[str] = set()
        """Peers without a router: they subscribe, receive everything and send only the GRAFTs of `squat`."""
        self.links: set[tuple[str, str]] = set()
        self.got: defaultdict[str, set[object]] = defaultdict(set)
        """Ids of the messages that each router has delivered."""
        self.copies_from: defaultdict[str, set[object]] = defaultdict(set)
        """The peers from which each router got a copy of a message."""
        self._under_way: deque[tuple[Micros, str, RpcReceived]] = deque()
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

    def cut(self, one: str, other: str) -> None:
        self.links -= {(one, other), (other, one)}
        for name, peer in ((one, other), (other, one)):
            self.feed(name, PeerDisconnected(peer))

    def publish(self, name: str, number: object) -> None:
        self.feed(name, Publish(message(f"m{number}", name)))

    def squat(self, squatter: str, victim: str) -> None:
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
                    self.got[name].add(action.message.id)
                case _:
                    pass

    def _send(self, source: str, destination: str, said: Any) -> None:
        if destination in self.routers:
            self._under_way.append((self.now + MS, destination, RpcReceived(source, said)))

    def run(self, until: Micros) -> None:
        while True:
            due, name = min((router.deadline() or until + 1, name) for name, router in self.routers.items())
            if self._under_way and self._under_way[0][0] <= min(due, until):
                self.now, destination, event = self._under_way.popleft()
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
