"""Target, addresses, end and counts of an attack."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

from raw_peer import MESHSUB, Gone, RawPeer, Target

from hearsay.core.language.rpc import Control, Graft, Rpc, Subscription
from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.wire.encode import encode_rpc

AGAIN_SECONDS = 0.2


class Scene:
    """One attack on `target` until the time `until`, from addresses of 127.`network`.0.0/16.

    `relays` are honest peers of the target. `addresses` is the number of addresses that are used in turn instead of
    one.
    """

    def __init__(
        self, target: Target, network: int, until: float, relays: tuple[Target, ...] = (), addresses: int = 1
    ) -> None:
        self.target = target
        self.relays = relays
        self.until = until
        self.counts: Counter[str] = Counter()
        self.peers: set[bytes] = set()
        self.network = network
        self._addresses = addresses
        self._turn = 0

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.until

    def source(self, number: int = 1) -> str:
        """Return the next address whose last byte is `number`."""
        self._turn = (self._turn + 1) % self._addresses
        return f"127.{self.network}.{self._turn}.{number}"

    async def connect(
        self,
        source: str | None = None,
        identity: PrivateKey | None = None,
        target: Target | None = None,
        protocol: str = MESHSUB,
    ) -> RawPeer:
        try:
            peer = await RawPeer.connect(target or self.target, source or self.source(), identity, protocol)
        except Gone:
            self.counts["not let in"] += 1
            raise
        self.counts["connections"] += 1
        self.peers.add(peer.id)
        return peer

    async def member(
        self,
        *topics: str,
        source: str | None = None,
        graft: bool = False,
        identity: PrivateKey | None = None,
        target: Target | None = None,
        protocol: str = MESHSUB,
    ) -> tuple[RawPeer, int]:
        """Return a new peer that subscribes to `topics` at the target, and the number of its pubsub stream."""
        peer = await self.connect(source, identity, target, protocol)
        subscriptions = tuple(Subscription(topic, True) for topic in topics)
        control = Control(graft=tuple(Graft(topic) for topic in topics)) if graft else None
        first = frame(encode_rpc(Rpc(subscriptions, (), control))) if topics else b""
        stream = peer.open(protocol, first)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await peer.pubsub.wait()
        return peer, stream

    async def repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat the work until the attack is over, and count each time that the target ended it."""
        while not self.is_over:
            with suppress(Gone):
                await work()
            if not self.is_over:
                self.counts["cut off"] += 1
                await asyncio.sleep(AGAIN_SECONDS)

    async def hold_connections(self, *peers: RawPeer) -> None:
        """Stay connected until the end, or until the target has ended all connections."""
        while not self.is_over and any(not peer.closed.is_set() for peer in peers):
            await asyncio.sleep(0.1)

    async def wait_until_over(self) -> None:
        await asyncio.sleep(max(0.0, self.until - monotonic()))
