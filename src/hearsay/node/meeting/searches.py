"""Looking for the peers of topics where the configuration says: rendezvous points, the DHT, the local network."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.services.identification import Identification
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.address_news import AddressNews
from hearsay.node.meeting.discovery import Discovery
from hearsay.node.meeting.local_network import LocalNetwork
from hearsay.node.meeting.rendezvous import RendezvousSearch
from hearsay.py_libp2p.host import PyLibp2pHost
from hearsay.py_libp2p.provider_search import ProviderSearch


class Searches:
    """What is found goes to `discovery`, news of the addresses that are asked to `tell`."""

    def __init__(
        self,
        host: NodeHost,
        config: NodeConfig,
        discovery: Discovery,
        identification: Identification,
        topics: Callable[[], Collection[str]],
        tell: Callable[[AddressNews], None],
    ) -> None:
        self._host = host
        self._config = config
        self._discovery = discovery
        self._identification = identification
        self._topics = topics
        self._tell = tell
        self._searches: list[RendezvousSearch | ProviderSearch] = []
        self._local_network = LocalNetwork(discovery.found, config.local_interfaces) if config.local_network else None

    async def begin(self) -> None:
        if self._config.rendezvous:
            search = RendezvousSearch(
                self._host,
                [Multiaddr.parse(address) for address in self._config.rendezvous],
                topics=self._topics,
                record=self._identification.record,
                found=self._discovery.found_record,
                tell=self._tell,
            )
            self._searches.append(search)
        if self._config.dht:
            assert isinstance(self._host, PyLibp2pHost)
            search = ProviderSearch(self._host, topics=self._topics, found=self._discovery.found)
            self._searches.append(search)
        if self._local_network is not None:
            await self._local_network.start(self._host.addresses)

    def topic_joined(self) -> None:
        for search in self._searches:
            search.topic_joined()

    async def close(self) -> None:
        if self._local_network is not None:
            await self._local_network.close()
        for search in self._searches:
            await search.close()
