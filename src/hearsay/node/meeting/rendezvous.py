"""Searches for peers of a topic, at rendezvous points and on the local network.

On the local network (mDNS), every node announces a service of type `_p2p._udp.local` under a random name. Its TXT
record has a line `dnsaddr=<multiaddr with /p2p/…>` for each address. A node that receives the announcement queries
the record and dials the peer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from logging import getLogger
from random import random
from secrets import token_hex
from typing import Any

from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.errors import DialError, EncodingError, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.node_host import NodeHost, Tasks
from hearsay.libp2p.rendezvous import (
    DEFAULT_TTL_S,
    MAX_ANSWER,
    MessageType,
    RendezvousMessage,
    Status,
    unsigned_record,
)
from hearsay.libp2p.rendezvous_streams import ask
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.address_book import AddressNews, AddressState
from hearsay.node.meeting.dial_queue import Retries
from hearsay.node.meeting.discovery import Discovery
from hearsay.py_libp2p.host import PyLibp2pHost
from hearsay.py_libp2p.provider_search import ProviderSearch
from hearsay.user_errors import MissingExtra, pip_install

SERVICE = "_p2p._udp.local."
QUERY_MS = 3000
MAX_QUERIES = 32
"""Maximum names that are queried at a time. Other names are ignored until their next announcement."""
MAX_ADDRESSES = 16
SOURCE = "local network"
_PREFIX = b"dnsaddr="


class LocalNetwork:
    """Discovery by mDNS.

    `found` is called with each peer, its addresses and the name `SOURCE`. `interfaces` are the IP addresses of
    interfaces; if empty, all interfaces are used. The constructor raises `MissingExtra` without the extra `mdns`.
    """

    def __init__(
        self, found: Callable[[PeerId, tuple[Multiaddr, ...], str], None], interfaces: Sequence[str] = ()
    ) -> None:
        try:
            self._library: Any = import_module("zeroconf")
            self._for_asyncio: Any = import_module("zeroconf.asyncio")
        except ImportError:
            raise MissingExtra(f"finding peers by mDNS needs zeroconf: {pip_install('mdns')}") from None
        self._found = found
        self._interfaces = list(interfaces)
        self._name = f"{token_hex(16)}.{SERVICE}"
        self._zeroconf: Any = None
        self._browser: Any = None
        self._queries = Tasks()

    async def start(self, addresses: Sequence[Multiaddr]) -> None:
        every = self._library.InterfaceChoice.All
        self._zeroconf = self._for_asyncio.AsyncZeroconf(interfaces=self._interfaces or every)
        reachable = addresses[:MAX_ADDRESSES]
        hosts = {endpoint[0] for address in reachable if (endpoint := address.tcp_endpoint) is not None}
        service = self._library.ServiceInfo(
            SERVICE,
            self._name,
            port=next((endpoint[1] for address in reachable if (endpoint := address.tcp_endpoint)), 0),
            properties=to_text_record(reachable),
            addresses=[socket.inet_aton(host) for host in sorted(hosts) if ":" not in host],
            server=f"{self._name.partition('.')[0]}.local.",
        )
        await self._zeroconf.async_register_service(service)
        self._browser = self._for_asyncio.AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._seen])

    async def close(self) -> None:
        await self._queries.close()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_close()

    def _seen(self, zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        removed = self._library.ServiceStateChange.Removed
        if name == self._name or state_change is removed or len(self._queries) >= MAX_QUERIES:
            return
        self._queries.start(self._query(zeroconf, name))

    async def _query(self, zeroconf: Any, name: str) -> None:
        service = self._library.ServiceInfo(SERVICE, name)
        if await service.async_request(zeroconf, QUERY_MS):
            for peer, addresses in from_text_record(service.text or b"").items():
                self._found(peer, addresses, SOURCE)


def to_text_record(addresses: Sequence[Multiaddr]) -> bytes:
    """Return the data of a DNS TXT record: a line for each address, each after a byte with its length.

    An address whose line would have more than 255 bytes is left out.
    """
    lines = [_PREFIX + str(address).encode() for address in addresses]
    return b"".join(bytes((len(line),)) + line for line in lines if len(line) < 256)


def from_text_record(record: bytes) -> dict[PeerId, tuple[Multiaddr, ...]]:
    """Return the first `MAX_ADDRESSES` addresses in a TXT record, by peer. Skip invalid lines."""
    found: dict[PeerId, tuple[Multiaddr, ...]] = {}
    start = count = 0
    while start < len(record) and count < MAX_ADDRESSES:
        stop = start + 1 + record[start]
        line, start = record[start + 1 : stop], stop
        if not line.startswith(_PREFIX):
            continue
        try:
            address = Multiaddr.parse(line.removeprefix(_PREFIX).decode())
            peer = address.peer
        except (EncodingError, UnicodeDecodeError):
            continue
        if peer is not None:
            found[peer] = (*found.get(peer, ()), address)
            count += 1
    return found


INTERVAL_S = 30.0
"""Seconds between two rounds of requests to a rendezvous point, and at most 50 % more."""
REGISTER_AGAIN_S = 3600.0
"""Seconds after which the node registers again for a topic, also if the point has refused the topic."""
TRANSIENT = (Status.INTERNAL_ERROR, Status.UNAVAILABLE)
"""Refusals after which the node registers again sooner: after `INTERVAL_S`, then after twice as long, and so on."""
ROUNDS = 10
"""In the first of every `ROUNDS` rounds, the node requests all registrations; in the other rounds, only registrations
that are new since the round before."""
MAX_PARTS = 8
"""Maximum DISCOVER requests for one topic in a round; each answer has a part of the registrations."""
_log = getLogger(__name__)


@dataclass(eq=False)
class RendezvousSearch:
    """The search at rendezvous points: it registers the node there, and finds peers of the node's topics."""

    _host: NodeHost
    _points: Sequence[Multiaddr]
    _: KW_ONLY
    topics: Callable[[], Iterable[str]]
    """Returns the joined topics."""
    record: Callable[[], bytes]
    """Returns the node's signed record."""
    found: Callable[[bytes, str], None]
    """Called with each registration that a point returns, and the address of the point as text."""
    report: Callable[[AddressNews], None]
    """Called with each state of a point."""
    interval_s: float = INTERVAL_S

    def __post_init__(self) -> None:
        self._joined = [asyncio.Event() for _ in self._points]
        self._tasks = Tasks()
        for point, joined in zip(self._points, self._joined, strict=True):
            self._tasks.start(self._search(point, joined))

    def topic_joined(self) -> None:
        """Start the next round now, except at points that have failed and are asked again after a pause."""
        for joined in self._joined:
            joined.set()

    async def close(self) -> None:
        await self._tasks.close()

    async def _search(self, address: Multiaddr, joined: asyncio.Event) -> None:
        registered: dict[str, tuple[float, Retries]] = {}
        cookies: dict[str, bytes] = {}
        rounds = 0
        retries = Retries()
        point: PeerId | None = None
        while True:
            joined.clear()
            try:
                if point is None or point not in self._host.connections:
                    registered.clear()  # the point may have lost the registrations
                    cookies.clear()
                    point = await self._host.dial(address)
                if rounds % ROUNDS == 0:
                    cookies.clear()
                rounds += 1
                for topic in list(self.topics()):
                    await self._register(point, topic, registered)
                    await self._discover(point, topic, cookies, str(address))
            except (DialError, ProtocolError, StreamClosed, TimeoutError) as error:
                wait_s = retries.wait_s()
                reason = error.reason if isinstance(error, DialError) else str(error) or "no answer in time"
                self.report(AddressNews(str(address), AddressState.FAILED, reason, retry_s=wait_s))
                point = None
                await asyncio.sleep(wait_s)
                continue
            retries.succeeded()
            self.report(AddressNews(str(address), AddressState.CONNECTED, "the node asks it for peers", point))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.interval_s * (1 + random() / 2)):
                    await joined.wait()

    async def _register(self, point: PeerId, topic: str, registered: dict[str, tuple[float, Retries]]) -> None:
        """Register for a topic, and store in `registered` when to register again, in seconds of the loop's clock. Do
        nothing before that time. A refusal is only logged."""
        now_s = asyncio.get_running_loop().time()
        next_s, retries = registered.get(topic) or (now_s, Retries(self.interval_s, REGISTER_AGAIN_S))
        if now_s < next_s:
            return
        status = 0
        for record in (self.record(), unsigned_record(self._host.peer, self._host.addresses)):
            asked = RendezvousMessage(type=MessageType.REGISTER, namespace=topic, record=record, ttl_s=DEFAULT_TTL_S)
            status = (await ask(self._host, point, asked)).status
            if status in (Status.OK, *TRANSIENT):
                break
        if status == Status.OK:
            retries.succeeded()
        else:
            _log.warning("rendezvous point %s refuses topic %r with status %d", to_text(point), topic, status)
        registered[topic] = now_s + (retries.wait_s() if status in TRANSIENT else REGISTER_AGAIN_S), retries

    async def _discover(self, point: PeerId, topic: str, cookies: dict[str, bytes], source: str) -> None:
        for _ in range(MAX_PARTS):
            cookie = cookies.get(topic, b"")
            question = RendezvousMessage(type=MessageType.DISCOVER, namespace=topic, limit=MAX_ANSWER, cookie=cookie)
            answer = await ask(self._host, point, question)
            cookies[topic] = answer.cookie if answer.status == Status.OK else b""
            for record in answer.records:
                self.found(record, source)
            if not answer.records or answer.cookie in (b"", cookie):
                return


class Searches:
    """The searches of a node that its configuration requests. They pass found peers to `discovery`."""

    def __init__(self, host: NodeHost, config: NodeConfig, discovery: Discovery) -> None:
        self._host = host
        self._config = config
        self._discovery = discovery
        self._searches: list[RendezvousSearch | ProviderSearch] = []
        self._local_network = LocalNetwork(discovery.found, config.local_interfaces) if config.local_network else None

    async def begin(
        self,
        topics: Callable[[], Collection[str]],
        record: Callable[[], bytes],
        report: Callable[[AddressNews], None],
    ) -> None:
        """Start to search for peers of `topics`.

        Rendezvous points get the node's signed `record`. `report` is called with each state of a point.
        """
        if self._config.rendezvous:
            points = [Multiaddr.parse(address) for address in self._config.rendezvous]
            found = self._discovery.found_record
            search = RendezvousSearch(self._host, points, topics=topics, record=record, found=found, report=report)
            self._searches.append(search)
        if self._config.dht:
            assert isinstance(self._host, PyLibp2pHost)
            self._searches.append(ProviderSearch(self._host, topics=topics, found=self._discovery.found))
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
