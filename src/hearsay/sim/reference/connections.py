"""The connections of a simulated network, and the faults that end them.

`Connections` dials, opens, closes and loses connections, and notifies routers of these changes by events.

Rules of faults:

* A crash gives no notice: the peers of the node notice the crash after the detection delay. Until then, RPCs that
  the node sent before the crash still arrive. A node that leaves with a goodbye leaves its topics first. Each peer
  notices the departure after the arrival of all RPCs that the node sent to this peer.
* A cut or a partition loses the RPCs in flight on its links. Both nodes of a link notice the loss after the detection
  delay.
* A node that returns has a router without state, and dials up to `redial` random live peers that it can reach. When a
  cut or a partition heals, each node dials as many random live peers as it lost links, but at most `redial`.
* A node whose router chooses the peers to dial does not dial because of a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any

from hearsay.core.language.actions import FindContacts, fast_init
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    DirectPeerChosen,
    EventKind,
    Leave,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    RoundTripMeasured,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.registry import negotiate
from hearsay.core.rules.randomness import Purpose, below, extend, key_of, sample
from hearsay.core.shell.strategy import Dialling
from hearsay.sim.plan.draws import chosen
from hearsay.sim.plan.engines import direct_pairs
from hearsay.sim.plan.events import Fault, LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.network import addresses
from hearsay.sim.reference.nodes import DIAL_ARRIVAL, EVERYWHERE, Link, Network, SimNode, connect_nodes
from hearsay.sim.reference.transport import Transport

_connected = fast_init(PeerConnected)
MAX_DIALS = 256
"""The maximum number of dials of one node's routers that have not arrived at their targets; further dials fail."""
_ATTEMPTS_PER_CONTACT = 20
"""The maximum number of random draws per wanted contact. If they find too few contacts, all nodes are examined."""
ATTEMPTS_PER_PEER = 20
"""The maximum number of random draws per peer to dial. It is enough unless nearly all nodes are down or connected."""


class Introductions:
    """Creates the events that introduce peers to routers: new connections, ratings and direct peers."""

    def __init__(self, network: Network) -> None:
        self._nodes = network.nodes
        self._plan = plan = network.plan
        self._pairs = direct_pairs(plan.scenario)
        self._direct: dict[int, set[int]] = {}
        """The direct peers of each node that has some."""
        for one, other in self._pairs:
            self._direct.setdefault(one, set()).add(other)
            self._direct.setdefault(other, set()).add(one)
        self._protocols = [kind.protocols(parameters) for kind, parameters in plan.routers]
        self._addresses = addresses(plan.scenario.addresses, network.script)
        self._ratings: list[tuple[Container[int], Container[int], float]] = []
        """For each entry of `[[ratings]]` (P5), the last entry first: the rated nodes, the nodes that rate them, and
        the rating."""
        for number, entry in enumerate(plan.scenario.ratings):
            rated = chosen(entry, plan.router_of, network.randomness, Purpose.RATED, number)
            by = range(network.script) if entry.by is None else frozenset(entry.by)
            self._ratings.insert(0, (rated, by, float(entry.rating)))

    def announce_direct(self, node: SimNode, now: Micros) -> None:
        """Pass the direct peers of a node to the node's new router, if this router can have direct peers. The router
        returns no actions, because it has no connections yet."""
        if node.router is not None and node.router.strategy.scoring is not None:
            for peer in sorted(self._direct.get(node.id, ())):
                node.router.handle(DirectPeerChosen(peer), now)

    def direct_dials(self) -> Iterator[tuple[SimNode, int]]:
        """Yield a dial, as the node that dials and the number of its target, for each pair of direct peers that are
        both up and not connected."""
        for pair in self._pairs:
            one, other = pair if pair[1] not in self._plan.natted else pair[::-1]
            node = self._nodes[one]
            if node.router is not None and self._nodes[other].router is not None and other not in node.links:
                yield node, other

    def rating_event(self, node: SimNode, peer: int) -> PeerRated | None:
        """Return the event with the rating that a node's application gives to a peer. Return None if there is no
        rating, if the node is down, or if its router has no scores."""
        if not self._ratings or node.router is None or not node.router.strategy.keeps_scores:
            return None
        for rated, by, rating in self._ratings:
            if peer in rated and node.id in by:
                return PeerRated(peer, rating)
        return None

    def connection_event(self, node: SimNode, link: Link) -> PeerConnected:
        """Return the event that notifies a node's router of a new connection; `link` begins at the node. For a router
        without hello, the event has the topics of the peer."""
        peer = link.destination
        ours, theirs = (self._protocols[self._plan.router_of[each]] for each in (node.id, peer))
        protocol = negotiate(ours, theirs) or FLOODSUB
        silent = node.router is not None and not node.router.parameters.hello
        implied = tuple(sorted(self._nodes[peer].topics)) if silent else ()
        return _connected(peer, protocol, implied, self._addresses[peer], link.outbound)


