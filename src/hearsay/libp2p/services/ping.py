"""Ping (libp2p specs, "ping"): the answers to peers, and the measurement of round trips."""

from __future__ import annotations

import asyncio
from os import urandom

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId

PROTOCOL = "/ipfs/ping/1.0.0"
PAYLOAD_BYTES = 32


MAX_STREAMS = 2
"""Maximum inbound ping streams of a peer."""
MAX_UNSENT_BYTES = 4096
"""Maximum bytes of unsent answers. Above it, the stream is reset."""


class PingService:
    def __init__(self, host: NodeHost) -> None:
        self._host = host
        host.handle(PROTOCOL, lambda stream: stream.receive_with(_Echo(stream)), MAX_STREAMS)

    async def round_trip_s(self, peer: PeerId) -> float:
        """Return the round trip time of a ping in seconds."""
        stream = await self._host.open_stream(peer, [PROTOCOL])
        loop = asyncio.get_running_loop()
        try:
            payload, echoed = urandom(PAYLOAD_BYTES), b""
            began = loop.time()
            stream.write(payload)
            while echoed != payload:
                data = await stream.read()
                if not data:
                    raise StreamClosed("the peer does not answer pings")
                echoed += data
                if not payload.startswith(echoed):
                    raise ProtocolError("the peer did not echo the ping")
            return loop.time() - began
        finally:
            stream.reset()


class _Echo:
    """The receiver of a peer's ping stream. It echoes complete payloads."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._part = b""

    def data_received(self, data: bytes) -> None:
        if self._stream.unsent > MAX_UNSENT_BYTES:
            self._stream.reset()
            return
        data = self._part + data
        whole = len(data) - len(data) % PAYLOAD_BYTES
        self._part = data[whole:]
        self._stream.write(data[:whole])

    def stream_ended(self, reset: bool) -> None:
        if not reset:
            self._stream.finish()
