"""What a node has of a group and what it wants of it, and how that is said: as one bitmap, or as two bitlists.

Sets of parts are integers: bit i is part i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

_OFFSET_BYTES = 4


class InvalidParts(ValueError):
    """What came is not in the application's form."""


class Claim(NamedTuple):
    has: int
    wants: int


class ClaimForm(Protocol):
    """How a claim about `count` parts is written as metadata."""

    def encode(self, claim: Claim, count: int) -> bytes: ...

    def decode(self, metadata: bytes, count: int) -> Claim:
        """`InvalidParts` when it is no such claim."""
        ...


@dataclass(frozen=True, slots=True)
class Bitmap:
    """A bit for each part that is there, lowest first; who lacks one wants it (libp2p's interoperability tests)."""

    def encode(self, claim: Claim, count: int) -> bytes:
        return bitmap_of(claim.has, count)

    def decode(self, metadata: bytes, count: int) -> Claim:
        has = set_in(metadata, count)
        return Claim(has, all_of(count) & ~has)


@dataclass(frozen=True, slots=True)
class Bitlists:
    """SSZ's container of two bitlists, of the parts that are there and of those that are wanted (Ethereum's columns).

    Whoever has a part sends it to those who want it, so what is both there and wanted is merely there.
    """

    def encode(self, claim: Claim, count: int) -> bytes:
        first, second = (_bitlist_of(each, count) for each in claim)
        start = 2 * _OFFSET_BYTES
        return b"".join(at.to_bytes(_OFFSET_BYTES, "little") for at in (start, start + len(first))) + first + second

    def decode(self, metadata: bytes, count: int) -> Claim:
        start, size = 2 * _OFFSET_BYTES, count // 8 + 1
        offsets = b"".join(at.to_bytes(_OFFSET_BYTES, "little") for at in (start, start + size))
        if metadata[:start] != offsets or len(metadata) != start + 2 * size:
            raise InvalidParts(f"not two bitlists of {count} parts")
        has, wants = (_bits_in(metadata[at : at + size], count) for at in (start, start + size))
        return Claim(has, wants & ~has)


def all_of(count: int) -> int:
    """The set of all parts."""
    return (1 << count) - 1


def set_of(indexes: Iterable[int]) -> int:
    found = 0
    for index in indexes:
        found |= 1 << index
    return found


def members(parts: int) -> Iterator[int]:
    """The parts of a set, ascending."""
    while parts:
        lowest = parts & -parts
        yield lowest.bit_length() - 1
        parts ^= lowest


def bitmap_of(parts: int, count: int) -> bytes:
    if parts > all_of(count):
        raise InvalidParts(f"part {parts.bit_length() - 1} of {count}, which count from 0")
    return parts.to_bytes((count + 7) // 8, "little")


def set_in(bitmap: bytes, count: int) -> int:
    parts = int.from_bytes(bitmap, "little")
    if len(bitmap) != (count + 7) // 8 or parts > all_of(count):
        raise InvalidParts(f"not a bitmap of {count} parts")
    return parts


def _bitlist_of(parts: int, count: int) -> bytes:
    """One bit more than there are parts says how many there are."""
    return (parts | 1 << count).to_bytes(count // 8 + 1, "little")


def _bits_in(bitlist: bytes, count: int) -> int:
    bits = int.from_bytes(bitlist, "little")
    if bits.bit_length() != count + 1:
        raise InvalidParts(f"not a bitlist of {count} parts")
    return bits & all_of(count)
