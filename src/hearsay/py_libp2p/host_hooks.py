"""What a py-libp2p host is given: who hears of connections, who lets them in, and how many there may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hearsay.libp2p.limits.resources import address_group
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.py_libp2p.library import library


class Notifee:
    """py-libp2p's way to tell of connections."""

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
    """What py-libp2p asks before it shakes hands over TCP or WebSocket, or dials."""

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
