"""The links of a node to its peers, and pauses and bans of offenders.

A node writes its RPCs to a peer on one stream that the node opens, here *our stream*. It reads the peer's RPCs from
streams that the peer opens (`intake.py`). For the router, a peer is connected while our stream to the peer is open. A
peer is gone when its last connection has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from logging import getLogger
from time import monotonic

from hearsay.core.language.events import Event, PeerConnected, PeerDisconnected
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import MultistreamError, ProtocolError
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.node_host import NodeHost, Tasks
from hearsay.libp2p.rates import Turns
from hearsay.libp2p.resources import Budget, address_group
from hearsay.node.conduct import Ban, Conduct, ConductLimits, EarlyGrafts, Offence, Statistics
from hearsay.node.config import NodeLimits
from hearsay.node.intake import Intake
from hearsay.node.receive import PeerInput, Receiver
from hearsay.node.receive_events import DriverEvent
from hearsay.node.sending import PeerLink, Sender
from hearsay.node.verification import Verification

_log = getLogger(__name__)

REOPEN_SECONDS = (0.0, 0.1, 1.0, 5.0, 60.0)
"""Seconds to wait before each attempt to open our stream to a peer; the last value is repeated."""

OWN_MACHINE = frozenset(map(address_group, ("127.0.0.1", "::1")))
"""The address groups of the loopback interface. A router without scores gets no address of peers in these groups. So
PLACES-1 does not limit these peers, and one machine can run many nodes."""


@dataclass(eq=False)
class Links:
    """The links of a node to its peers."""

    _host: NodeHost
    _limits: NodeLimits
    _sender: Sender
    _receiver: Receiver
    _early_grafts: EarlyGrafts
    _feed: Callable[[Event], None]
    """Passes an event to the router."""
    _act: Callable[[DriverEvent], None]
    """Handles an event of a peer's input."""

    def __post_init__(self) -> None:
        self.by_peer: dict[PeerId, PeerLink] = {}
        """The links to the peers that are connected to the host."""
        self.leaving: dict[PeerId, PeerLink] = {}
        """The links to peers that are gone, as long as their remaining input is handled."""
        self.verification = Verification(self._limits.verification_threads, self._receiver.is_new)
        self._turns = Turns(monotonic, asyncio.get_running_loop().call_soon)
        self.stream_tasks = Tasks()
        """Tasks that keep our streams to peers open."""

    @property
    def connected(self) -> tuple[PeerId, ...]:
        """Return the peers that are connected for the router, ascending."""
        return tuple(sorted(peer for peer, link in self.by_peer.items() if link.connected))

    def peer_up(self, peer: PeerId) -> None:
        """Create the link to a peer that has connected to the host, and open our stream to the peer."""
        _log.debug("%s is connected", to_text(peer))
        intake = Intake(PeerInput(self._receiver, peer), self._turns, self.verification, self._act)
        address = self._host.address_of(peer)
        link = self.by_peer[peer] = PeerLink(peer, self._limits.peer_queue_bytes, address, intake, self._sender)
        self.stream_tasks.start(self._open(link)).add_done_callback(lambda _: link.settled.set())

    def peer_down(self, peer: PeerId) -> None:
        """Handle the remaining input of a peer that is gone; then report the peer to the router as disconnected.

        If the peer was not connected for the router, drop its input instead.
        """
        link = self.by_peer.pop(peer, None)
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
        """Report a peer to the router as connected, because our stream to the peer is open."""
        self.stop_receiving(link.peer)
        link.outbound = stream
        address, outbound = self._address_of(link.peer), self._host.has_dialled(link.peer)
        topics, features = link.announced
        self._feed(PeerConnected(link.peer, stream.protocol, topics, address, outbound, features))
        link.set_outbound(stream)
        link.settled.set()

    def outbound_lost(self, link: PeerLink) -> None:
        """Report a peer to the router as disconnected, because our stream to the peer is gone.

        If the peer's own stream is still open, keep the peer's topics and extensions in `link.announced`.
        """
        if link.connected:
            link.announced = (), None
            if link.intake.stream is not None:
                router = self._receiver.router
                topics = tuple(sorted(router.connected[link.peer].topics))
                features = router.strategy.features
                link.announced = topics, None if features is None else features.features_of(link.peer)
            link.set_outbound(None)
            link.queue.clear()  # the hello is the first RPC of the next stream
            self._sender.forget(link.peer)
            self._feed(PeerDisconnected(link.peer))

    def inbound_open(self, stream: Stream) -> None:
        """Read from a stream that a peer has opened. Reset the stream if the peer is gone."""
        link = self.by_peer.get(stream.peer)
        if link is None:
            stream.reset()
        else:
            link.intake.receive_from(stream)

    def resume(self, peer: PeerId) -> None:
        """Continue to handle the input of a peer, connected or gone."""
        for links in (self.by_peer, self.leaving):
            if peer in links:
                links[peer].intake.schedule()

    def stop_receiving(self, peer: PeerId) -> None:
        """Drop the remaining input of a peer that is gone."""
        link = self.leaving.get(peer)
        if link is not None:
            link.intake.end()

    def group_of(self, peer: PeerId) -> str:
        """Return the address group of a peer that is connected, or that is gone but has remaining input. Return an
        empty text for another peer."""
        link = self.leaving.get(peer) or self.by_peer.get(peer)
        return link.queue.address if link is not None else self._host.address_of(peer)

    def budget_of(self, peer: PeerId) -> Budget:
        """Return the budget of the memory that a peer may use at the host."""
        return self._host.resources.peer(peer, self.group_of(peer))

    async def protocol_of(self, peer: PeerId) -> str:
        """Wait until our stream to a peer is open, and return the protocol of the stream.

        Return an empty text if the peer speaks no pubsub protocol of this node or is gone.
        """
        link = self.by_peer.get(peer)
        if link is None:
            return ""
        await link.settled.wait()
        return link.outbound.protocol if link.outbound is not None else ""

    async def flush(self) -> None:
        """Wait until all queues of peers with an open stream are empty and their bytes are sent."""
        self._sender.flush()
        await asyncio.gather(*(link.drain() for link in list(self.by_peer.values())))

    async def make_room(self) -> None:
        """Wait until all queues that are more than half full now are empty."""
        self._sender.flush()
        most = self._limits.peer_queue_bytes // 2
        await asyncio.gather(*(link.drain() for link in list(self.by_peer.values()) if link.queue.bytes > most))

    def close(self) -> None:
        for link in (*self.by_peer.values(), *self.leaving.values()):
            link.intake.end()

    async def _open(self, link: PeerLink) -> None:
        """Keep our stream to a peer open: reopen it after the waits of `REOPEN_SECONDS`.

        Return when the peer is gone or speaks no pubsub protocol of this node.
        """
        for wait_s in chain(REOPEN_SECONDS, repeat(REOPEN_SECONDS[-1])):
            await asyncio.sleep(wait_s)
            if self.by_peer.get(link.peer) is not link:
                return
            try:
                stream = await self._host.open_stream(link.peer, self._receiver.router.strategy.protocols)
            except MultistreamError:
                return  # the peer does not speak pubsub
            except (StreamClosed, ProtocolError):
                continue
            if self.by_peer.get(link.peer) is not link:
                stream.reset()
                return
            ended = asyncio.Event()
            self.outbound_open(link, stream)
            stream.receive_with(_refuse_data, lambda reset, ended=ended: ended.set() if reset else None)
            await ended.wait()
            if link.outbound is stream:
                self.outbound_lost(link)

    def _address_of(self, peer: PeerId) -> str:
        """Return the address of a peer for the router: the IP address if the router keeps scores, otherwise the
        address group, or an empty text for a group of `OWN_MACHINE`.
        """
        if self._receiver.router.strategy.keeps_scores:
            remote = self._host.remote_address(peer)
            return remote.parts[0][1] if remote is not None else ""
        group = self._host.address_of(peer)
        return "" if group in OWN_MACHINE else group

    def _gone(self, peer: PeerId) -> None:
        del self.leaving[peer]
        self._forget(peer)
        self._feed(PeerDisconnected(peer))

    def _forget(self, peer: PeerId) -> None:
        self._receiver.forget(peer)
        self._early_grafts.forget(peer)


