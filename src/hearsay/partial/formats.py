"""How the parts of a message are written: what an application of its own has to say of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hearsay.partial.claims import Bitmap, Claim, ClaimForm, InvalidParts, all_of, bitmap_of, members, set_in, set_of

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
