"""Protocol negotiation (multistream-select 1.0), and the upgrade to a secure, multiplexed connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from hearsay.libp2p import noise
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.mux import yamux_frames
from hearsay.libp2p.names.errors import FrameError, MultistreamError, NoiseError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.noise import Channel, Handshake

HEADER = "/multistream/1.0.0"
NOT_AVAILABLE = "na"
MAX_LINE_BYTES = 1024
MAX_LINES = 64


def line(text: str) -> bytes:
    return frame(text.encode() + b"\n")


class Negotiation(ABC):
    """One side of a negotiation. It is complete when `protocol` is not None."""

    def __init__(self) -> None:
        self.protocol: str | None = None
        self.leftover = b""
        """Received bytes that follow the negotiation."""
        self._frames = FrameReader(MAX_LINE_BYTES)
        self._lines = 0

    @abstractmethod
    def start(self) -> bytes:
        """Return the first bytes to send."""

    def receive(self, data: bytes) -> bytes:
        """Handle bytes of the peer, and return the bytes to send. Raises `MultistreamError` if there is no agreement.

        It must not be called after the negotiation is complete.
        """
        if self.protocol is not None:
            raise RuntimeError("the negotiation is over")
        self._frames.feed(data)
        answers: list[bytes] = []
        while self.protocol is None and (text := self._next_line()) is not None:
            if self._lines > 1:
                answers.append(self._received(text))
            elif text != HEADER:
                raise MultistreamError(f"the peer does not speak {HEADER}")
        if self.protocol is not None:
            self.leftover = self._frames.rest()
        return b"".join(answers)

    @abstractmethod
    def _received(self, text: str) -> bytes:
        """Handle a line after the peer's header, and return the bytes to send."""

    def _next_line(self) -> str | None:
        try:
            raw = self._frames.next_frame()
        except FrameError as error:
            raise MultistreamError(str(error)) from None
        if raw is None:
            return None
        self._lines += 1
        if self._lines > MAX_LINES:
            raise MultistreamError(f"more than {MAX_LINES} lines without agreement")
        if raw[-1:] != b"\n":
            raise MultistreamError("a line without a newline at its end")
        try:
            return raw[:-1].decode()
        except UnicodeDecodeError:
            raise MultistreamError("a line that is not UTF-8") from None


class Dialer(Negotiation):
    """The side that proposes `protocols`, the preferred one first."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        if not protocols:
            raise ValueError("at least one protocol is needed")
        self._proposals = list(protocols)

    def start(self) -> bytes:
        return line(HEADER) + line(self._proposals[0])

    def _received(self, text: str) -> bytes:
        if text == self._proposals[0]:
            self.protocol = text
            return b""
        if text != NOT_AVAILABLE:
            raise MultistreamError(f"the peer answered {text[:80]!r} to the proposal {self._proposals[0]}")
        refused = self._proposals.pop(0)
        if not self._proposals:
            raise MultistreamError(f"the peer speaks none of our protocols (last proposed: {refused})")
        return line(self._proposals[0])


class Listener(Negotiation):
    """The side that accepts the peer's first proposal that is in `protocols`."""

    def __init__(self, protocols: Collection[str]) -> None:
        super().__init__()
        self._protocols = protocols

    def start(self) -> bytes:
        return line(HEADER)

    def _received(self, text: str) -> bytes:
        if text in self._protocols:
            self.protocol = text
            return line(text)
        return line(NOT_AVAILABLE)


MAX_FRAMES = 256
"""Maximum number of Noise frames in the negotiation of the multiplexer. A few are enough."""


class Upgrade:
    """One side of the upgrade of a connection. It is complete when `done` is True.

    `expected` is the id that the peer must have; None if any peer may answer.
    """

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
        """Return received plaintext that follows the upgrade and belongs to the multiplexer."""
        return self._muxer.leftover

    def start(self) -> bytes:
        return self._security.start()

    def receive(self, data: bytes) -> bytes:
        """Handle bytes of the peer, and return the bytes to send. Raises a `ProtocolError` if the upgrade fails."""
        if self._security.protocol is None:
            answer = self._security.receive(data)
            if self._security.protocol is None:
                return answer
            return answer + self._handshake.start() + self._continue_handshake(self._security.leftover)
        if self._handshake.channel is None:
            return self._continue_handshake(data)
        return self._negotiate_muxer(self._handshake.channel, data)

    def _continue_handshake(self, data: bytes) -> bytes:
        answer = self._handshake.receive(data)
        channel = self._handshake.channel
        if channel is None:
            return answer
        return answer + channel.seal(self._muxer.start()) + self._negotiate_muxer(channel, self._handshake.leftover)

    def _negotiate_muxer(self, channel: Channel, data: bytes) -> bytes:
        channel.feed(data)
        answer = b""
        while channel.has_frame and not self.done:
            if channel.frames == MAX_FRAMES:
                raise NoiseError(f"more than {MAX_FRAMES} frames before a multiplexer was agreed")
            answer += self._muxer.receive(channel.open(at_most=1))
        return channel.seal(answer) if answer else b""


def _negotiation(dialer: bool, protocol: str) -> Negotiation:
    return Dialer([protocol]) if dialer else Listener({protocol})
