"""Connections of a simulated network: dialled, opened, lost and closed, and the events that notify routers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Any, assert_never

from hearsay.core.language.actions import Dial, Disconnect, FindContacts, Ping
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    DirectPeerChosen,
    EventKind,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    RoundTripMeasured,
)
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.registry import negotiate
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, below, key_of, sample
from hearsay.sim.plan.addresses import AddressBook
from hearsay.sim.plan.draws import chosen
from hearsay.sim.plan.engines import direct_pairs
from hearsay.sim.reference.nodes import DIAL_ARRIVAL, EVERYWHERE, Link, Network, SimNode, connect_nodes
from hearsay.sim.reference.transport import Transport

_connected = fast_init(PeerConnected)


class Introductions:
    """Creates the events that introduce peers to routers: new connections, ratings and direct peers."""

    def __init__(self, network: Network) -> None:
        plan = network.plan
        self._nodes = network.nodes
        self._router_of = plan.router_of
        self._natted = plan.natted
        self._pairs = direct_pairs(plan.scenario)
        self._direct: dict[int, set[int]] = {}
        for one, other in self._pairs:
            self._direct.setdefault(one, set()).add(other)
            self._direct.setdefault(other, set()).add(one)
        self._protocols = [kind.protocols(parameters) for kind, parameters in plan.routers]
        self._addresses = AddressBook(plan.scenario.addresses)
        self._ratings: list[tuple[Container[int], Container[int], float]] = []
        """Entries of `[[ratings]]` (P5), the last first: the rated nodes, the nodes that rate them, and the score."""
        for number, entry in enumerate(plan.scenario.ratings):
            rated = chosen(entry, plan.router_of, network.randomness, Purpose.RATED, number)
            by = range(len(self._nodes)) if entry.by is None else frozenset(entry.by)
            self._ratings.insert(0, (rated, by, float(entry.rating)))

    def announce_direct(self, node: SimNode, now: Micros) -> None:
        """Announce the direct peers to a router that starts; before its first connection it returns no actions."""
        if node.router is not None and node.router.strategy.scoring is not None:
            for peer in sorted(self._direct.get(node.id, ())):
                node.router.handle(DirectPeerChosen(peer), now)

    def direct_dials(self) -> Iterator[tuple[SimNode, int]]:
        """Yield the dials that connect direct peers: the dialling node and the target."""
        for pair in self._pairs:
            one, other = pair if pair[1] not in self._natted else pair[::-1]
            node = self._nodes[one]
            if node.router is not None and self._nodes[other].router is not None and other not in node.links:
                yield node, other

    def rating(self, node: SimNode, peer: int) -> PeerRated | None:
        """Return the application's rating of a peer, if there is one."""
        if not self._ratings or node.router is None or not node.router.strategy.keeps_scores:
            return None
        for rated, by, rating in self._ratings:
            if peer in rated and node.id in by:
                return PeerRated(peer, rating)
        return None

    def connected(self, node: SimNode, link: Link) -> PeerConnected:
        """Return the event that notifies a node of a new connection; `link` is the direction from the node."""
        peer = link.destination
        ours = self._protocols[self._router_of[node.id]]
        theirs = self._protocols[self._router_of[peer]]
        implied: tuple[str, ...] = ()
        if node.router is not None and not node.router.parameters.hello:
            implied = tuple(sorted(self._nodes[peer].topics))
        protocol = negotiate(ours, theirs) or FLOODSUB
        return _connected(peer, protocol, implied, self._addresses.of(peer), link.outbound)


MAX_DIALS = 256
"""The most dials in progress for one router; further ones fail."""
_ATTEMPTS_PER_CONTACT = 20
"""Random draws for each wanted contact; if these find too few, all nodes are examined."""
_CONNECTED = int(EventKind.PEER_CONNECTED)
_DISCONNECTED = int(EventKind.PEER_DISCONNECTED)


