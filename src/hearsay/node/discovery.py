"""Finding peers: bootstrap addresses that are dialled again with back-off, and addresses that others tell.

Peer exchange brings signed ones, which are dialled when the router asks; the local network brings claims, which are
dialled at once.

A bootstrap address that fails is dialled again with back-off (`hearsay.node.retries`), and so is one whose peer is
gone as soon as it came. What becomes of each is told (`hearsay.node.address_news`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from logging import getLogger
from random import random

from hearsay.libp2p.errors import DialError, EncodingError, OwnAddress
from hearsay.libp2p.multiaddr import Multiaddr
from hearsay.libp2p.node_host import NodeHost
from hearsay.libp2p.peer_id import PeerId, to_text
from hearsay.libp2p.peer_record import open_record
from hearsay.libp2p.resources import address_group
from hearsay.node.address_news import AddressNews, AddressState
from hearsay.node.conduct import KeptOut
from hearsay.node.retries import FIRST_RETRY_S, Retries

MAX_KNOWN_PEERS = 1024
MAX_DIALS = 32
LASTING_S = 10.0
"""A connection that lasts so long makes good for failures before it."""
NO_PUBSUB = "it speaks no pubsub that this node does"
_log = getLogger(__name__)


class Discovery:
    def __init__(
        self,
        host: NodeHost,
        first_retry_s: float = FIRST_RETRY_S,
        *,
        tell: Callable[[AddressNews], None] = lambda news: None,
        protocol_of: Callable[[PeerId], Awaitable[str]] | None = None,
        kept_out: Callable[[PeerId | None, str], KeptOut | None] = lambda peer, address: None,
    ) -> None:
        """`tell` hears of the addresses that are kept; `protocol_of` says what a new peer speaks, "" if nothing;
        `kept_out` who must not be dialled."""
        self._host = host
        self._tell = tell
        self._protocol_of = protocol_of
        self._kept_out = kept_out
        self._first_retry_s = first_retry_s
        self._tasks: set[asyncio.Task[object]] = set()
        self._changed: dict[PeerId, asyncio.Event] = {}
        self._addresses: dict[PeerId, tuple[Multiaddr, ...]] = {}
        self._records: dict[PeerId, bytes] = {}
        self._kept: set[PeerId] = set()
        self._dials = 0
        host.on_peer_down.append(self._lost)

    def keep(self, address: Multiaddr) -> None:
        """Stay connected to whoever is at an address."""
        self._start(self._keep(address))

    def learn(self, envelope: bytes) -> None:
        """Remember a peer's signed addresses; a wrong envelope is ignored."""
        try:
            record = open_record(envelope)
        except EncodingError:
            return
        self._remember(record.peer, record.addresses)
        self._records[record.peer] = envelope

    def found(self, peer: PeerId, addresses: tuple[Multiaddr, ...]) -> None:
        """Somebody says where a peer is: dial it. Who answers there proves to be that peer, or is refused."""
        if peer != self._host.peer:
            self._remember(peer, addresses)
            self._start(self.reach(peer))

    @property
    def known(self) -> tuple[PeerId, ...]:
        """Peers whose addresses are known."""
        return tuple(peer for peer in self._addresses if peer != self._host.peer)

    def record_of(self, peer: PeerId) -> bytes | None:
        """A peer's signed addresses, if they were learnt."""
        return self._records.get(peer)

    def keeps(self, peer: PeerId) -> bool:
        """Whether a bootstrap address leads to this peer."""
        return peer in self._kept

    async def reach(self, peer: PeerId) -> bool:
        """Try a peer whose addresses are known, once; whether it is connected then."""
        addresses = self._addresses.get(peer, ())
        if addresses and peer not in self._host.connections and self._dials < MAX_DIALS:
            await self._try(peer, addresses)
        return peer in self._host.connections

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _remember(self, peer: PeerId, addresses: tuple[Multiaddr, ...]) -> None:
        self._addresses.pop(peer, None)
        self._addresses[peer] = addresses
        if len(self._addresses) > MAX_KNOWN_PEERS:
            oldest = next(iter(self._addresses))
            del self._addresses[oldest]
            self._records.pop(oldest, None)

    async def _keep(self, address: Multiaddr) -> None:
        retries = Retries(self._first_retry_s)
        loop = asyncio.get_running_loop()
        before: PeerId | None = None
        while True:
            if (known := self._kept_out_at(address, before)) is not None:
                self._tell(AddressNews.kept_out(address, known))
                await asyncio.sleep(known.for_s)
                continue
            try:
                peer = await self._host.dial(address)
            except OwnAddress:
                self._tell(AddressNews(str(address), AddressState.OWN, "this is the node itself"))
                return
            except DialError as error:
                wait_s = retries.wait_s()
                self._tell(AddressNews(str(address), AddressState.FAILED, error.reason, retry_s=wait_s))
                await asyncio.sleep(wait_s)
                continue
            since = loop.time()
            self._kept.add(peer)
            gone = self._changed.setdefault(peer, asyncio.Event())
            await self._tell_connected(address, peer, before)
            before = peer
            while peer in self._host.connections:
                gone.clear()
                await gone.wait()
            if self._kept_out_at(address, peer) is not None:
                continue
            wait_s = self._first_retry_s * random()
            if loop.time() - since < LASTING_S:
                wait_s = retries.wait_s()
            else:
                retries.succeeded()
            self._tell(AddressNews(str(address), AddressState.LOST, "the connection ended", peer, retry_s=wait_s))
            await asyncio.sleep(wait_s)

    def _kept_out_at(self, address: Multiaddr, found: PeerId | None) -> KeptOut | None:
        """Whether whoever is, or was found, at an address is kept out."""
        return self._kept_out(address.peer or found, address_group(address.parts[0][1]))

    async def _tell_connected(self, address: Multiaddr, peer: PeerId, before: PeerId | None) -> None:
        protocol = "" if self._protocol_of is None else await self._protocol_of(peer)
        if peer not in self._host.connections:
            return
        remarks = [] if protocol or self._protocol_of is None else [NO_PUBSUB]
        if before not in (None, peer):
            remarks.append(f"another peer than before, {to_text(before)}")
        self._tell(AddressNews(str(address), AddressState.CONNECTED, ", ".join(remarks), peer, protocol))

    async def _try(self, peer: PeerId, addresses: tuple[Multiaddr, ...]) -> None:
        self._dials += 1
        try:
            for address in addresses:
                if not self._host.can_dial(address):
                    continue
                try:
                    await self._host.dial(address.with_peer(peer))
                    return
                except DialError as error:
                    _log.info("%s", error)
        finally:
            self._dials -= 1

    def _lost(self, peer: PeerId) -> None:
        gone = self._changed.get(peer)
        if gone is not None:
            gone.set()

    def _start(self, work: Coroutine[None, None, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
