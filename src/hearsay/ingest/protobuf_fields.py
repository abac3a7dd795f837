"""Compiled functions that read the fields of a protobuf message in an array of bytes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.compiled_code import compiled

Data: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]

SPAN_BITS = 24
"""A span is the position of a name in the data, `start << SPAN_BITS | length`, or -1 if there is no name."""


@compiled
def varint(data: Data, at: int, end: int) -> tuple[int, int]:
    """Return the value of the varint at offset `at`, and the offset after it; 0 and -1 if it is not valid."""
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
    """Return tag, value and length of the field at offset `at`, and the offset after the field.

    For a varint, the value is its number. For another field, it is the offset of the first byte of the content, and
    the length is that of the content. The offset after the field is -1 if there is no valid field.
    """
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
    """Write the start and the length of the text in field n (1 to 4) of a message into `spans[n]`.

    The start is -1 for a missing field, and in `spans[0]`. The field with the tag `number_tag` is a number and is
    skipped (0: the message has no such field). Returns False if a field is malformed or repeated.
    """
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


@compiled
def copy_spans(data: Data, spans: Numbers, ends: Numbers, copied: Data) -> None:
    """Copy the bytes at each span into `copied`.

    The bytes at `spans[i]` are copied to the places before `ends[i]`.
    """
    for index in range(len(spans)):
        start = spans[index] >> SPAN_BITS
        length = spans[index] & ((1 << SPAN_BITS) - 1)
        copied[ends[index] - length : ends[index]] = data[start : start + length]
