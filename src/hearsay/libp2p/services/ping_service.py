"""Ping on a host: echoes what peers send, measures round trips."""

from __future__ import annotations

import asyncio
from os import urandom

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.ping import PAYLOAD_BYTES, PROTOCOL, Echo, Ping

MAX_STREAMS = 2
"""A peer's."""
MAX_UNSENT_BYTES = 4096
"""A peer that pings and does not take the answers is cut off."""


class PingService:
    def __init__(self, host: NodeHost) -> None:
        self._host = host
        host.handle(PROTOCOL, lambda stream: stream.receive_with(_PingEcho(stream)), MAX_STREAMS)

    async def round_trip_s(self, peer: PeerId) -> float:
        """The time a ping takes there and back."""
        stream = await self._host.open_stream(peer, [PROTOCOL])
        loop = asyncio.get_running_loop()
        try:
            ping = Ping(urandom(PAYLOAD_BYTES))
            began = loop.time()
            stream.write(ping.payload)
            while not ping.answered:
                data = await stream.read()
                if not data:
                    raise StreamClosed("the peer does not answer pings")
                ping.receive(data)
            return loop.time() - began
        finally:
            stream.reset()


class _PingEcho:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._echo = Echo()

    def data_received(self, data: bytes) -> None:
        if self._stream.unsent > MAX_UNSENT_BYTES:
            self._stream.reset()
        else:
            self._stream.write(self._echo.receive(data))

    def stream_ended(self, reset: bool) -> None:
        if not reset:
            self._stream.finish()
