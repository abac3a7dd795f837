"""Ping (libp2p specs, "ping"): the reply to peers, and the measurement of round trips."""

from __future__ import annotations

import asyncio
from os import urandom

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId

PROTOCOL = "/ipfs/ping/1.0.0"
PAYLOAD_BYTES = 32


class Echo:
    """The answering side: whole payloads go back."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> bytes:
        data = self._buffer + data
        whole = len(data) - len(data) % PAYLOAD_BYTES
        self._buffer = data[whole:]
        return data[:whole]


class Ping:
    """The asking side: one payload at a time."""

    def __init__(self, payload: bytes) -> None:
        if len(payload) != PAYLOAD_BYTES:
            raise ValueError(f"a ping has {PAYLOAD_BYTES} bytes")
        self.payload = payload
        self._awaited = payload

    @property
    def answered(self) -> bool:
        return not self._awaited

    def receive(self, data: bytes) -> None:
        if not self._awaited.startswith(data):
            raise ProtocolError("the peer did not echo the ping")
        self._awaited = self._awaited[len(data) :]


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