class Connections:
    """Opens and closes connections, for the plan, for faults and for routers."""

    def __init__(self, network: Network, transport: Transport, introductions: Introductions) -> None:
        self._network = network
        self._queue = network.queue
        self._latency = network.latency
        self._transport = transport
        self._introductions = introductions
        self._without_inbound = network.plan.natted
        self._detection_us = network.plan.scenario.faults.detection_us
        self._rendezvous_us = network.plan.scenario.network.rendezvous_us
        self.sides: dict[int, frozenset[int]] = {}
        """One side of each partition, by the number of the fault."""
        self.cut_pairs: dict[int, frozenset[tuple[int, int]]] = {}
        """The pairs that each cut separates, by the number of the fault."""
        self.rendezvous_open = True
        """False in measurements of an overlay without discovery."""
        self._sequence = 0
        self._dialling: Counter[int] = Counter()
        """Dials under way, by node."""

    def reachable(self, node: int, other: int) -> bool:
        """Return whether no fault separates two nodes."""
        if any((node in side) != (other in side) for side in self.sides.values()):
            return False
        pair = (min(node, other), max(node, other))
        return not any(pair in pairs for pairs in self.cut_pairs.values())

    def dial(self, node: SimNode, target: int) -> None:
        """Connect the node to the target at once, and the target to the node one latency later.

        A target that accepts no inbound connection is not dialled.
        """
        if target in self._without_inbound:
            return
        now = self._network.now
        existing = node.links.get(target)
        if existing is not None and not existing.dead and (existing.open or existing.twin.open):
            link = existing
        else:
            link = connect_nodes(node, self._network.nodes[target], self._latency.base_us(node.id, target))
        self._transport.connect(link, now)
        self._queue.add(now + link.latency_us, link.destination, _CONNECTED, node.id, link.sequence, link.twin)
        if not link.open:
            self.open(node, link)

    def open(self, node: SimNode, link: Link) -> None:
        """Open a link, and notify the router of `node`, its source, that the peer is connected."""
        previous = link.previous
        if previous is not None and previous.open:
            self.close(node, previous)
        link.previous = None
        link.set_open(True)
        rating = self._introductions.rating(node, link.destination)
        if rating is not None:
            self._network.feed(node, rating)
        self._network.feed(node, self._introductions.connected(node, link))

    def close(self, node: SimNode, link: Link) -> None:
        """Close a link, and notify the router of `node`, its source, that the peer is disconnected."""
        link.set_open(False)
        if node.links.get(link.destination) is link:
            del node.links[link.destination]
        self._network.feed(node, PeerDisconnected(link.destination))

    def notice_loss(self, link: Link, time: Micros) -> None:
        """Let the source of a lost link notice the loss at `time`."""
        link.dead = True
        self._sequence += 1  # unique; the link's count is not: an earlier connection may have sent as many RPCs
        self._queue.add(time, link.source, _DISCONNECTED, link.destination, self._sequence, link)

    def last_arrival_us(self, link: Link) -> Micros:
        """Return when a notice arrives that the source sends now: not before the RPCs that it sent earlier."""
        return max(self._network.now + link.latency_us, self._transport.last_arrival_us(link))

    def perform(self, node: SimNode, action: Dial | Disconnect | Ping | FindContacts) -> None:
        """Perform a router's action."""
        match action:
            case Dial():
                target: Any = action.peer
                self._dial_for_router(node, target)
            case Disconnect():
                self._disconnect(node, action.peer)
            case Ping():
                self._ping(node, action.peer)
            case FindContacts():
                self._push(node, self._rendezvous_us, EventKind.CONTACTS_FOUND, -1, action)
            case _:
                assert_never(action)

    def answer(self, node: SimNode, kind: int, source: int, payload: Any) -> None:
        """Pass the result of an action to the router that requested it."""
        if kind == EventKind.DIAL_FAILED:
            self._network.feed(node, DialFailed(source))
        elif kind == EventKind.ROUND_TRIP_MEASURED:
            link, round_trip_us = payload
            if link.open and link.up:
                self._network.feed(node, RoundTripMeasured(source, round_trip_us))
        else:
            contacts = self._contacts(node, payload) if self.rendezvous_open else ()
            self._network.feed(node, ContactsFound(payload.topic, contacts))

    def _dial_for_router(self, node: SimNode, target: int) -> None:
        nodes, dialled_us = self._network.nodes, self._network.now
        known = 0 <= target < len(nodes) and target != node.id
        if not known or self._dialling[node.id] >= MAX_DIALS:
            self._push(node, 0, EventKind.DIAL_FAILED, target, None)
            return
        self._dialling[node.id] += 1
        other = nodes[target]
        life = node.starts
        latency_us = self._latency.base_us(node.id, other.id)

        def arrive() -> None:
            self._dialling[node.id] -= 1
            if node.router is not None and node.starts == life:
                self._accept_dial(node, other, latency_us, dialled_us)

        self._sequence += 1
        self._queue.add(dialled_us + latency_us, EVERYWHERE, DIAL_ARRIVAL, node.id, self._sequence, arrive)

    def _accept_dial(self, node: SimNode, other: SimNode, latency_us: Micros, dialled_us: Micros) -> None:
        """Let `other` accept the dial of `node`, or refuse it."""
        now = self._network.now
        if other.router is None or other.id in self._without_inbound or not self.reachable(node.id, other.id):
            delay_us = max(latency_us, dialled_us + self._detection_us - now)
            self._push(node, delay_us, EventKind.DIAL_FAILED, other.id, None)
            return
        link = node.links.get(other.id)
        if link is None or link.dead:  # otherwise the other node's dial has just connected the pair
            link = connect_nodes(node, other, latency_us)
        # The dial began one latency ago. An RPC that a node sends from now on arrives when the other is connected.
        self._transport.connected(link, dialled_us, now)
        link.twin.last_arrival_us = max(link.twin.last_arrival_us, now + latency_us)
        self._sequence += 1
        self._queue.add(now, other.id, _CONNECTED, node.id, -self._sequence, link.twin)
        self._push(node, latency_us, EventKind.PEER_CONNECTED, other.id, link)

    def _disconnect(self, node: SimNode, peer: Any) -> None:
        link = node.links.get(peer)
        if link is None or not link.open or link.dead:
            return
        self.notice_loss(link, self._network.now)
        self.notice_loss(link.twin, self.last_arrival_us(link))

    def _ping(self, node: SimNode, peer: Any) -> None:
        link = node.links.get(peer)
        if link is None or not link.open:
            return
        latency, now = self._latency, self._network.now
        round_trip_us = 2 * link.latency_us
        if latency.has_jitter:
            jitter_us = latency.jitter_us(node.id, peer, now) + latency.jitter_us(peer, node.id, now)
            round_trip_us = max(2, round_trip_us + jitter_us)
        self._push(node, round_trip_us, EventKind.ROUND_TRIP_MEASURED, peer, (link, round_trip_us))

    def _contacts(self, node: SimNode, wanted: FindContacts) -> tuple[int, ...]:
        """Return up to `wanted.count` random nodes in the topic: draw nodes, and list all if too few are found."""
        nodes = self._network.nodes
        purpose = (Purpose.RENDEZVOUS, node.id, key_of(wanted.topic), self._network.now)
        state = self._network.randomness.draw(*purpose)
        found: set[int] = set()
        for attempt in range(wanted.count * _ATTEMPTS_PER_CONTACT):
            if len(found) == wanted.count:
                return tuple(sorted(found))
            other = below(extend(state, attempt), len(nodes))
            if self._is_contact(node, nodes[other], wanted.topic):
                found.add(other)
        contacts = [other.id for other in nodes if self._is_contact(node, other, wanted.topic)]
        return tuple(sample(state, contacts, wanted.count))

    def _is_contact(self, node: SimNode, other: SimNode, topic: Any) -> bool:
        up = other is not node and other.router is not None and topic in other.topics
        return up and self.reachable(node.id, other.id)

    def _push(self, node: SimNode, delay_us: Micros, kind: EventKind, source: int, payload: Any) -> None:
        """Queue the result of an action. Its sequence number is negative, because those of links are not."""
        self._sequence += 1
        time = self._network.now + delay_us
        self._queue.add(time, node.id, kind, source, -self._sequence, payload, life=node.starts)
