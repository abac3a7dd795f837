"""multistream-select 1.0: two peers agree on the protocol of a connection or stream.

Rules (libp2p specs, "connections", protocol negotiation): both sides send `/multistream/1.0.0`. The dialer proposes
protocols one by one; the listener echoes the one it takes and answers `na` to the others. Every line is a varint
length, the text, and a newline. The dialer's first proposal goes out with its header, which saves a round trip.

A line has at most 1024 bytes and a peer at most 64 lines. Bytes after the agreement are the chosen protocol's:
`leftover`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from hearsay.libp2p.limits.frames import frame
from hearsay.libp2p.names.errors import EncodingError, MultistreamError
from hearsay.libp2p.names.varint import decode_partial

HEADER = "/multistream/1.0.0"
NOT_AVAILABLE = "na"
MAX_LINE_BYTES = 1024
MAX_LINES = 64


def line(text: str) -> bytes:
    return frame(text.encode() + b"\n")


class Negotiation(ABC):
    """One side of a negotiation. It is over when `protocol` is not None."""

    def __init__(self) -> None:
        self.protocol: str | None = None
        self.leftover = b""
        self._buffer = bytearray()
        self._lines = 0

    @abstractmethod
    def start(self) -> bytes:
        """What to send first."""

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer; what to send in answer."""
        if self.protocol is not None:
            raise RuntimeError("the negotiation is over")
        self._buffer += data
        answers: list[bytes] = []
        while self.protocol is None:
            text = self._next_line()
            if text is None:
                break
            if self._lines == 1:
                if text != HEADER:
                    raise MultistreamError(f"the peer does not speak {HEADER}")
            else:
                answers.append(self._received(text))
        if self.protocol is not None:
            self.leftover = bytes(self._buffer)
            self._buffer.clear()
        return b"".join(answers)

    @abstractmethod
    def _received(self, text: str) -> bytes:
        """The peer's line after its header; the answer."""

    def _next_line(self) -> str | None:
        try:
            found = decode_partial(self._buffer, 0, len(self._buffer))
        except EncodingError as error:
            raise MultistreamError(str(error)) from None
        if found is None:
            return None
        length, start = found
        if not 0 < length <= MAX_LINE_BYTES:
            raise MultistreamError(f"a line of {length} bytes; 1…{MAX_LINE_BYTES} are allowed")
        stop = start + length
        if stop > len(self._buffer):
            return None
        raw = bytes(self._buffer[start:stop])
        del self._buffer[:stop]
        self._lines += 1
        if self._lines > MAX_LINES:
            raise MultistreamError(f"more than {MAX_LINES} lines without agreement")
        if raw[-1:] != b"\n":
            raise MultistreamError("a line without a newline at its end")
        try:
            return raw[:-1].decode()
        except UnicodeDecodeError:
            raise MultistreamError("a line that is not text") from None


class Dialer(Negotiation):
    """Proposes `protocols`, preferred first."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        if not protocols:
            raise ValueError("nothing to propose")
        self._proposals = list(protocols)

    def start(self) -> bytes:
        return line(HEADER) + line(self._proposals[0])

    def _received(self, text: str) -> bytes:
        if text == self._proposals[0]:
            self.protocol = text
            return b""
        if text != NOT_AVAILABLE:
            raise MultistreamError(f"proposed {self._proposals[0]}, the peer answered {text[:80]!r}")
        refused = self._proposals.pop(0)
        if not self._proposals:
            raise MultistreamError(f"the peer speaks none of our protocols (last proposed: {refused})")
        return line(self._proposals[0])


class Listener(Negotiation):
    """Takes the first of the peer's proposals that is in `protocols`."""

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
