"""Hooks of a py-libp2p host, and addresses in the forms of both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hearsay.libp2p.host.node_host import concrete_addresses
from hearsay.libp2p.limits.resources import address_group
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.py_libp2p.guest import library


def remote_address_of(connection: Any) -> Multiaddr | None:
    for address in connection.get_transport_addresses():
        try:
            return without_peer(Multiaddr.decode(address.to_bytes()))
        except EncodingError:
            continue
    return None


def group_of(address: Multiaddr | None) -> str:
    return address_group(address.parts[0][1]) if address is not None else ""


def their_id(peer: PeerId) -> Any:
    return library("libp2p.peer.id").ID(peer)


def their_address(address: Multiaddr) -> Any:
    return library("multiaddr").Multiaddr(str(address))


def without_peer(address: Multiaddr) -> Multiaddr:
    return Multiaddr(address.parts[:-1]) if address.peer is not None else address


def each_interface(address: Multiaddr) -> list[Multiaddr]:
    """An address that listens everywhere, as one for each interface."""
    (_, host), (_, port) = address.parts[:2]
    return [
        Multiaddr((("ip6" if ":" in found else "ip4", found), *address.parts[1:]))
        for found, _ in concrete_addresses(host, int(port))
    ]


class Notifee:
    """Listener to the connections of py-libp2p."""

    def __init__(self, up: Callable[[Any], None], down: Callable[[Any], None]) -> None:
        self._up = up
        self._down = down

    async def connected(self, network: Any, connection: Any) -> None:
        self._up(connection)

    async def disconnected(self, network: Any, connection: Any) -> None:
        self._down(connection)

    async def opened_stream(self, network: Any, stream: Any) -> None: ...

    async def closed_stream(self, network: Any, stream: Any) -> None: ...

    async def listen(self, network: Any, address: Any) -> None: ...

    async def listen_close(self, network: Any, address: Any) -> None: ...


class Gate:
    """The gate that py-libp2p asks before it dials, or shakes hands over TCP or WebSocket."""

    def __init__(self, admits: Callable[[str], bool]) -> None:
        self._admits = admits

    async def is_allowed(self, address: Any) -> bool:
        try:
            known = Multiaddr.decode(address.to_bytes())
        except EncodingError:
            return True
        return not known.parts or self._admits(address_group(known.parts[0][1]))


def connection_config(most: int) -> Any:
    config = library("libp2p.network.config")
    connections = min(config.MAX_CONNECTIONS, most)
    return config.ConnectionConfig(
        max_connections=connections,
        high_watermark=connections,
        low_watermark=min(config.LOW_WATERMARK, connections),
        min_connections=min(config.MIN_CONNECTIONS, connections // 4),
    )
