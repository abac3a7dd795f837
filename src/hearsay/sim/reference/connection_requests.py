"""Connections that routers ask for: dial, hang up, ping, and contacts from a rendezvous.

Rules:

* A dial reaches the other end one latency later; it is accepted if that node is up, takes inbound connections
  (`network.nat_share` says how many do not) and no fault keeps the two apart. Then both ends are connected, the
  dialling one after a full round trip. Otherwise the dialling node learns of the failure `faults.detection_s` after
  it dialled, or as soon as the answer could be there.
* A PRUNE may name anybody, any number of times: a dial to who is no node, or to oneself, fails at once, and so does
  one beyond `MAX_DIALS` under way.
* Who hangs up loses the connection at once, the other end one latency later, after all that was sent to it.
* A ping takes a round trip, jitter included, and gets no answer if the connection is gone by then.
* The rendezvous answers after `network.rendezvous_ms` with random nodes that are up, in the topic and within reach.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol, assert_never

from hearsay.core.language.actions import Dial, Disconnect, FindContacts, Ping
from hearsay.core.language.events import ContactsFound, DialFailed, EventKind, RoundTripMeasured
from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, Randomness, below, key_of, sample
from hearsay.sim.plan.latency import LatencyModel
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.event_queue import EVERYWHERE, EventQueue
from hearsay.sim.reference.host import Host
from hearsay.sim.reference.nodes import Link, SimNode, connect_nodes
from hearsay.sim.reference.transport import Transport

_ATTEMPTS_PER_CONTACT = 20
"""Random draws for one contact before all nodes are looked through."""
MAX_DIALS = 256
"""How many dials of a node may be under way."""
_ARRIVAL = 3
"""The kind of a dial's arrival among what concerns the whole network: after faults, samples and the script."""


class Barriers(Protocol):
    def reachable(self, node: int, other: int) -> bool:
        """Whether no fault keeps the two apart."""
        ...


