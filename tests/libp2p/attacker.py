"""A hostile peer for tests, which upgrades its connection and then sends any frames."""

from __future__ import annotations

import asyncio
import socket

from hearsay.libp2p.mux.multistream import HEADER as MULTISTREAM
from hearsay.libp2p.mux.multistream import Upgrade, line
from hearsay.libp2p.mux.yamux_frames import HEADER, Flag, FrameType, GoAway
from hearsay.libp2p.names.keys import PrivateKey


class Attacker:
    """A peer that follows the protocols up to yamux, and then sends the frames of the test."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.channel = None

    @classmethod
    async def connect(cls, host, address="127.0.0.1", receive_buffer=None):
        """Connect to a host from an address of 127.0.0.0/8. `receive_buffer` bounds the bytes that the kernel accepts
        while the attacker does not read.
        """
        connecting = socket.socket()
        connecting.setblocking(False)
        if receive_buffer is not None:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connecting.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(connecting, host.addresses[0].tcp_endpoint)
        return cls(*await asyncio.open_connection(sock=connecting))

    async def upgrade(self, identity=None):
        upgrade = Upgrade(identity or PrivateKey.generate(), True)
        self.writer.write(upgrade.start())
        while not upgrade.done:
            data = await self.reader.read(65536)
            assert data, "the host closed the connection"
            self.writer.write(upgrade.receive(data))
        self.channel = upgrade.channel
        return self

    def send(self, *frames):
        self.writer.write(self.channel.seal(b"".join(frames)))

    @classmethod
    async def not_reading(cls, host):
        """Return an attacker that does not read 8 MiB that the host sends on `/hold`, and the host's connection."""
        held = []
        host.handle("/hold", held.append)
        attacker = await (await cls.connect(host, receive_buffer=4096)).upgrade()
        attacker.writer.transport.pause_reading()
        attacker.send(opening(1, "/hold"), frame(FrameType.WINDOW_UPDATE, 0, 1, 1 << 30))
        while not held:
            await asyncio.sleep(0)
        (connection,) = host.connections.values()
        held[0].write(bytes(8 << 20))
        return attacker, connection

    async def until_closed(self):
        """Return all bytes that the host sends before it closes the connection, as plaintext."""
        received = b""
        try:
            while data := await self.reader.read(65536):
                received += self.channel.open(data) if self.channel is not None else data
        except ConnectionResetError:
            pass
        return received

    async def until_answered(self):
        """Return what the host sends until it answers a ping; by then it has handled all earlier frames."""
        self.send(frame(FrameType.PING, Flag.SYN, 0, 77))
        return await self.until(frame(FrameType.PING, Flag.ACK, 0, 77))

    async def until(self, frame):
        """Return the plaintext that the host sends until it has sent this frame."""
        received = b""
        while frame not in received:
            data = await self.reader.read(65536)
            assert data, "the host closed the connection"
            received += self.channel.open(data)
        return received


def frame(kind, flags, stream, length, data=b""):
    return HEADER.pack(0, kind, flags, stream, length) + data


def data_frame(stream, data, flags=0):
    return frame(FrameType.DATA, flags, stream, len(data), data)


def opening(stream, protocol):
    return data_frame(stream, line(MULTISTREAM) + line(protocol), Flag.SYN)


PROTOCOL_ERROR = frame(FrameType.GO_AWAY, 0, 0, GoAway.PROTOCOL_ERROR)
