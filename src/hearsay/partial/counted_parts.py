"""Messages whose parts can be told from the group's name alone: the test format of libp2p's interoperability tests.

There are eight parts of 1,024 bytes. A group is a number of 64 bits; part i is 128 such numbers, which count up from
group + 128·i, all of them big-endian (libp2p/test-plans, gossipsub-interop, July 2026).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hearsay.partial.formats import ClaimForm, EqualParts

EIGHT = 8
KIBIBYTE = 1024
_NUMBER_BYTES = 8
_LAST_NUMBER = (1 << 64) - 1


def counted_parts(count: int = EIGHT, part_bytes: int = KIBIBYTE, claims: ClaimForm | None = None) -> EqualParts:
    """The format with so many parts of this size, a multiple of eight bytes; metadata is a bitmap unless `claims`."""
    if part_bytes % _NUMBER_BYTES:
        raise ValueError(f"part_bytes {part_bytes} is not a multiple of {_NUMBER_BYTES}")

    def is_right(group: bytes, index: int, part: bytes) -> bool:
        return part == counted_part(group, index, part_bytes)

    form = {} if claims is None else {"claims": claims}
    return EqualParts(count=count, part_bytes=part_bytes, group_bytes=_NUMBER_BYTES, check=is_right, **form)


def group_named(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")


def counted(group: bytes, indexes: Iterable[int], part_bytes: int = KIBIBYTE) -> dict[int, bytes]:
    """These parts of a group."""
    return {index: counted_part(group, index, part_bytes) for index in indexes}


@lru_cache(maxsize=256)
def counted_part(group: bytes, index: int, part_bytes: int = KIBIBYTE) -> bytes:
    numbers = part_bytes // _NUMBER_BYTES
    first = int.from_bytes(group, "big") + numbers * index
    return b"".join(group_named(number & _LAST_NUMBER) for number in range(first, first + numbers))
