"""Length-prefixed frames: an unsigned varint, then so many bytes. Identify and pubsub speak in them.

`FrameReader.receive` takes any piece of the stream and returns the frames it completes. A length above the limit is
refused when it is read, before anything is stored for it; a length that is declared and never sent costs nothing.
What came of a frame that is not complete is reserved in the reader's budget, if it has one.
"""

from __future__ import annotations

from hearsay.libp2p.errors import EncodingError, FrameError
from hearsay.libp2p.resources import Budget
from hearsay.libp2p.varint import decode_partial, encode


def frame(payload: bytes) -> bytes:
    return encode(len(payload)) + payload


class FrameReader:
    __slots__ = ("_budget", "_buffer", "_limit", "_needed")

    def __init__(self, limit: int, budget: Budget | None = None) -> None:
        self._limit = limit
        self._budget = budget
        self._buffer = bytearray()
        self._needed = 1
        """No frame can be complete before the buffer holds so many bytes."""

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def receive(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. `FrameError` when one is too long, or there is no room for its part."""
        if self._buffer:
            if len(self._buffer) + len(data) < self._needed:
                self._keep(data)
                return []
            data = b"".join((self._buffer, data))
            if self._budget is not None:
                self._budget.release(len(self._buffer))
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
            self._keep(data[offset:] if offset else data)
        return frames

    def _keep(self, data: bytes) -> None:
        if self._budget is not None and not self._budget.reserve(len(data)):
            raise FrameError(f"no room for {len(data)} bytes of a frame")
        self._buffer += data
