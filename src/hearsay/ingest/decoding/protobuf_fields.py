"""Fields of a protobuf message in an array of bytes, and names as numbers, compiled."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.compiled_code import compiled


@compiled
def varint(data: Data, at: int, end: int) -> tuple[int, int]:
    """(value, what follows); what follows is -1 if this is no varint."""
    if at < end and data[at] < 0x80:
        return int(np.int64(data[at])), at + 1
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            break
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return int(np.int64(value)), at
        shift += np.uint64(7)
    return 0, -1


@compiled
def field(data: Data, at: int, end: int) -> tuple[int, int, int, int]:
    """(tag, value or start, length, what follows); what follows is -1 if this is no field."""
    tag, at = varint(data, at, end)
    if at < 0 or tag < 8 or tag > 0xFFFFFFFF:
        return 0, 0, 0, -1
    wire = tag & 7
    if wire == 0:
        value, at = varint(data, at, end)
        return tag, value, 0, at
    if wire == 2:
        length, at = varint(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return 0, 0, 0, -1
        return tag, at, length, at + length
    size = 8 if wire == 1 else 4
    if (wire != 1 and wire != 5) or size > end - at:
        return 0, 0, 0, -1
    return tag, at, size, at + size


@compiled
def texts(data: Data, at: int, end: int, spans: Numbers, number_tag: int) -> bool:
    """Fill `spans[n]` with start and length of field n (1 to 4), a text; start -1 where it is missing, as is 0.

    Fields with `number_tag` hold a number and are skipped; 0 is no tag."""
    for number in range(5):
        spans[number, 0] = -1
    while at < end:
        tag, start, length, at = field(data, at, end)
        if at < 0:
            return False
        number = tag >> 3
        if number <= 4 and tag != number_tag:
            if tag & 7 != 2 or spans[number, 0] >= 0:
                return False
            spans[number, 0] = start
            spans[number, 1] = length
    return True


Data: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]

SPAN_BITS = 24
_SPAN_MASK = (1 << SPAN_BITS) - 1


class IdTable(NamedTuple):
    """Byte strings numbered 0, 1, … as they come; number n is `store[starts[n]:starts[n + 1]]`."""

    slots: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    starts: Numbers
    store: Data
    used: Numbers
    """One cell: how many."""
    seed: NDArray[np.uint64]


@compiled
def _hash(data: Data, start: int, length: int, seed: np.uint64) -> np.uint64:
    value = seed ^ (np.uint64(length) * np.uint64(0x9E3779B97F4A7C15))
    at = np.uint64(start)
    end = np.uint64(start + length)
    while at + np.uint64(8) <= end:
        word = (
            np.uint64(data[at])
            | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
            | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
            | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
            | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
            | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
            | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
            | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
        )
        value = (value ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        value ^= value >> np.uint64(32)
        at += np.uint64(8)
    while at < end:
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        at += np.uint64(1)
    value ^= value >> np.uint64(29)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


@compiled
def _same(store: Data, first: int, data: Data, start: int, length: int) -> bool:
    a = np.uint64(first)
    b = np.uint64(start)
    for _ in range(length):
        if store[a] != data[b]:
            return False
        a += np.uint64(1)
        b += np.uint64(1)
    return True


@compiled
def _number_of(table: IdTable, data: Data, start: int, length: int) -> int:
    """The number of `data[start:start + length]`, a new one if it is new."""
    hashed = _hash(data, start, length, table.seed[0]) & table.seed[1]
    mask = int(np.int64(len(table.slots) - 1))
    slot = int(np.int64(hashed)) & mask
    while True:
        number = int(np.int64(table.slots[slot]))
        if number < 0:
            break
        first = table.starts[number]
        if (
            table.hashes[number] == hashed
            and table.starts[number + 1] - first == length
            and _same(table.store, first, data, start, length)
        ):
            return number
        slot = (slot + 1) & mask
    number = table.used[0]
    first = table.starts[number]
    table.store[first : first + length] = data[start : start + length]
    table.starts[number + 1] = first + length
    table.hashes[number] = hashed
    table.slots[slot] = number
    table.used[0] = number + 1
    return number


@compiled
def place_all(slots: NDArray[np.int32], hashes: NDArray[np.uint64], used: int) -> None:
    """Fill the empty slots of a grown table."""
    mask = int(np.int64(len(slots) - 1))
    for number in range(used):
        slot = int(np.int64(hashes[number])) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


@compiled
def number_names(table: IdTable, data: Data, spans: Numbers, n: int) -> None:
    """Put the number of each name in the place of its span; -1 stays."""
    last = -1
    for index in range(n):
        span = spans[index]
        if span < 0:
            continue
        start, length = span >> SPAN_BITS, span & _SPAN_MASK
        if last >= 0:
            first = table.starts[last]
            if table.starts[last + 1] - first == length and _same(table.store, first, data, start, length):
                spans[index] = last
                continue
        last = _number_of(table, data, start, length)
        spans[index] = last
