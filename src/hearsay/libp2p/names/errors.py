"""Errors of peers: `ProtocolError`, and one class for each layer.

The rule of every layer: for any received bytes, it raises nothing but its own `ProtocolError`.
Wrong use by our own code raises `ValueError` or `RuntimeError` instead.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """The peer broke a protocol; the connection or stream is unusable."""


class DialError(Exception):
    """A peer could not be reached, or is not the expected one."""

    def __init__(self, address: object, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.reason = reason


class OwnAddress(DialError):
    """The dialled address is that of this host."""


class EncodingError(ProtocolError):
    """Malformed bytes or text: a varint, protobuf, key, peer id or multiaddr."""


class MultistreamError(ProtocolError):
    """The negotiation failed, or the peer did not speak multistream-select."""


class NoiseError(ProtocolError):
    """The handshake or a sealed frame is not authentic, or the peer is not the expected one."""


class OwnIdentity(NoiseError):
    """The peer has our own identity: the connection leads back to us, or our bytes were reflected."""


class YamuxError(ProtocolError):
    """A multiplexed connection broke the rules of yamux or our limits."""


class FrameError(ProtocolError):
    """A length-prefixed frame is longer than allowed."""
