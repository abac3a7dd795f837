"""Errors that peers cause: `ProtocolError` with a subclass for each layer, and `DialError`.

Whatever bytes a layer receives, it raises only its own subclass of `ProtocolError`. Wrong use by this program raises
`ValueError` or `RuntimeError` instead.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """The peer broke a protocol; the connection or stream is unusable."""


class DialError(Exception):
    """A peer cannot be reached or is not the expected one."""

    def __init__(self, address: object, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.reason = reason


class OwnAddress(DialError):
    """The dialled address belongs to this host."""


class EncodingError(ProtocolError):
    """Malformed bytes or text: a varint, protobuf, key, peer id or multiaddr."""


class MultistreamError(ProtocolError):
    """A negotiation failed, or the peer does not speak multistream-select."""


class NoiseError(ProtocolError):
    """A handshake or an encrypted frame is not authentic, or the peer is not the expected one."""


class OwnIdentity(NoiseError):
    """The peer has our own identity: the connection leads back to this host, or our bytes were reflected."""


class YamuxError(ProtocolError):
    """The peer broke the rules of yamux or exceeded our limits, or the connection can have no further stream."""


class FrameError(ProtocolError):
    """A length-prefixed frame is malformed, too long, or does not fit into its memory budget."""
