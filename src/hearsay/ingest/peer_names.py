"""Peer ids as text: base58btc, as libp2p writes them (`12D3Koo…`, `Qm…`), or hex for bytes that are no multihash."""

from __future__ import annotations

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGIT = {character: digit for digit, character in enumerate(_ALPHABET)}
_SHA256, _IDENTITY = 0x12, 0x00


def peer_name(peer: bytes) -> str:
    """The text of a peer id."""
    is_multihash = len(peer) >= 2 and peer[0] in (_SHA256, _IDENTITY) and peer[1] == len(peer) - 2
    return to_base58(peer) if is_multihash else peer.hex()


def to_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def from_base58(text: str) -> bytes:
    """ValueError if the text is not base58."""
    number = 0
    for character in text:
        digit = _DIGIT.get(character)
        if digit is None:
            raise ValueError(f"{text!r} is not a peer id")
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
