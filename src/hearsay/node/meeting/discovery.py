"""Discovery of peers: bootstrap addresses, addresses from other peers and searches, and the requests of a router.

A bootstrap address is dialled again if the dial fails or the connection ends. The pauses between dials grow
(`Retries` in `dial_queue.py`), and are short again after a connection that lasted for some time. The outcome of each
dial is reported (`AddressNews` in `address_book.py`). Addresses of direct peers are handled in the same way.

Addresses from peers and searches are kept in an address book (`address_book.py`) and dialled in fair turns
(`dial_queue.py`). A peer that a search finds is queued at once. A peer that another peer has named is queued when the
router requests a dial. A dialled peer must prove that it has the expected identity.

A router requests dials, measurements of round trips, and contacts for a topic, which are answered later:

* A dial that fails, or reaches a peer without a common pubsub protocol, is answered by `DialFailed`. For a dial that
  succeeds, the router gets `PeerConnected` instead.
* A ping is answered by the round trip time. A ping that fails, or lasts longer than `PING_SECONDS`, is answered by
  this maximum. There is no answer if the peer is gone.
* A search for contacts is answered by random peers that are connected or have known addresses, in any topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from logging import getLogger
from random import random, sample
from time import monotonic
from typing import assert_never

from hearsay.core.language.actions import Dial, FindContacts, Ping
from hearsay.core.language.events import ContactsFound, DialFailed, Event, RoundTripMeasured
from hearsay.core.language.identifiers import TopicId
from hearsay.libp2p.identify import Identity, PingService
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.errors import DialError, EncodingError, OwnAddress, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.node_host import NodeHost, Tasks
from hearsay.libp2p.rates import Rate, Rates
from hearsay.libp2p.rendezvous import open_unsigned
from hearsay.libp2p.resources import address_group
from hearsay.node.conduct import Ban
from hearsay.node.meeting.address_book import AddressBook, AddressNews, AddressState, BookLimits
from hearsay.node.meeting.dial_queue import FIRST_RETRY_S, DialLimits, DialQueue, PlannedDial, Retries
from hearsay.wire.fields import raw

LASTING_S = 10.0
"""Seconds that a connection must last so that the pauses between dials start again from the shortest one."""
STREAM_SECONDS = 5.0
"""Seconds after the end of a dial until the pubsub stream must be open."""
PING_SECONDS = 10.0
"""Maximum seconds of a ping."""
NO_PUBSUB = "the peer speaks no pubsub protocol of this node"
_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryLimits:
    book: BookLimits = field(default_factory=BookLimits)
    dials: DialLimits = field(default_factory=DialLimits)
    records: Rate = Rate(1024, 64.0)
    """Maximum rate at which the node reads signed records of one source; further records are ignored."""


@dataclass(eq=False)
class Discovery:
    """The known and searched peers of a node, and the dials to them through a host."""

    _host: NodeHost
    _first_retry_s: float = FIRST_RETRY_S
    _: KW_ONLY
    report: Callable[[AddressNews], None] = lambda news: None
    """Called with each new state of an address that was passed to `keep_connected`."""
    protocol_of: Callable[[PeerId], Awaitable[str]] | None = None
    """Returns the pubsub protocol of a connected peer; an empty string if it speaks none."""
    limits: DiscoveryLimits = field(default_factory=DiscoveryLimits)
    ban_of: Callable[[PeerId | None, str], Ban | None] = lambda peer, address: None
    """Called with a peer or None, and an address group. Returns the ban of the peer or of the group; None without a
    ban."""

    def __post_init__(self) -> None:
        self._tasks = Tasks()
        self._gone: dict[PeerId, asyncio.Event] = {}
        self._bootstrap_peers: set[PeerId] = set()
        self.book = AddressBook(self._host.can_dial, self.limits.book)
        self._queue = DialQueue(monotonic, self.limits.dials)
        self._records: Rates[str] = Rates(monotonic, self.limits.records)
        self._dial_ends: dict[PeerId, asyncio.Future[None]] = {}
        """By peer that `reach` waits for: a future that is set when the dial has ended or has left the queue."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._host.on_peer_down.append(self._lost)

    def keep_connected(self, address: Multiaddr) -> None:
        """Dial an address now, and again whenever the dial fails or the connection ends.

        Do not dial it again if it leads to this node itself.
        """
        self._tasks.start(self._keep_connected(address))

    def learn(self, envelope: bytes, sender: PeerId, named: PeerId | None = None) -> None:
        """Keep a signed record that `sender` sent, if it is valid and new and within the rate of `sender`'s address.

        If `named` is not None, the record must be that of the peer `named`.
        """
        source = self._host.address_of(sender)
        if not self._records.use_or_wait_s(source):
            self._learn(envelope, source, sender, named)

    def identified(self, peer: PeerId, identity: Identity) -> None:
        """Keep the signed record that a peer sends about itself, so that the node can dial it later."""
        if identity.signed_record:
            self.learn(identity.signed_record, peer)

    def found(self, peer: PeerId, addresses: tuple[Multiaddr, ...], source: str) -> None:
        """Queue a peer that a search has found at these addresses. `source` is the name of the search."""
        if peer != self._host.peer:
            self.book.claim(peer, addresses, source)
            self._enqueue(peer, source)

    def found_record(self, record: bytes, source: str) -> None:
        """Queue the peer of a registration at the rendezvous point `source`.

        The registration is a signed record or has the older unsigned form. An invalid one is ignored.
        """
        if self._records.use_or_wait_s(source):
            return
        if (peer := self._learn(record, source)) is not None:
            self._enqueue(peer, source)
            return
        with suppress(EncodingError):
            self.found(*open_unsigned(record), source)

    @property
    def known(self) -> tuple[PeerId, ...]:
        """Return the peers whose addresses are known, without this node."""
        return tuple(peer for peer in self.book.peers if peer != self._host.peer)

    def hang_up(self, peer: PeerId) -> None:
        """Disconnect a peer that the router no longer needs. Do nothing for a peer of `keep_connected`, because it
        would be dialled again."""
        if peer not in self._bootstrap_peers:
            self._host.disconnect(peer)

    async def reach(self, peer: PeerId) -> bool:
        """Queue a peer and wait until its dial has ended. Returns True if the peer is connected then.

        Returns at once if the peer is connected, has no known address or cannot be queued.
        """
        if self._enqueue(peer, self.book.source(peer)):
            wanted = self._dial_ends.setdefault(peer, asyncio.get_running_loop().create_future())
            await asyncio.shield(wanted)
        return peer in self._host.connections

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    def _learn(
        self, record: bytes, source: str, sender: PeerId | None = None, named: PeerId | None = None
    ) -> PeerId | None:
        """Keep a signed record if it is new. Return its peer; None if it is invalid or not that of `named`.

        If `reach` waits for the peer, queue the peer again, because `forgive` may have removed it from the queue.
        """
        peer, is_newer = self.book.learn(record, source, sender=sender, named=named) or (None, False)
        if peer is not None and is_newer:
            self._queue.forgive(peer)
            if peer in self._dial_ends and not self._enqueue(peer, self.book.source(peer)):
                self._finish_dial(peer)
        return peer

    def _enqueue(self, peer: PeerId, source: str) -> bool:
        """Queue a peer. Returns False if the peer is connected, has no known address or cannot be queued."""
        addresses = self.book.addresses(peer)
        if not addresses or peer == self._host.peer or peer in self._host.connections:
            return False
        left_out = self._queue.add(peer, addresses, source)
        if left_out is not None:
            self._finish_dial(left_out)
        self._dial_soon(0.0)
        return left_out != peer

    def _dial_soon(self, in_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(in_s, self._dial_next)

    def _dial_next(self) -> None:
        """Start as many dials of the queue as are allowed now."""
        while (planned := self._queue.next()) is not None:
            self._tasks.start(self._dial(planned))
        due_in_s = self._queue.due_in_s
        if due_in_s is not None:
            self._dial_soon(due_in_s)

    async def _dial(self, planned: PlannedDial) -> None:
        """Dial a peer's addresses one after the other, until one answers. All dials share the time `patience_s`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + planned.patience_s
        try:
            for place, address in enumerate(planned.addresses):
                if planned.peer in self._host.connections:
                    return
                if self._ban_at(address, None) is not None:
                    continue
                try:
                    async with asyncio.timeout((end_s - loop.time()) / (len(planned.addresses) - place)):
                        await self._host.dial(address)
                        return
                except TimeoutError:
                    _log.info("%s: the dial timed out", address)
                except DialError as error:
                    _log.info("%s", error)
        finally:
            self._queue.ended(planned, planned.peer in self._host.connections)
            self._finish_dial(planned.peer)
            self._dial_soon(0.0)

    def _finish_dial(self, peer: PeerId) -> None:
        wanted = self._dial_ends.pop(peer, None)
        if wanted is not None and not wanted.done():
            wanted.set_result(None)

    async def _keep_connected(self, address: Multiaddr) -> None:
        retries = Retries(self._first_retry_s)
        loop = asyncio.get_running_loop()
        before: PeerId | None = None
        while True:
            if (known := self._ban_at(address, before)) is not None:
                reason = f"banned for {known.how_long}: {known.why}"
                news = AddressNews(str(address), AddressState.KEPT_OUT, reason, known.peer, retry_s=known.for_s)
                self.report(news)
                await asyncio.sleep(known.for_s)
                continue
            try:
                peer = await self._host.dial(address)
            except OwnAddress:
                self.report(AddressNews(str(address), AddressState.OWN, "this is the node itself"))
                return
            except DialError as error:
                wait_s = retries.wait_s()
                self.report(AddressNews(str(address), AddressState.FAILED, error.reason, retry_s=wait_s))
                await asyncio.sleep(wait_s)
                continue
            since = loop.time()
            self._bootstrap_peers.add(peer)
            gone = self._gone.setdefault(peer, asyncio.Event())
            await self._report_connected(address, peer, before)
            before = peer
            while peer in self._host.connections:
                gone.clear()
                await gone.wait()
            if self._ban_at(address, peer) is not None:
                continue
            wait_s = self._first_retry_s * random()
            if loop.time() - since < LASTING_S:
                wait_s = retries.wait_s()
            else:
                retries.succeeded()
            self.report(AddressNews(str(address), AddressState.LOST, "the connection ended", peer, retry_s=wait_s))
            await asyncio.sleep(wait_s)

    def _ban_at(self, address: Multiaddr, found: PeerId | None) -> Ban | None:
        """Return the ban of an address or of its peer; None without a ban.

        Its peer is the one that the address names, or else `found`, the peer that was last connected there.
        """
        return self.ban_of(address.peer or found, address_group(address.parts[0][1]))

    async def _report_connected(self, address: Multiaddr, peer: PeerId, before: PeerId | None) -> None:
        protocol = "" if self.protocol_of is None else await self.protocol_of(peer)
        if peer not in self._host.connections:
            return
        remarks = [] if protocol or self.protocol_of is None else [NO_PUBSUB]
        if before not in (None, peer):
            remarks.append(f"another peer than before, {to_text(before)}")
        self.report(AddressNews(str(address), AddressState.CONNECTED, ", ".join(remarks), peer, protocol))

    def _lost(self, peer: PeerId) -> None:
        gone = self._gone.get(peer)
        if gone is not None:
            gone.set()


@dataclass(eq=False)
class RequestHandler:
    """The handler of a router's requests. It passes the answers to the router as events."""

    _discovery: Discovery
    _ping_service: PingService
    _router_peers: Callable[[], tuple[PeerId, ...]]
    """Returns the peers that are connected for the router."""
    _feed: Callable[[Event], None]
    """Passes an event to the router."""

    def __post_init__(self) -> None:
        self._tasks = Tasks()
        self._dialing: set[PeerId] = set()
        self._closed = False

    def perform(self, action: Dial | Ping | FindContacts) -> None:
        if self._closed:
            return
        match action:
            case Dial():
                peer = raw(action.peer)
                if peer not in self._dialing:  # otherwise the running dial answers both requests
                    self._dialing.add(peer)
                    self._tasks.start(self._dial(peer))
            case Ping():
                self._tasks.start(self._ping(raw(action.peer)))
            case FindContacts():
                asyncio.get_running_loop().call_soon(self._find, action.topic, action.count)
            case _:
                assert_never(action)

    async def close(self) -> None:
        """Cancel all requests, and ignore later ones."""
        self._closed = True
        await self._tasks.close()

    async def _dial(self, peer: PeerId) -> None:
        try:
            if await self._discovery.reach(peer):
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            self._dialing.discard(peer)
        if peer not in self._router_peers():
            self._feed(DialFailed(peer))

    async def _ping(self, peer: PeerId) -> None:
        seconds = PING_SECONDS
        try:
            async with asyncio.timeout(PING_SECONDS):
                seconds = await self._ping_service.round_trip_s(peer)
        except (StreamClosed, ProtocolError, TimeoutError):
            pass  # counts as the maximum
        if peer in self._router_peers():
            self._feed(RoundTripMeasured(peer, int(seconds * 1_000_000)))

    def _find(self, topic: TopicId, count: int) -> None:
        if self._closed:
            return
        known = sorted({*self._router_peers(), *self._discovery.known})
        self._feed(ContactsFound(topic, tuple(sample(known, min(count, len(known))))))
