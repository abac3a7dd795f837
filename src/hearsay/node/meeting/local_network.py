"""Finding peers on the local network by multicast DNS (libp2p specs, "mdns"), over `zeroconf`, an extra.

Every node offers a service of type `_p2p._udp.local` under a random name; its TXT record has a line
`dnsaddr=<multiaddr with /p2p/…>` for each address. A node that sees the service asks for the record and dials.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from importlib import import_module
from secrets import token_hex
from typing import Any

from hearsay.extras import MissingExtra, pip_install
from hearsay.libp2p.host.tasks import Tasks
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId

SERVICE = "_p2p._udp.local."
QUERY_MS = 3000
MAX_QUERIES = 32
"""Names asked for at the same time; more are left to their next announcement."""
MAX_ADDRESSES = 16
SOURCE = "local network"
_PREFIX = b"dnsaddr="


class LocalNetwork:
    """Announces addresses and calls `found` with each peer and its addresses. Interfaces are named by address."""

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
        self._queries.start(self._ask(zeroconf, name))

    async def _ask(self, zeroconf: Any, name: str) -> None:
        service = self._library.ServiceInfo(SERVICE, name)
        if await service.async_request(zeroconf, QUERY_MS):
            for peer, addresses in from_text_record(service.text or b"").items():
                self._found(peer, addresses, SOURCE)


def to_text_record(addresses: Sequence[Multiaddr]) -> bytes:
    """DNS TXT data: each line with its length in front."""
    lines = [_PREFIX + str(address).encode() for address in addresses]
    return b"".join(bytes((len(line),)) + line for line in lines if len(line) < 256)


def from_text_record(record: bytes) -> dict[PeerId, tuple[Multiaddr, ...]]:
    """The addresses in a TXT record by peer; what is none is skipped."""
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
