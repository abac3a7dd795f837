"""Peers of a router come and go: their links, and when the router hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import getLogger

from hearsay.core.language.events import Event, PeerConnected, PeerDisconnected
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.node.fairness.conduct import EarlyGrafts
from hearsay.node.incoming.reception import Reception
from hearsay.node.sending import PeerLink, Sender
from hearsay.node.surroundings import Surroundings

_log = getLogger(__name__)


class Links:
    def __init__(
        self,
        peer_queue_bytes: int,
        sender: Sender,
        reception: Reception,
        early_grafts: EarlyGrafts,
        around: Surroundings,
        feed: Callable[[Event], None],
    ) -> None:
        self.of: dict[PeerId, PeerLink] = {}
        self.leaving: dict[PeerId, PeerLink] = {}
        """Of peers that are gone, and sent something that is not handled."""
        self._peer_queue_bytes = peer_queue_bytes
        self._sender = sender
        self._reception = reception
        self._early_grafts = early_grafts
        self._around = around
        self._feed = feed

    @property
    def connected(self) -> tuple[PeerId, ...]:
        """The peers that the router knows."""
        return tuple(sorted(peer for peer, link in self.of.items() if link.connected))

    def peer_up(self, peer: PeerId) -> None:
        """A connection is there; its pubsub streams are not."""
        _log.debug("%s is connected", to_text(peer))
        self.of[peer] = PeerLink(
            peer,
            self._peer_queue_bytes,
            self._sender.memory,
            self._around.group_of(peer),
            self._reception.intake_of(peer),
            left=self._sender.left,
            lost=self._sender.lost,
        )

    def peer_down(self, peer: PeerId) -> None:
        """A connection is gone. What the peer sent before is handled; then the router hears of it."""
        link = self.of.pop(peer, None)
        if link is None:
            return
        _log.debug("%s is gone", to_text(peer))
        link.settled.set()
        link.queue.clear()
        self._sender.forget(peer)
        if link.connected:
            link.outbound = None
            self.leaving[peer] = link
            link.intake.leave(lambda: self._gone(peer))
        else:
            link.intake.end()
            self._forget(peer)

    def outbound_open(self, link: PeerLink, stream: Stream) -> None:
        """The peer speaks pubsub: the router may know it."""
        self.hear_no_more(link.peer)
        link.outbound = stream
        address, outbound = self._around.address_of(link.peer), self._around.dialled(link.peer)
        topics, features = link.said
        self._feed(PeerConnected(link.peer, stream.protocol, topics, address, outbound, features))
        link.set_outbound(stream)
        link.settled.set()

    def outbound_lost(self, link: PeerLink) -> None:
        """Our stream is gone. The peer's own stream may stay open, and what it said there stays valid."""
        if link.connected:
            link.said = self._reception.said_by(link.peer) if link.intake.stream is not None else ((), None)
            link.set_outbound(None)
            link.queue.clear()  # the hello is the first RPC of the next stream
            self._sender.forget(link.peer)
            self._feed(PeerDisconnected(link.peer))

    def inbound_open(self, stream: Stream) -> None:
        """A peer opened its stream to us."""
        link = self.of.get(stream.peer)
        if link is None:
            stream.reset()
        else:
            link.intake.receive_from(stream)

    def hear_no_more(self, peer: PeerId) -> None:
        """Of a peer that is gone nothing more is handled."""
        link = self.leaving.get(peer)
        if link is not None:
            link.intake.end()

    def group_of(self, peer: PeerId) -> str:
        """Return the address group of a peer, also of one that is gone and whose RPCs are still handled."""
        link = self.leaving.get(peer) or self.of.get(peer)
        return link.queue.address if link is not None else self._around.group_of(peer)

    async def protocol_of(self, peer: PeerId) -> str:
        """What is spoken with a peer that has just come; nothing if it does not speak pubsub."""
        link = self.of.get(peer)
        if link is None:
            return ""
        await link.settled.wait()
        return link.outbound.protocol if link.outbound is not None else ""

    async def flush(self) -> None:
        """Wait until all queues are empty and their bytes have left."""
        self._sender.flush()
        await asyncio.gather(*(link.drain() for link in list(self.of.values())))

    async def make_room(self) -> None:
        """Wait until the queues that are more than half full are empty."""
        self._sender.flush()
        most = self._peer_queue_bytes // 2
        crowded = [link.drain() for link in self.of.values() if link.queue.bytes > most]
        if crowded:
            await asyncio.gather(*crowded)

    def close(self) -> None:
        for link in (*self.of.values(), *self.leaving.values()):
            link.intake.end()

    def _gone(self, peer: PeerId) -> None:
        del self.leaving[peer]
        self._forget(peer)
        self._feed(PeerDisconnected(peer))

    def _forget(self, peer: PeerId) -> None:
        self._reception.forget(peer)
        self._early_grafts.gone(peer)
