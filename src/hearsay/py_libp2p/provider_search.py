"""The search for peers of a topic in the DHT: a node provides a key for the topic, and finds other providers.

The key is that of go-libp2p-pubsub: a multihash (SHA-256) of `floodsub:` and the topic. The DHT is that of py-libp2p.
The node is a server of the DHT, so that such nodes alone can form a DHT. Each search first adds the node's connected
peers to the DHT. A search starts whenever a topic is joined or a peer connects. It is repeated after 1, 2, 4 …
`interval_s` seconds, each time up to half as long again at random.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from logging import getLogger
from random import random
from typing import Any

from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.rendezvous import readable_addresses
from hearsay.py_libp2p.guest import import_extra, py_libp2p_id
from hearsay.py_libp2p.host import PyLibp2pHost

INTERVAL_S = 30.0
FIRST_INTERVAL_S = 1.0
MAX_PROVIDERS = 20
SOURCE = "DHT"
_log = getLogger(__name__)


def key_of(topic: str) -> bytes:
    return bytes((0x12, 0x20)) + sha256(b"floodsub:" + topic.encode()).digest()


@dataclass(eq=False)
class ProviderSearch:
    """A task that provides the keys of the node's topics in the DHT, and searches for other providers."""

    _host: PyLibp2pHost
    _: KW_ONLY
    topics: Callable[[], Iterable[str]]
    """A function that returns the joined topics."""
    found: Callable[[PeerId, tuple[Multiaddr, ...], str], None]
    """A function that is called with each other provider, the provider's addresses and `SOURCE`."""
    interval_s: float = INTERVAL_S
    """Maximum seconds between two searches, without the random part."""

    def __post_init__(self) -> None:
        self._wake = asyncio.Event()
        self._dht: Any = None
        self._task = asyncio.ensure_future(self._search())
        self._host.on_peer_up.append(lambda _: self._wake.set())

    def topic_joined(self) -> None:
        """Start another search now, or when the current search has ended."""
        self._wake.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _search(self) -> None:
        kademlia = import_extra("libp2p.kad_dht.kad_dht")
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def serve(under: Any) -> None:
            self._dht = kademlia.KadDHT(under, kademlia.DHTMode.SERVER)
            async with import_extra("libp2p.tools.anyio_service").background_trio_service(self._dht):
                ready.set_result(None)
                await import_extra("trio").sleep_forever()

        service = await self._host.run_service(serve)
        try:
            await asyncio.wait([ready, service], return_when=asyncio.FIRST_COMPLETED)
            wait_s = FIRST_INTERVAL_S
            while not service.done():
                self._wake.clear()
                try:
                    await self._host.call(self._round, list(self.topics()))
                except Exception as error:  # lookups of py-libp2p may raise anything; the next round tries again
                    _log.info("a search in the DHT failed: %s", error)
                try:
                    async with asyncio.timeout(wait_s * (1 + random() / 2)):
                        await self._wake.wait()
                    wait_s = FIRST_INTERVAL_S
                except TimeoutError:
                    wait_s = min(2 * wait_s, self.interval_s)
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

    async def _round(self, topics: list[str]) -> None:
        """Provide and look up the keys of the topics once. Runs in trio."""
        for peer in list(self._host.connections):
            await self._dht.add_peer(py_libp2p_id(peer))
        store = self._dht.provider_store
        for key in map(key_of, topics):
            await store.provide(key)
            # py-libp2p asks no peers while its own store has a provider. This node is one since `provide`, so its
            # entry is absent during the search.
            own = store.providers.pop(key, {})
            try:
                providers = await store.find_providers(key, MAX_PROVIDERS)
            finally:
                store.providers[key] = {**own, **store.providers.get(key, {})}
            for provider in providers:
                peer = provider.peer_id.to_bytes()
                if peer != self._host.peer:
                    addresses = readable_addresses(each.to_bytes() for each in provider.addrs)
                    asyncio.get_running_loop().call_soon(self.found, peer, addresses, SOURCE)
