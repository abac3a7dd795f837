"""Functions that encode and decode unsigned varints and protobuf fields. Malformed bytes raise `EncodingError`."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.libp2p.names.errors import EncodingError

MAX_BYTES = 10
_ONE_BYTE = tuple(bytes((value,)) for value in range(128))


def encode(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode(data: bytes | bytearray | memoryview, offset: int, end: int) -> tuple[int, int]:
    """Return the value of the varint at `offset`, and the offset after the varint. The data ends at `end`."""
    found = decode_partial(data, offset, end)
    if found is None:
        raise EncodingError("a varint is cut off")
    return found


def decode_partial(data: bytes | bytearray | memoryview, offset: int, end: int) -> tuple[int, int] | None:
    """Return the same as `decode`, but None if the varint is cut off at `end`."""
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise EncodingError("a varint has more than 64 bits")
            return value, offset
        shift += 7
        if shift >= 7 * MAX_BYTES:
            raise EncodingError(f"a varint is longer than {MAX_BYTES} bytes")
    return None


VARINT, FIXED64, DELIMITED, GROUP, END_GROUP, FIXED32 = range(6)
MAX_FIELD = (1 << 29) - 1


def bytes_field(number: int, value: bytes) -> bytes:
    return encode(number << 3 | DELIMITED) + encode(len(value)) + value


def varint_field(number: int, value: int) -> bytes:
    return encode(number << 3 | VARINT) + encode(value)


def walk(data: bytes, offset: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of the message from `offset` to `end` (None: the end of `data`), as (number, wire type, start,
    stop).

    For DELIMITED, the value is `data[start:stop]`. For VARINT, start is the value itself, and stop is the end of the
    field. Values of other types are skipped, and start and stop are the end of the field.
    """
    end = len(data) if end is None else end
    while offset < end:
        key = data[offset]
        offset += 1
        if key >= 0x80:
            key, offset = decode(data, offset - 1, end)
        wire_type = key & 7
        number = key >> 3
        if not 0 < number <= MAX_FIELD:
            raise EncodingError(f"field number {number} is outside 1…{MAX_FIELD}")
        if wire_type == DELIMITED:
            length, start = decode(data, offset, end)
            offset = start + length
            if offset > end:
                raise EncodingError(f"field {number} is longer than its message")
            yield number, DELIMITED, start, offset
        elif wire_type == VARINT:
            value, offset = decode(data, offset, end)
            yield number, VARINT, value, offset
        else:
            offset = _skip(data, offset, end, wire_type, number)
            yield number, wire_type, offset, offset


def values(message: bytes, *numbers: int) -> list[list[bytes]]:
    """Return a list for each field number, in the order of `numbers`. It has the values of the length-delimited
    fields with this number, in their order in the message.
    """
    found: dict[int, list[bytes]] = {number: [] for number in numbers}
    for number, wire_type, start, stop in walk(message):
        if wire_type == DELIMITED and number in found:
            found[number].append(message[start:stop])
    return list(found.values())


def last_values(message: bytes, *numbers: int) -> list[bytes | None]:
    """Return for each field number the value of its last length-delimited field; None if there is no such field."""
    return [known[-1] if known else None for known in values(message, *numbers)]


def last_varints(message: bytes, *numbers: int) -> list[int | None]:
    """Return for each field number the value of its last varint field; None if there is no such field."""
    found: dict[int, int | None] = dict.fromkeys(numbers)
    for number, wire_type, value, _ in walk(message):
        if wire_type == VARINT and number in found:
            found[number] = value
    return list(found.values())


def _skip(data: bytes, offset: int, end: int, wire_type: int, number: int) -> int:
    """Return the offset after the value that starts at `offset`."""
    if wire_type == VARINT:
        return decode(data, offset, end)[1]
    if wire_type == DELIMITED:
        length, offset = decode(data, offset, end)
        offset += length
    elif wire_type == FIXED64:
        offset += 8
    elif wire_type == FIXED32:
        offset += 4
    elif wire_type == GROUP:
        return _skip_group(data, offset, end, number)
    else:
        raise EncodingError(f"field {number} has the unknown wire type {wire_type}")
    if offset > end:
        raise EncodingError(f"field {number} is longer than its message")
    return offset


def _skip_group(data: bytes, offset: int, end: int, group: int) -> int:
    open_groups = [group]
    while open_groups:
        key, offset = decode(data, offset, end)
        wire_type, number = key & 7, key >> 3
        if wire_type == GROUP:
            open_groups.append(number)
        elif wire_type != END_GROUP:
            offset = _skip(data, offset, end, wire_type, number)
        elif (group := open_groups.pop()) != number:
            raise EncodingError(f"group {group} ends with the number {number}")
    return offset