class Connections:
    """Opens and closes connections for the plan, for faults and for routers."""

    def __init__(self, network: Network, transport: Transport, introductions: Introductions) -> None:
        self._network = network
        self._queue = network.queue
        self._latency = network.latency
        self._transport = transport
        self._introductions = introductions
        self._natted = network.plan.natted
        self._detection_us = network.plan.scenario.faults.detection_us
        self._rendezvous_us = network.plan.scenario.network.rendezvous_us
        self.separations: dict[int, Callable[[int, int], bool]] = {}
        """For each partition and cut that has not healed, a function that returns whether it separates two nodes."""
        self.rendezvous_open = True
        """False if discovery returns no contacts. Experiments with overlays set it."""
        self._sequence = 0
        """A counter that makes the sequence numbers of entries unique."""
        self._dialling: Counter[int] = Counter()
        """The number of dials of each node's routers that have not arrived, also of routers before a restart."""

    def reachable(self, node: int, other: int) -> bool:
        """Return whether no fault separates two nodes."""
        return not any(separates(node, other) for separates in self.separations.values())

    def dial(self, node: SimNode, target: int) -> None:
        """Dial a target: the link of the node opens at once, and the link of the target one latency later.

        If the target accepts no inbound connection, do nothing.
        """
        if target in self._natted:
            return
        now, link = self._network.now, node.links.get(target)
        if link is None or link.dead or not (link.open or link.twin.open):
            link = connect_nodes(node, self._network.nodes[target], self._latency.base_us(node.id, target))
        self._transport.record_dial(link, now)
        kind = EventKind.PEER_CONNECTED
        self._queue.add(now + link.latency_us, link.destination, kind, node.id, link.sequence, link.twin)
        if not link.open:
            self.open(node, link)

    def open(self, node: SimNode, link: Link) -> None:
        """Open a link, and notify the router of the link's source, `node`, that the peer is connected. If the source
        has not noticed the loss of an earlier connection to the peer, close the earlier link first."""
        previous = link.previous
        if previous is not None and previous.open:
            self.close(node, previous)
        link.previous = None
        link.set_open(True)
        rating = self._introductions.rating_event(node, link.destination)
        if rating is not None:
            self._network.feed(node, rating)
        self._network.feed(node, self._introductions.connection_event(node, link))

    def close(self, node: SimNode, link: Link) -> None:
        """Close a link, and notify the router of the link's source, `node`, that the peer is disconnected."""
        link.set_open(False)
        if node.links.get(link.destination) is link:
            del node.links[link.destination]
        self._network.feed(node, PeerDisconnected(link.destination))

    def notice_loss(self, link: Link, time: Micros) -> None:
        """Mark a link as dead, and let its source notice the loss at `time`."""
        link.dead = True
        self._sequence += 1  # two links of a pair of nodes may be lost at once, and have the same sequence number
        self._queue.add(time, link.source, EventKind.PEER_DISCONNECTED, link.destination, self._sequence, link)

    def notice_arrival_us(self, link: Link) -> Micros:
        """Return the time at which a notice arrives if the source of a link sends it now. A notice does not arrive
        before the RPCs that the source sent earlier over this link."""
        return max(self._network.now + link.latency_us, self._transport.last_arrival_us(link))

    def pass_result(self, node: SimNode, kind: int, source: int, payload: Any) -> None:
        """Pass the result of an action to the router of the node that requested it."""
        if kind == EventKind.DIAL_FAILED:
            self._network.feed(node, DialFailed(source))
        elif kind == EventKind.ROUND_TRIP_MEASURED:
            link, round_trip_us = payload
            if link.open and link.up:
                self._network.feed(node, RoundTripMeasured(source, round_trip_us))
        else:
            contacts = self._contacts(node, payload) if self.rendezvous_open else ()
            self._network.feed(node, ContactsFound(payload.topic, contacts))

    def dial_for_router(self, node: SimNode, target: int) -> None:
        """Dial a target for a node's router. The dial fails at once if the target is the node itself or no node, or
        if MAX_DIALS dials of the node have not arrived."""
        now = self._network.now
        known = 0 <= target < self._network.script and target != node.id
        if not known or self._dialling[node.id] >= MAX_DIALS:
            self._push(node, 0, EventKind.DIAL_FAILED, target, None)
            return
        self._dialling[node.id] += 1
        arrive = partial(self._dial_arrives, node, self._network.nodes[target], node.starts, now)
        self._sequence += 1
        arrival_us = now + self._latency.base_us(node.id, target)
        self._queue.add(arrival_us, EVERYWHERE, DIAL_ARRIVAL, node.id, self._sequence, arrive)

    def _dial_arrives(self, node: SimNode, other: SimNode, life: int, dialled_us: Micros) -> None:
        """Let `other` accept the dial of `node`, or refuse it. If `node` has stopped since, do nothing."""
        self._dialling[node.id] -= 1
        if node.router is None or node.starts != life:
            return
        now = self._network.now
        latency_us = now - dialled_us
        if other.router is None or other.id in self._natted or not self.reachable(node.id, other.id):
            self._push(node, max(latency_us, self._detection_us - latency_us), EventKind.DIAL_FAILED, other.id, None)
            return
        link = node.links.get(other.id)
        if link is None or link.dead:  # otherwise the other node's dial has just connected the pair
            link = connect_nodes(node, other, latency_us)
        # The dial began one latency ago. RPCs that either node sends from now on arrive after the peer is connected.
        self._transport.record_arrived_dial(link, dialled_us, now)
        link.twin.last_arrival_us = max(link.twin.last_arrival_us, now + latency_us)
        self._sequence += 1
        self._queue.add(now, other.id, EventKind.PEER_CONNECTED, node.id, -self._sequence, link.twin)
        self._push(node, latency_us, EventKind.PEER_CONNECTED, other.id, link)

    def disconnect(self, node: SimNode, peer: Any) -> None:
        """End the connection to a peer for a node's router, if it is open."""
        link = node.links.get(peer)
        if link is None or not link.open or link.dead:
            return
        self.notice_loss(link, self._network.now)
        self.notice_loss(link.twin, self.notice_arrival_us(link))

    def ping(self, node: SimNode, peer: Any) -> None:
        """Measure the round trip to a connected peer for a node's router."""
        link = node.links.get(peer)
        if link is None or not link.open:
            return
        latency, now = self._latency, self._network.now
        round_trip_us = 2 * link.latency_us
        if latency.has_jitter:
            jitter_us = latency.jitter_us(node.id, peer, now) + latency.jitter_us(peer, node.id, now)
            round_trip_us = max(2, round_trip_us + jitter_us)
        self._push(node, round_trip_us, EventKind.ROUND_TRIP_MEASURED, peer, (link, round_trip_us))

    def find_contacts(self, node: SimNode, action: FindContacts) -> None:
        """Let discovery answer a node's router after the time that the scenario sets."""
        self._push(node, self._rendezvous_us, EventKind.CONTACTS_FOUND, -1, action)

    def _contacts(self, node: SimNode, wanted: FindContacts) -> tuple[int, ...]:
        """Return up to `wanted.count` random nodes that are in the topic. First draw from all nodes; if these draws
        find too few nodes in the topic, return a random sample of all nodes in the topic."""
        nodes = self._network.nodes
        state = self._network.randomness.draw(Purpose.RENDEZVOUS, node.id, key_of(wanted.topic), self._network.now)
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
        """Return whether `other` is a possible contact for a node in a topic: it is another node that is up, in the
        topic and reachable."""
        up = other is not node and other.router is not None and topic in other.topics
        return up and self.reachable(node.id, other.id)

    def _push(self, node: SimNode, delay_us: Micros, kind: EventKind, source: int, payload: Any) -> None:
        """Queue the result of an action of a node's router. The sequence number of such an entry is negative, so that
        it differs from the sequence numbers of links."""
        self._sequence += 1
        time = self._network.now + delay_us
        self._queue.add(time, node.id, kind, source, -self._sequence, payload, life=node.starts)


