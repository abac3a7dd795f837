"""Formats of parts and of claims, and the format of libp2p's interoperability tests.

A group is the name of a message in parts. A claim has two sets of parts of a group: those that a node has, and those
that the node wants. A claim is encoded as one bitmap or as two bitlists. A set of parts is an integer: its bit i
stands for part i.

In the test format, the group determines all parts. By default, a message has eight parts of 1,024 bytes. A group is a
number of 64 bits. Part i consists of 128 consecutive numbers of 64 bits, from group + 128·i on. All numbers are
big-endian (libp2p/test-plans, gossipsub-interop, July 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

_OFFSET_BYTES = 4


class InvalidParts(ValueError):
    """The error of data that are not in the application's format."""


class Claim(NamedTuple):
    """The sets of parts that a node has and that it wants."""

    has: int
    wants: int


class ClaimForm(Protocol):
    """An encoding of claims as metadata. `count` is the number of parts of a message."""

    def encode(self, claim: Claim, count: int) -> bytes: ...

    def decode(self, metadata: bytes, count: int) -> Claim:
        """Return the claim. Raises `InvalidParts` if the bytes are not a claim."""
        ...


@dataclass(frozen=True, slots=True)
class Bitmap:
    """The encoding of a claim as one bitmap, as in libp2p's interoperability tests.

    A bitmap has a bit for each part, the lowest first: 1 if the node has the part, 0 if the node lacks and wants it.
    """

    def encode(self, claim: Claim, count: int) -> bytes:
        return bitmap_of(claim.has, count)

    def decode(self, metadata: bytes, count: int) -> Claim:
        has = set_in(metadata, count)
        return Claim(has, all_of(count) & ~has)


@dataclass(frozen=True, slots=True)
class Bitlists:
    """The encoding of a claim as two bitlists in an SSZ container, as for Ethereum's data columns.

    The first bitlist has the parts that the sender has, and the second those that it wants. A part that is in both is
    not wanted.
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
    """Return the set of all `count` parts."""
    return (1 << count) - 1


def set_of(indexes: Iterable[int]) -> int:
    found = 0
    for index in indexes:
        found |= 1 << index
    return found


def members(parts: int) -> Iterator[int]:
    """Yield the parts of a set, in ascending order."""
    while parts:
        lowest = parts & -parts
        yield lowest.bit_length() - 1
        parts ^= lowest


def bitmap_of(parts: int, count: int) -> bytes:
    if parts > all_of(count):
        raise InvalidParts(f"part {parts.bit_length() - 1} is not in 0…{count - 1}")
    return parts.to_bytes((count + 7) // 8, "little")


def set_in(bitmap: bytes, count: int) -> int:
    parts = int.from_bytes(bitmap, "little")
    if len(bitmap) != (count + 7) // 8 or parts > all_of(count):
        raise InvalidParts(f"not a bitmap of {count} parts")
    return parts


def _bitlist_of(parts: int, count: int) -> bytes:
    """Return a set of parts as a bitlist for messages of `count` parts. Its highest bit that is 1 has the index
    `count`.
    """
    return (parts | 1 << count).to_bytes(count // 8 + 1, "little")


def _bits_in(bitlist: bytes, count: int) -> int:
    bits = int.from_bytes(bitlist, "little")
    if bits.bit_length() != count + 1:
        raise InvalidParts(f"not a bitlist of {count} parts")
    return bits & all_of(count)


PartCheck = Callable[[bytes, int, bytes], bool]
"""A function that returns True if a part is valid for its group and index. It cannot use other parts of the group."""


class PartsFormat(Protocol):
    """The wire format of an application's messages. Its methods raise `InvalidParts` for data in another format."""

    def all_parts(self, group: bytes) -> int:
        """Return the set of all parts of a group. Raises `InvalidParts` if no group can have this name."""
        ...

    def encode(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        """Return the encoding of any number of parts of a group, which are given by index."""
        ...

    def decode(self, group: bytes, encoded: bytes) -> dict[int, bytes]:
        """Return the encoded parts by index. Raises `InvalidParts` if one of them is invalid in this group."""
        ...

    def encode_claim(self, group: bytes, claim: Claim) -> bytes: ...

    def decode_claim(self, group: bytes, metadata: bytes) -> Claim: ...

    def whole(self, group: bytes, parts: Mapping[int, bytes]) -> bytes:
        """Return the full message, for peers without partial messages."""
        ...

    def split(self, message: bytes) -> tuple[bytes, dict[int, bytes]]:
        """Return the group and all parts of a full message."""
        ...


def accept_any_part(group: bytes, index: int, part: bytes) -> bool:
    """Accept any part."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualParts:
    """The format of messages with `count` parts of `part_bytes` bytes each. A group has `group_bytes` bytes.

    The encoding of parts consists of a bitmap, the parts whose bits in it are 1, in ascending order, and the group. A
    full message is the encoding of all parts. Without a `check`, any peer can spoil a message for all other peers by
    sending wrong parts.
    """

    count: int
    part_bytes: int
    group_bytes: int
    claims: ClaimForm = field(default_factory=Bitmap)
    check: PartCheck = accept_any_part

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
            raise InvalidParts(f"a full message with {len(parts)} parts, not {self.count}")
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
                raise InvalidParts(f"part {index} is not of this group")
            parts[index] = part
        return group, parts


PARTS = 8
"""Default number of parts of a message in libp2p's test format."""
PART_BYTES = 1024
"""Default size of a part in libp2p's test format."""
_NUMBER_BYTES = 8
_LAST_NUMBER = (1 << 64) - 1


def counted_parts(count: int = PARTS, part_bytes: int = PART_BYTES, claims: ClaimForm | None = None) -> EqualParts:
    """Return libp2p's test format with `count` parts of `part_bytes` bytes. Metadata are a bitmap if `claims` is
    None.

    Raises `ValueError` if `part_bytes` is not a multiple of 8, or if a number is less than 1.
    """
    if part_bytes % _NUMBER_BYTES:
        raise ValueError(f"part_bytes {part_bytes} is not a multiple of {_NUMBER_BYTES}")

    def is_right(group: bytes, index: int, part: bytes) -> bool:
        return part == counted_part(group, index, part_bytes)

    form = {} if claims is None else {"claims": claims}
    return EqualParts(count=count, part_bytes=part_bytes, group_bytes=_NUMBER_BYTES, check=is_right, **form)


def group_named(number: int) -> bytes:
    """Return the name of a group in libp2p's test format. `number` is the group's number, from 0 to 2^64 - 1."""
    return number.to_bytes(_NUMBER_BYTES, "big")


def counted(group: bytes, indexes: Iterable[int], part_bytes: int = PART_BYTES) -> dict[int, bytes]:
    """Return the parts of a group in libp2p's test format that have these indexes, by index."""
    return {index: counted_part(group, index, part_bytes) for index in indexes}


@lru_cache(maxsize=256)
def counted_part(group: bytes, index: int, part_bytes: int = PART_BYTES) -> bytes:
    numbers = part_bytes // _NUMBER_BYTES
    first = int.from_bytes(group, "big") + numbers * index
    return b"".join(group_named(number & _LAST_NUMBER) for number in range(first, first + numbers))
