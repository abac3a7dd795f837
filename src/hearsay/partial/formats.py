"""How parts of a message and claims about them are written.

A claim says what a node has of a group and what it wants of it: one bitmap, or two bitlists. Sets of parts are
integers: bit i is part i."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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


PartCheck = Callable[[bytes, int, bytes], bool]
"""Whether this is the part with this index of a group. An honest peer must know, before it has the others."""


class PartsFormat(Protocol):
    """The wire form of an application's messages. What a peer sent and is not in it raises `InvalidParts`."""

    def all_parts(self, group: bytes) -> int:
        """The set of parts that make a whole message; `InvalidParts` when this is the name of no group."""
        ...

    def encode(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        """Some parts, or all, as they travel."""
        ...

    def decode(self, group: bytes, encoded: bytes) -> dict[int, bytes]:
        """The parts, each of them found to be right."""
        ...

    def encode_claim(self, group: bytes, claim: Claim) -> bytes: ...

    def decode_claim(self, group: bytes, metadata: bytes) -> Claim: ...

    def whole(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        """The full message, for peers without partial messages."""
        ...

    def split(self, message: bytes) -> tuple[bytes, dict[int, bytes]]:
        """The group and all parts of a full message."""
        ...


def believed(group: bytes, index: int, part: bytes) -> bool:
    """Takes any part for the right one."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualParts:
    """`count` parts of `part_bytes` each, named by `group_bytes`: a bitmap, the parts it names in order, the group.

    A full message is that with all its parts. Without a `check` everybody can spoil any message for all others.
    """

    count: int
    part_bytes: int
    group_bytes: int
    claims: ClaimForm = field(default_factory=Bitmap)
    check: PartCheck = believed

    def __post_init__(self) -> None:
        if min(self.count, self.part_bytes, self.group_bytes) < 1:
            raise ValueError("count, part_bytes and group_bytes must be at least 1")

    def all_parts(self, group: bytes) -> int:
        if len(group) != self.group_bytes:
            raise InvalidParts(f"a group of {len(group)} bytes, not {self.group_bytes}")
        return all_of(self.count)

    def encode(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        named = bitmap_of(set_of(parts), self.count)
        return b"".join((named, *(parts[index] for index in sorted(parts)), group))

    def decode(self, group: bytes, encoded: bytes) -> dict[int, bytes]:
        self.all_parts(group)
        named, parts = self._read(encoded)
        if named != group:
            raise InvalidParts("parts of another group")
        return parts

    def encode_claim(self, group: bytes, claim: Claim) -> bytes:
        return self.claims.encode(claim, self.count)

    def decode_claim(self, group: bytes, metadata: bytes) -> Claim:
        self.all_parts(group)
        return self.claims.decode(metadata, self.count)

    def whole(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        return self.encode(group, parts)

    def split(self, message: bytes) -> tuple[bytes, dict[int, bytes]]:
        group, parts = self._read(message)
        if len(parts) != self.count:
            raise InvalidParts(f"{len(parts)} parts, not {self.count}")
        return group, parts

    def _read(self, encoded: bytes) -> tuple[bytes, dict[int, bytes]]:
        start = (self.count + 7) // 8
        indexes = tuple(members(set_in(encoded[:start], self.count)))
        end = start + self.part_bytes * len(indexes)
        if len(encoded) != end + self.group_bytes:
            raise InvalidParts(f"{len(encoded)} bytes are not {len(indexes)} parts and a group")
        group = encoded[end:]
        parts: dict[int, bytes] = {}
        for place, index in enumerate(indexes):
            part = encoded[start + place * self.part_bytes : start + (place + 1) * self.part_bytes]
            if not self.check(group, index, part):
                raise InvalidParts(f"part {index} is not one of this group")
            parts[index] = part
        return group, parts
