"""Bytes as text: base58btc, and base32 in lower case as multibase's `b`.

Base58 takes time quadratic in the length, so callers bound the length first.
"""

from __future__ import annotations

from base64 import b32decode
from binascii import Error as BinasciiError

from hearsay.libp2p.names.errors import EncodingError

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
        raise EncodingError("base32 text with upper-case letters")
    try:
        return b32decode(text.upper() + "=" * (-len(text) % 8))
    except (BinasciiError, ValueError):
        raise EncodingError(f"{text[:80]!r} is not base32") from None