class ConnectionRequests:
    """Does what routers ask about connections."""

    def __init__(
        self,
        host: Host,
        connections: Connections,
        plan: Plan,
        latency: LatencyModel,
        randomness: Randomness,
        queue: EventQueue,
        transport: Transport,
        barriers: Barriers,
    ) -> None:
        self._host = host
        self._connections = connections
        self._latency = latency
        self._randomness = randomness
        self._queue = queue
        self._transport = transport
        self._barriers = barriers
        self._without_inbound = plan.natted
        self._detection_us = plan.scenario.faults.detection_us
        self._rendezvous_us = plan.scenario.network.rendezvous_us
        self._sequence = 0
        self._under_way: Counter[int] = Counter()
        """Dials by node."""
        self.rendezvous_open = True
        """False in measurements of what the overlay can do alone."""

    def perform(self, node: SimNode, action: Dial | Disconnect | Ping | FindContacts) -> None:
        match action:
            case Dial():
                target: Any = action.peer
                self._dial(node, target)
            case Disconnect():
                self._hang_up(node, action.peer)
            case Ping():
                self._ping(node, action.peer)
            case FindContacts():
                self._push(node, self._rendezvous_us, EventKind.CONTACTS_FOUND, -1, action)
            case _:
                assert_never(action)

    def handle(self, node: SimNode, kind: int, source: int, payload: Any) -> None:
        """What `perform` promised has come."""
        if kind == EventKind.DIAL_FAILED:
            self._host.feed(node, DialFailed(source))
        elif kind == EventKind.ROUND_TRIP_MEASURED:
            link, round_trip_us = payload
            if link.open and link.up:
                self._host.feed(node, RoundTripMeasured(source, round_trip_us))
        else:
            contacts = self._contacts(node, payload) if self.rendezvous_open else ()
            self._host.feed(node, ContactsFound(payload.topic, contacts))

    def _dial(self, node: SimNode, target: int) -> None:
        host = self._host
        known = 0 <= target < len(host.nodes) and target != node.id
        if not known or self._under_way[node.id] >= MAX_DIALS:
            self._push(node, 0, EventKind.DIAL_FAILED, target, None)
            return
        self._under_way[node.id] += 1
        other = host.nodes[target]
        life, dialled_us = node.starts, host.now
        latency_us = self._latency.base_us(node.id, other.id)

        def arrive() -> None:
            self._under_way[node.id] -= 1
            if node.router is not None and node.starts == life:
                self._arrive(node, other, latency_us, dialled_us)

        self._sequence += 1
        self._queue.add(host.now + latency_us, EVERYWHERE, _ARRIVAL, node.id, self._sequence, arrive)

    def _arrive(self, node: SimNode, other: SimNode, latency_us: Micros, dialled_us: Micros) -> None:
        host = self._host
        now = host.now
        if (
            other.router is None
            or other.id in self._without_inbound
            or not self._barriers.reachable(node.id, other.id)
        ):
            delay_us = max(latency_us, dialled_us + self._detection_us - now)
            self._push(node, delay_us, EventKind.DIAL_FAILED, other.id, None)
            return
        link = node.links.get(other.id)
        if link is None or link.dead:  # else it is there already, or just made by a dial the other way
            link = connect_nodes(node, other, latency_us)
        # The dial is one latency old. What either end says from now on comes after the other is connected.
        self._transport.connected(link, dialled_us, now)
        link.twin.last_arrival_us = max(link.twin.last_arrival_us, now + latency_us)
        self._queue.add(now, other.id, EventKind.PEER_CONNECTED, node.id, -self._sequence, link.twin)
        self._push(node, latency_us, EventKind.PEER_CONNECTED, other.id, link)

    def _hang_up(self, node: SimNode, peer: Any) -> None:
        link = node.links.get(peer)
        if link is None or not link.open or link.dead:
            return
        self._connections.notice_loss(link, self._host.now)
        self._connections.notice_loss(link.twin, self._connections.heard_out_us(link))

    def _ping(self, node: SimNode, peer: Any) -> None:
        link = node.links.get(peer)
        if link is None or not link.open:
            return
        latency = self._latency
        now = self._host.now
        round_trip_us = 2 * link.latency_us
        if latency.has_jitter:
            jitter_us = latency.jitter_us(node.id, peer, now) + latency.jitter_us(peer, node.id, now)
            round_trip_us = max(2, round_trip_us + jitter_us)
        self._push(node, round_trip_us, EventKind.ROUND_TRIP_MEASURED, peer, (link, round_trip_us))

    def _contacts(self, node: SimNode, wanted: FindContacts) -> tuple[int, ...]:
        """Random nodes that are up and in the topic; few draws when there are many, all nodes looked at otherwise."""
        nodes = self._host.nodes
        state = self._randomness.draw(Purpose.RENDEZVOUS, node.id, key_of(wanted.topic), self._host.now)
        found: set[int] = set()
        for attempt in range(wanted.count * _ATTEMPTS_PER_CONTACT):
            if len(found) == wanted.count:
                return tuple(sorted(found))
            other = below(extend(state, attempt), len(nodes))
            if self._serves(node, nodes[other], wanted.topic):
                found.add(other)
        everyone = [other.id for other in nodes if self._serves(node, other, wanted.topic)]
        return tuple(sample(state, everyone, wanted.count))

    def _serves(self, node: SimNode, other: SimNode, topic: Any) -> bool:
        up = other is not node and other.router is not None and topic in other.topics
        return up and self._barriers.reachable(node.id, other.id)

    def _push(self, node: SimNode, delay_us: Micros, kind: EventKind, source: Any, payload: Link | Any) -> None:
        """Sequence numbers below zero keep these apart from what travels on links."""
        self._sequence += 1
        time = self._host.now + delay_us
        self._queue.add(time, node.id, kind, source, -self._sequence, payload, life=node.starts)
