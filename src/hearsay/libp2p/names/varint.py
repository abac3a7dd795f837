"""Unsigned varints (protobuf's encoding; multiformats' unsigned-varint): seven bits a byte, lowest first.

A value has at most 64 bits, hence at most ten bytes. Protobuf allows longer encodings than needed, so does this.
"""

from __future__ import annotations

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
    """The value at `offset` and where it ends; `EncodingError` when it does not end before `end`."""
    found = decode_partial(data, offset, end)
    if found is None:
        raise EncodingError("a varint is cut off")
    return found


def decode_partial(data: bytes | bytearray | memoryview, offset: int, end: int) -> tuple[int, int] | None:
    """As `decode`, but None when more bytes are needed."""
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
