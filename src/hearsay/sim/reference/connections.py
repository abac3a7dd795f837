"""Connections of a simulated network: opened and closed, and when each end hears of it."""

from __future__ import annotations

from collections.abc import Collection

from hearsay.core.language.events import EventKind, PeerDisconnected
from hearsay.core.language.identifiers import Micros
from hearsay.sim.plan.latency import LatencyModel
from hearsay.sim.reference.event_queue import EventQueue
from hearsay.sim.reference.host import Host
from hearsay.sim.reference.introductions import Introductions
from hearsay.sim.reference.nodes import Link, SimNode, connect_nodes
from hearsay.sim.reference.transport import Transport

_CONNECTED = int(EventKind.PEER_CONNECTED)
_DISCONNECTED = int(EventKind.PEER_DISCONNECTED)


class Connections:
    def __init__(
        self,
        host: Host,
        without_inbound: Collection[int],
        latency: LatencyModel,
        queue: EventQueue,
        transport: Transport,
        introductions: Introductions,
    ) -> None:
        self._host = host
        self._without_inbound = without_inbound
        self._latency = latency
        self._queue = queue
        self._transport = transport
        self._introductions = introductions

    def dial(self, node: SimNode, target: int) -> None:
        """`node` opens a connection; the target learns of it one latency later, unless it takes none."""
        if target in self._without_inbound:
            return
        now = self._host.now
        existing = node.links.get(target)
        if existing is not None and not existing.dead and (existing.open or existing.twin.open):
            link = existing
        else:
            link = connect_nodes(node, self._host.nodes[target], self._latency.base_us(node.id, target))
        self._transport.connect(link, now)
        self._queue.add(now + link.latency_us, link.destination, _CONNECTED, node.id, link.sequence, link.twin)
        if not link.open:
            self.open(node, link)

    def open(self, node: SimNode, link: Link) -> None:
        """The source of a link hears that it is there."""
        previous = link.previous
        if previous is not None and previous.open:
            self.close(node, previous)
        link.previous = None
        link.set_open(True)
        opinion = self._introductions.opinion(node, link.destination)
        if opinion is not None:
            self._host.feed(node, opinion)
        self._host.feed(node, self._introductions.connected(node, link))

    def close(self, node: SimNode, link: Link) -> None:
        """The source of a link hears that it is gone."""
        link.set_open(False)
        if node.links.get(link.destination) is link:
            del node.links[link.destination]
        self._host.feed(node, PeerDisconnected(link.destination))

    def notice_loss(self, link: Link, time: Micros) -> None:
        """The source of a link that is gone notices at `time`."""
        link.dead = True
        self._queue.add(time, link.source, _DISCONNECTED, link.destination, link.sequence, link)

    def heard_out_us(self, link: Link) -> Micros:
        """When what is said now at the source of a link arrives, after all that was said before."""
        return max(self._host.now + link.latency_us, self._transport.last_arrival_us(link))