class Faults:
    """Applies faults to a network."""

    def __init__(self, network: Network, connections: Connections) -> None:
        self._network = network
        self._connections = connections
        self._detection_us = network.plan.scenario.faults.detection_us
        self._redial = network.plan.scenario.faults.redial
        self._lost_links: dict[int, Counter[int]] = {}
        """For each cut or partition that has not healed, the number of links that each node lost."""

    def apply(self, fault: Fault) -> None:
        match fault:
            case NodeDown():
                self._stop(self._network.nodes[fault.node], fault.goodbye)
            case NodeUp():
                node = self._network.nodes[fault.node]
                self._network.start(node)
                self._dial_live(node, self._redial)
            case LinksCut():
                self._cut(fault)
            case LinksHealed():
                self._heal(fault)

    def _stop(self, node: SimNode, goodbye: bool) -> None:
        network = self._network
        if goodbye:
            for topic in sorted(node.topics):
                network.feed(node, Leave(topic))
        network.stop(node)
        for peer in sorted(node.links):
            link = node.links[peer]
            for each in link.newest_first():
                each.set_open(False)
            link.dead = True
            detected_us, goodbye_us = network.now + self._detection_us, self._connections.notice_arrival_us(link) + 1
            self._connections.notice_loss(link.twin, goodbye_us if goodbye else detected_us)
        node.links.clear()

    def _cut(self, fault: LinksCut) -> None:
        pairs, side = frozenset((min(a, b), max(a, b)) for a, b in fault.links), fault.side

        def separates(a: int, b: int) -> bool:
            return (min(a, b), max(a, b)) in pairs if side is None else (a in side) != (b in side)

        self._connections.separations[fault.fault] = separates
        lost = self._lost_links.setdefault(fault.fault, Counter())
        for node in self._network.nodes:
            for peer in sorted(node.links):
                if separates(node.id, peer):
                    lost[node.id] += 1
                    for link in reversed([*node.links[peer].newest_first()]):
                        link.cut_line()
                        self._connections.notice_loss(link, self._network.now + self._detection_us)

    def _heal(self, fault: LinksHealed) -> None:
        self._connections.separations.pop(fault.fault, None)
        for number, count in sorted(self._lost_links.pop(fault.fault, Counter()).items()):
            node = self._network.nodes[number]
            if node.router is not None:
                self._dial_live(node, min(count, self._redial))

    def _dial_live(self, node: SimNode, count: int) -> None:
        """Let a node dial up to `count` random live peers that it can reach and is not connected to. If its router
        chooses the peers to dial, do nothing."""
        network = self._network
        if node.router is not None and node.router.strategy.dialling is Dialling.BY_ROUTER:
            return
        state = network.randomness.draw(Purpose.REDIAL, node.id, network.now)
        dialled = 0
        for attempt in range(count * ATTEMPTS_PER_PEER):
            if dialled == count:
                return
            target = below(extend(state, attempt), len(network.nodes))
            link = node.links.get(target)
            connected = link is not None and not link.dead
            live = network.nodes[target].router is not None
            if target != node.id and live and not connected and self._connections.reachable(node.id, target):
                self._connections.dial(node, target)
                dialled += 1
