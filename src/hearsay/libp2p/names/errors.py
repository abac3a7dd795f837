"""Errors of peers: `ProtocolError`, and one class for each layer.

The rule of every layer here: whatever bytes come in, nothing but the layer's own `ProtocolError` comes out.
Wrong use by our own code raises `ValueError` or `RuntimeError` instead.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """The peer broke a protocol; the connection or stream it happened on is of no more use."""


class DialError(Exception):
    """A peer could not be reached, or is not who it should be."""

    def __init__(self, address: object, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.reason = reason


class OwnAddress(DialError):
    """The address is that of the host which dialled it."""


class EncodingError(ProtocolError):
    """Bytes or text that are not what they should encode: a varint, protobuf, key, peer id or multiaddr."""


class MultistreamError(ProtocolError):
    """Negotiation failed, or was not multistream-select at all."""


class NoiseError(ProtocolError):
    """The handshake or a secured frame is not authentic, or the peer is not who it should be."""


class OwnIdentity(NoiseError):
    """The peer is ourselves: the connection leads back to us, or our bytes were reflected."""


class YamuxError(ProtocolError):
    """A multiplexed connection broke the rules of yamux or our limits."""


class FrameError(ProtocolError):
    """A length-prefixed frame is longer than allowed."""
