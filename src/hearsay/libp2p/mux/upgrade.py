"""From a bare byte stream to a secured, multiplexed one: multistream-select, Noise, multistream-select, yamux.

`Upgrade` puts the machines in a row: bytes in, bytes to send out, until `channel` is there. What came after the last
negotiation is `leftover`, in plain, for the multiplexer; later frames stay in the channel. Without Noise there is no
connection: plaintext is not offered.
"""

from __future__ import annotations

from hearsay.libp2p.mux import multistream, yamux_frames
from hearsay.libp2p.mux.multistream import Negotiation
from hearsay.libp2p.names.errors import NoiseError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.secure import noise
from hearsay.libp2p.secure.noise import Channel, Handshake

MAX_FRAMES = 256
"""Noise frames that a peer may use to agree on a multiplexer; it needs a few."""


class Upgrade:
    """One side of a connection's way up. It is over when `done`."""

    def __init__(self, identity: PrivateKey, dialer: bool, expected: PeerId | None = None) -> None:
        self._security = _negotiation(dialer, noise.PROTOCOL)
        self._handshake = Handshake(identity, dialer, expected)
        self._muxer = _negotiation(dialer, yamux_frames.PROTOCOL)

    @property
    def done(self) -> bool:
        return self._muxer.protocol is not None

    @property
    def channel(self) -> Channel | None:
        return self._handshake.channel

    @property
    def leftover(self) -> bytes:
        """Plaintext for the multiplexer that came along."""
        return self._muxer.leftover

    def start(self) -> bytes:
        return self._security.start()

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer; what to send in answer."""
        if self._security.protocol is None:
            answer = self._security.receive(data)
            if self._security.protocol is None:
                return answer
            return answer + self._handshake.start() + self._shake(self._security.leftover)
        if self._handshake.channel is None:
            return self._shake(data)
        return self._multiplex(self._handshake.channel, data)

    def _shake(self, data: bytes) -> bytes:
        answer = self._handshake.receive(data)
        channel = self._handshake.channel
        if channel is None:
            return answer
        return answer + channel.seal(self._muxer.start()) + self._multiplex(channel, self._handshake.leftover)

    def _multiplex(self, channel: Channel, data: bytes) -> bytes:
        channel.feed(data)
        answer = b""
        while channel.has_frame and not self.done:
            if channel.frames == MAX_FRAMES:
                raise NoiseError(f"more than {MAX_FRAMES} frames before a multiplexer was agreed")
            answer += self._muxer.receive(channel.open(at_most=1))
        return channel.seal(answer) if answer else b""


def _negotiation(dialer: bool, protocol: str) -> Negotiation:
    return multistream.Dialer([protocol]) if dialer else multistream.Listener({protocol})