def _refuse_data(data: bytes) -> None:
    raise ProtocolError("the peer sent data on a stream that only this node may write to")


class ConductEnforcer:
    """The enforcement of conduct: it pauses reading from peers with many demerits, and disconnects banned peers."""

    def __init__(self, host: NodeHost, limits: ConductLimits) -> None:
        self._host = host
        self._limits = limits
        self._links: Links | None = None
        self._statistics = Statistics()
        self.on_kept_out: list[Callable[[Ban], None]] = []
        """Called with each new ban of a peer or of an address."""
        self.conduct = Conduct(monotonic, self._enforce_ban, limits)
        host.admits = lambda peer, address: self.conduct.ban_of(peer, address) is None

    def attach(self, links: Links, statistics: Statistics) -> None:
        """Apply pauses and bans to `links`, and count them in `statistics`."""
        self._links = links
        self._statistics = statistics

    def add_offences(self, peer: PeerId, offence: Offence, count: int) -> None:
        """Add offences to the record of a peer. Slow or ban the peer if it has too many demerits then."""
        assert self._links is not None
        address = self._links.group_of(peer)
        self._statistics.offences[offence] += count
        self.conduct.note(peer, address, offence, count)
        link = self._links.by_peer.get(peer)
        if link is not None and self.conduct.slowed(peer, address):
            self._statistics.slowed += 1
            link.intake.pause_for(self._limits.pause_s)

    def _enforce_ban(self, news: Ban) -> None:
        """Stop reading from the banned peers now. Disconnect them after the router has handled the current event."""
        assert self._links is not None
        self._statistics.put_out += 1
        for peer in list(self._host.connections):
            if peer == news.peer or (news.peer is None and self._host.address_of(peer) == news.address):
                link = self._links.by_peer.get(peer)
                if link is not None:
                    link.intake.refuse()
                asyncio.get_running_loop().call_soon(self._host.disconnect, peer)
        for callback in self.on_kept_out:
            callback(news)
