"""A peer with a correct handshake that then sends any yamux frame at any time.

Handshake and protocol negotiation are code of Hearsay's host. This module has its own yamux, so that an attacker can
stop reading, leave streams open and break the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from hearsay.libp2p.frames import frame
from hearsay.libp2p.identify import PROTOCOL as IDENTIFY
from hearsay.libp2p.identify import Identity, encode_identity
from hearsay.libp2p.mux.multistream import HEADER as MULTISTREAM
from hearsay.libp2p.mux.multistream import Listener, Upgrade, line
from hearsay.libp2p.mux.yamux_frames import HEADER, INITIAL_WINDOW, Flag, FrameType
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of

MESHSUB = "/meshsub/1.1.0"
CONNECT_SECONDS = 12.0
_PIECE = 60_000


class Gone(Exception):
    """The target has ended the connection or the stream, or has refused the connection."""


class Target(NamedTuple):
    host: str
    port: int


class RawPeer:
    """A connected attacker, made by `connect`. `pubsub` is set when the target has opened its pubsub stream."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: PrivateKey, protocol: str
    ) -> None:
        self._reader, self._writer = reader, writer
        self.identity = identity
        self._protocol = protocol
        self.id = peer_id_of(identity.public)
        self.closed = asyncio.Event()
        self.pubsub = asyncio.Event()
        self.on_rpcs: Callable[[bytes], None] | None = None
        """Called with received bytes of the target's pubsub stream."""
        self.on_data: Callable[[int, bytes], None] | None = None
        """Called with stream and received bytes of streams that this peer opened, including protocol negotiation."""
        self.sent_bytes = 0
        self._windows: dict[int, int] = {}
        self._window_opened = asyncio.Event()
        self._next = 1
        self._incoming: dict[int, Listener] = {}
        self._pump: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls, target: Target, source: str, identity: PrivateKey | None = None, protocol: str = MESHSUB
    ) -> RawPeer:
        """Connect from the address `source`. `protocol` is the pubsub protocol that this peer supports."""
        identity = identity or PrivateKey.generate()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(*target, local_addr=(source, 0), limit=1 << 20)
                peer = cls(reader, writer, identity, protocol)
                upgrade = Upgrade(identity, True)
                writer.write(upgrade.start())
                while not upgrade.done:
                    data = await reader.read(65536)
                    if not data:
                        raise Gone("the connection was ended during the handshake")
                    writer.write(upgrade.receive(data))
        except (OSError, ProtocolError, TimeoutError) as error:
            raise Gone(str(error) or "no handshake in time") from None
        assert upgrade.channel is not None
        peer._channel = upgrade.channel
        peer._pump = asyncio.ensure_future(peer._read(upgrade.leftover))
        return peer

    def send(self, *frames: bytes) -> None:
        """Send yamux frames, even beyond the windows."""
        if self.closed.is_set():
            raise Gone("the connection is closed")
        data = self._channel.seal(b"".join(frames))
        self.sent_bytes += len(data)
        self._writer.write(data)

    def send_sealed(self, pieces: Iterable[bytes]) -> None:
        """Send each piece, even an empty one, in its own Noise frame."""
        if self.closed.is_set():
            raise Gone("the connection is closed")
        self._writer.write(b"".join(map(self._channel.seal, pieces)))

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise Gone(str(error)) from None

    def open(self, protocol: str, first: bytes = b"") -> int:
        """Open a stream and return its number. Protocol and `first` are sent without waiting for an answer."""
        number, self._next = self._next, self._next + 2
        said = line(MULTISTREAM) + line(protocol) + first
        self._windows[number] = INITIAL_WINDOW - len(said)
        self.send(_data(number, said, Flag.SYN))
        return number

    async def write(self, stream: int, data: bytes) -> None:
        """Send all of `data` as fast as the target opens its window."""
        view = memoryview(data)
        while view:
            while (window := self._windows.get(stream)) == 0:
                self._window_opened.clear()
                if self.closed.is_set():
                    raise Gone("the connection is closed")
                await self._window_opened.wait()
            if window is None or self.closed.is_set():
                raise Gone("the stream is gone")
            piece = bytes(view[: min(window, _PIECE)])
            view = view[len(piece) :]
            self._windows[stream] = window - len(piece)
            self.send(_data(stream, piece))
            await self.drain()

    def is_open(self, stream: int) -> bool:
        return stream in self._windows and not self.closed.is_set()

    def stop_reading(self) -> None:
        """Read nothing more from the socket and answer nothing, like a stopped process."""
        if self._pump is not None:
            self._pump.cancel()
        self._writer.transport.pause_reading()

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        self._writer.transport.abort()
        self._end()

    def _end(self) -> None:
        self.closed.set()
        self._window_opened.set()

    async def _read(self, data: bytes) -> None:
        buffer = bytearray()
        with suppress(OSError, ProtocolError, Gone):
            while True:
                buffer += data
                self._receive_frames(buffer)
                received = await self._reader.read(1 << 18)
                if not received:
                    break
                data = self._channel.open(received)
        self._end()

    def _receive_frames(self, buffer: bytearray) -> None:
        answers: list[bytes] = []
        while len(buffer) >= HEADER.size:
            _, kind, flags, stream, length = HEADER.unpack_from(buffer)
            size = HEADER.size + (length if kind == FrameType.DATA else 0)
            if len(buffer) < size:
                break
            payload = bytes(buffer[HEADER.size : size])
            del buffer[:size]
            if kind == FrameType.PING:
                if flags & Flag.SYN:
                    answers.append(HEADER.pack(0, FrameType.PING, Flag.ACK, 0, length))
            elif kind == FrameType.GO_AWAY:
                self._end()
            else:
                self._receive_stream_frame(kind, flags, stream, length, payload, answers)
        if answers:
            self.send(*answers)

    def _receive_stream_frame(
        self, kind: int, flags: int, stream: int, length: int, payload: bytes, answers: list[bytes]
    ) -> None:
        if flags & Flag.SYN and stream % 2 == 0:
            self._incoming[stream] = listener = Listener({self._protocol, IDENTIFY})
            self._windows[stream] = INITIAL_WINDOW
            answers.append(_data(stream, listener.start(), Flag.ACK))
        if kind == FrameType.WINDOW_UPDATE:
            if stream in self._windows:
                self._windows[stream] += length
                self._window_opened.set()
        elif payload:
            answers.append(HEADER.pack(0, FrameType.WINDOW_UPDATE, 0, stream, len(payload)))
            self._receive_payload(stream, payload, answers)
        if flags & Flag.RST:
            self._windows.pop(stream, None)
            self._incoming.pop(stream, None)
            self._window_opened.set()

    def _receive_payload(self, stream: int, payload: bytes, answers: list[bytes]) -> None:
        listener = self._incoming.get(stream)
        if listener is None:
            if self.on_data is not None:
                self.on_data(stream, payload)
            return
        if listener.protocol is None:
            answer = listener.receive(payload)
            if answer:
                answers.append(_data(stream, answer))
            payload = listener.leftover
            if listener.protocol == IDENTIFY:
                said = Identity(public_key=self.identity.public.encoded, protocols=(self._protocol,))
                answers.append(_data(stream, frame(encode_identity(said)), Flag.FIN))
            elif listener.protocol is not None:
                self.pubsub.set()
        if payload and listener.protocol == self._protocol and self.on_rpcs is not None:
            self.on_rpcs(payload)


def _data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return HEADER.pack(0, FrameType.DATA, flags, stream, len(payload)) + payload


def ping(number: int) -> bytes:
    return HEADER.pack(0, FrameType.PING, Flag.SYN, 0, number)
