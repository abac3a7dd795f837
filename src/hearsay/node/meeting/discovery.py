"""Discovery of peers: bootstrap addresses, and addresses from other peers and searches.

A bootstrap address is dialled again with back-off (`hearsay.node.meeting.dial_queue`) if the dial fails or the
connection soon ends. The outcome of each dial is reported (`hearsay.node.meeting.address_book`).

Addresses from peers and searches are kept in an address book (`hearsay.node.meeting.address_book`) and dialled in
fair turns (`hearsay.node.meeting.dial_queue`): peers of peer exchange when the router requests it, peers that a
search finds at once. A dialled peer must prove that it has the expected identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from logging import getLogger
from random import random
from time import monotonic

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.host.tasks import Tasks
from hearsay.libp2p.limits.rates import Rate, Rates
from hearsay.libp2p.limits.resources import address_group
from hearsay.libp2p.names.errors import DialError, EncodingError, OwnAddress
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.services.identify import Identity
from hearsay.libp2p.services.rendezvous import open_unsigned
from hearsay.node.conduct import Ban
from hearsay.node.meeting.address_book import AddressBook, AddressNews, AddressState, BookLimits
from hearsay.node.meeting.dial_queue import FIRST_RETRY_S, DialLimits, DialQueue, PlannedDial, Retries

LASTING_S = 10.0
"""Minimum duration in seconds of a connection that resets the back-off."""
NO_PUBSUB = "the peer speaks no pubsub protocol of this node"
_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryLimits:
    book: BookLimits = field(default_factory=BookLimits)
    dials: DialLimits = field(default_factory=DialLimits)
    records: Rate = Rate(1024, 64.0)
    """Rate at which signed records of one source are read."""


class Discovery:
    def __init__(
        self,
        host: NodeHost,
        first_retry_s: float = FIRST_RETRY_S,
        *,
        report: Callable[[AddressNews], None] = lambda news: None,
        protocol_of: Callable[[PeerId], Awaitable[str]] | None = None,
        limits: DiscoveryLimits | None = None,
        ban_of: Callable[[PeerId | None, str], Ban | None] = lambda peer, address: None,
    ) -> None:
        """Create the discovery. `report` gets each state of bootstrap addresses; `protocol_of` returns the pubsub
        protocol of a peer or ""; `ban_of` returns the ban of a peer or an address."""
        self._host = host
        self._report = report
        self._protocol_of = protocol_of
        self._ban_of = ban_of
        self._first_retry_s = first_retry_s
        self._limits = limits or DiscoveryLimits()
        self._tasks = Tasks()
        self._gone: dict[PeerId, asyncio.Event] = {}
        self._bootstrap_peers: set[PeerId] = set()
        self.book = AddressBook(host.can_dial, self._limits.book)
        self._queue = DialQueue(monotonic, self._limits.dials)
        self._records: Rates[str] = Rates(monotonic, self._limits.records)
        self._dial_ends: dict[PeerId, asyncio.Future[None]] = {}
        """Futures by queued peer, set when its dial has ended or was dropped."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        host.on_peer_down.append(self._lost)

    def keep_connected(self, address: Multiaddr) -> None:
        """Keep a connection to the peer at an address."""
        self._tasks.start(self._keep_connected(address))

    def learn(self, envelope: bytes, sender: PeerId, named: PeerId | None = None) -> None:
        """Keep a signed record that a connected peer sent, if it is valid, new, and of `named` (if given)."""
        source = self._host.address_of(sender)
        if not self._records.use_or_wait_s(source):
            self._forgive_if_newer(self.book.learn(envelope, source, sender=sender, named=named))

    def identified(self, peer: PeerId, identity: Identity) -> None:
        """Keep the signed record that a peer sends about itself, so that the node can dial it later."""
        if identity.signed_record:
            self.learn(identity.signed_record, peer)

    def found(self, peer: PeerId, addresses: tuple[Multiaddr, ...], source: str) -> None:
        """Queue a peer that a search has found, with its addresses."""
        if peer != self._host.peer:
            self.book.claim(peer, addresses, source)
            self._enqueue(peer, source)

    def found_record(self, record: bytes, source: str) -> None:
        """Queue the peer of a registration, which is a signed record or has the older unsigned form."""
        if self._records.use_or_wait_s(source):
            return
        learnt = self.book.learn(record, source)
        if learnt is not None:
            self._forgive_if_newer(learnt)
            self._enqueue(learnt[0], source)
            return
        try:
            self.found(*open_unsigned(record), source)
        except EncodingError:
            return

    @property
    def known(self) -> tuple[PeerId, ...]:
        """Return the peers whose addresses are known."""
        return tuple(peer for peer in self.book.peers if peer != self._host.peer)

    def hang_up(self, peer: PeerId) -> None:
        """Disconnect a peer that is no longer needed. Keep bootstrap peers, which would be dialled again."""
        if peer not in self._bootstrap_peers:
            self._host.disconnect(peer)

    async def reach(self, peer: PeerId) -> bool:
        """Dial a peer with known addresses in its turn. Returns True if it is connected afterwards."""
        if self._enqueue(peer, self.book.source(peer)):
            wanted = self._dial_ends.setdefault(peer, asyncio.get_running_loop().create_future())
            await asyncio.shield(wanted)
        return peer in self._host.connections

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    def _forgive_if_newer(self, learnt: tuple[PeerId, bool] | None) -> None:
        if learnt is not None and learnt[1]:
            self._queue.forgive(learnt[0])

    def _enqueue(self, peer: PeerId, source: str) -> bool:
        """Queue a peer. Returns False if it is connected or will not be dialled soon."""
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
        """Dial a peer's addresses one after the other. The remaining addresses share the remaining time."""
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
                self._report(news)
                await asyncio.sleep(known.for_s)
                continue
            try:
                peer = await self._host.dial(address)
            except OwnAddress:
                self._report(AddressNews(str(address), AddressState.OWN, "this is the node itself"))
                return
            except DialError as error:
                wait_s = retries.wait_s()
                self._report(AddressNews(str(address), AddressState.FAILED, error.reason, retry_s=wait_s))
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
            self._report(AddressNews(str(address), AddressState.LOST, "the connection ended", peer, retry_s=wait_s))
            await asyncio.sleep(wait_s)

    def _ban_at(self, address: Multiaddr, found: PeerId | None) -> Ban | None:
        """Return the ban of an address, of the peer that it names, or of the peer `found` there before."""
        return self._ban_of(address.peer or found, address_group(address.parts[0][1]))

    async def _report_connected(self, address: Multiaddr, peer: PeerId, before: PeerId | None) -> None:
        protocol = "" if self._protocol_of is None else await self._protocol_of(peer)
        if peer not in self._host.connections:
            return
        remarks = [] if protocol or self._protocol_of is None else [NO_PUBSUB]
        if before not in (None, peer):
            remarks.append(f"another peer than before, {to_text(before)}")
        self._report(AddressNews(str(address), AddressState.CONNECTED, ", ".join(remarks), peer, protocol))

    def _lost(self, peer: PeerId) -> None:
        gone = self._gone.get(peer)
        if gone is not None:
            gone.set()
