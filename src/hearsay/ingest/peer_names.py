"""Peer ids as text and as bytes."""

from __future__ import annotations

from functools import lru_cache

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import from_base58, to_base58

_SHA256, _IDENTITY = 0x12, 0x00
_MAX_TEXT = 400
"""Base58 takes time quadratic in the length. 257 bytes, the most that are written so, are 352 letters."""
_KEPT_NAMES = 1 << 16


@lru_cache(_KEPT_NAMES)
def peer_name(peer: bytes) -> str:
    """Return the text of a peer id."""
    is_multihash = len(peer) >= 2 and peer[0] in (_SHA256, _IDENTITY) and peer[1] == len(peer) - 2
    return to_base58(peer) if is_multihash else peer.hex()


def peer_of_name(text: str) -> bytes:
    """Return the bytes of a peer id; ValueError if the text is not base58, or longer than any peer id."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:40]!r}… of {len(text)} characters is not a peer id")
    try:
        return from_base58(text)
    except EncodingError:
        raise ValueError(f"{text!r} is not a peer id") from None
