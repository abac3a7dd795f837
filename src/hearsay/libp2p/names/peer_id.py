"""Peer ids: a multihash of the encoded public key (libp2p specs, "Peer Ids and Keys"), and their text forms.

An encoded key of at most 42 bytes (Ed25519, secp256k1) is contained in the id (identity hash); a longer key (RSA,
ECDSA) is hashed with SHA-256. The text of an id is base58btc of the multihash, or a CIDv1 (codec libp2p-key) in
base32. In this program an id is plain bytes, ordered and hashable, as the core requires. The time to decode base58
grows with the square of its length, so callers of `from_base58` must bound the length first.
"""

from __future__ import annotations

from base64 import b32decode
from binascii import Error as BinasciiError
from hashlib import sha256
from typing import TypeAlias

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PublicKey

_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}


def to_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_DIGITS[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def from_base58(text: str) -> bytes:
    number = 0
    for letter in text:
        value = _VALUES.get(letter)
        if value is None:
            raise EncodingError(f"{letter!r} is not a base58 digit")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def from_base32(text: str) -> bytes:
    if text != text.lower():
        raise EncodingError("base32 text must be lower-case")
    try:
        return b32decode(text.upper() + "=" * (-len(text) % 8))
    except (BinasciiError, ValueError):
        raise EncodingError(f"{text[:80]!r} is not base32") from None


PeerId: TypeAlias = bytes

MAX_INLINE_BYTES = 42
_IDENTITY, _SHA256 = 0x00, 0x12
_CID_PREFIX = bytes((0x01, 0x72))
"""CIDv1, multicodec libp2p-key."""
_MAX_TEXT = 100


def peer_id_of(key: PublicKey) -> PeerId:
    if len(key.encoded) <= MAX_INLINE_BYTES:
        return bytes((_IDENTITY, len(key.encoded))) + key.encoded
    return bytes((_SHA256, 32)) + sha256(key.encoded).digest()


def check_peer_id(raw: bytes) -> PeerId:
    """Return the bytes if they are a peer id; otherwise raise `EncodingError`."""
    if len(raw) < 2 or len(raw) != 2 + raw[1]:
        raise EncodingError("the length of a peer id does not match its multihash")
    if raw[0] == _SHA256 and raw[1] == 32:
        return raw
    if raw[0] == _IDENTITY and 0 < raw[1] <= MAX_INLINE_BYTES:
        return raw
    raise EncodingError(f"a peer id with an unknown hash: type {raw[0]:#04x}, {raw[1]} bytes")


def inlined_key(peer: PeerId) -> PublicKey | None:
    """Return the public key in an id; None if the id is a hash. Raises `EncodingError` for a malformed key or id."""
    check_peer_id(peer)
    return PublicKey.decode(peer[2:]) if peer[0] == _IDENTITY else None


def to_text(peer: PeerId) -> str:
    return to_base58(peer)


def from_text(text: str) -> PeerId:
    """Return the id with this text: base58 (`Qm…`, `1…`), or a CIDv1 in base32 (`b…`) or base58 (`z…`).

    Raises `EncodingError`.
    """
    if not text or len(text) > _MAX_TEXT:
        raise EncodingError(f"a peer id has 1…{_MAX_TEXT} characters, not {len(text)}")
    if text.startswith(("1", "Qm")):
        return check_peer_id(from_base58(text))
    if text[0] == "b":
        raw = from_base32(text[1:])
    elif text[0] == "z":
        raw = from_base58(text[1:])
    else:
        raise EncodingError(f"{text!r} is not a peer id")
    if not raw.startswith(_CID_PREFIX):
        raise EncodingError(f"{text!r} is a CID, but not of a libp2p key")
    return check_peer_id(raw[len(_CID_PREFIX) :])
