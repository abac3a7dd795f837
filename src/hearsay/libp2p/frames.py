"""Length-prefixed frames: an unsigned varint, then so many bytes. Identify and pubsub speak in them.

`FrameReader.receive` takes any piece of the stream and returns the frames it completes. A length above the limit is
refused when it is read, before anything is stored for it; a length that is declared and never sent costs nothing.
"""

from __future__ import annotations

from hearsay.libp2p.errors import EncodingError, FrameError
from hearsay.libp2p.varint import decode_partial, encode


def frame(payload: bytes) -> bytes:
    return encode(len(payload)) + payload


class FrameReader:
    __slots__ = ("_buffer", "_limit", "_needed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._needed = 1
        """No frame can be complete before the buffer holds so many bytes."""

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def receive(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. `FrameError` when one is too long."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes] = []
        offset, end = 0, len(data)
        self._needed = 1
        while offset < end:
            length, start = data[offset], offset + 1
            if length >= 0x80:
                try:
                    found = decode_partial(data, offset, end)
                except EncodingError as error:
                    raise FrameError(str(error)) from None
                if found is None:
                    break
                length, start = found
            if length > self._limit:
                raise FrameError(f"a frame of {length} bytes; at most {self._limit} are allowed")
            stop = start + length
            if stop > end:
                self._needed = stop - offset
                break
            frames.append(data[start:stop])
            offset = stop
        if offset < end:
            self._buffer += data[offset:] if offset else data
        return frames
