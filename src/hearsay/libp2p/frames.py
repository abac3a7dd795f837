"""Length-prefixed frames: an unsigned varint with the length, then the bytes. Many protocols of libp2p use them.

A `FrameReader` receives the bytes of a stream piece by piece and returns complete frames. It refuses a length above
its limit as soon as it has read the length. A frame takes memory only for the received bytes, not for the declared
length. The received bytes of an incomplete frame are reserved in the budget of the reader, if there is one.
"""

from __future__ import annotations

from hearsay.libp2p.names.errors import EncodingError, FrameError
from hearsay.libp2p.names.protobuf import decode_partial, encode
from hearsay.libp2p.resources import Budget


def frame(payload: bytes) -> bytes:
    return encode(len(payload)) + payload


class FrameReader:
    """A reader of frames. `receive` adds bytes and returns all complete frames.

    Alternatively, `feed` adds bytes, and then each call of `next_frame` returns a frame, until it returns None.
    """

    def __init__(self, limit: int, budget: Budget | None = None) -> None:
        self._limit = limit
        self._data = b""
        self._offset = 0
        """Offset in `_data` of the next frame."""
        self._budget = budget
        self._buffer = bytearray()
        """The received bytes of an incomplete frame, after `next_frame` has returned all earlier frames."""
        self._needed = 1
        """Size in bytes of the incomplete frame with its length prefix; 1 as long as the prefix is incomplete."""

    @property
    def may_have_frame(self) -> bool:
        """Return False if `next_frame` would certainly return None."""
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        """Add received bytes. Raises `FrameError` if the budget has no room for them."""
        if self._data:
            self._data = self._data[self._offset :] + data
        elif not self._buffer:
            self._data = data
        else:
            if len(self._buffer) + len(data) < self._needed:
                self._hold(data)
                return
            self._data = b"".join((self._buffer, data))
            if self._budget is not None:
                self._budget.release(len(self._buffer))
            self._buffer.clear()
        self._offset = 0

    def next_frame(self) -> bytes | None:
        """Return the next frame; None if it is incomplete.

        Raises `FrameError` if its length is malformed or above the limit, or if the budget has no room for its bytes.
        """
        data, offset = self._data, self._offset
        end = len(data)
        if offset == end:
            self._data = b""
            self._offset = 0
            return None
        length, start = data[offset], offset + 1
        if length >= 0x80:
            try:
                found = decode_partial(data, offset, end)
            except EncodingError as error:
                raise FrameError(str(error)) from None
            if found is None:
                return self._keep(1)
            length, start = found
        if length > self._limit:
            raise FrameError(f"a frame of {length} bytes; at most {self._limit} are allowed")
        stop = start + length
        if stop > end:
            return self._keep(stop - offset)
        self._offset = stop
        return data[start:stop]

    def receive(self, data: bytes) -> list[bytes]:
        """Add received bytes, and return the frames that they complete. Raises `FrameError` as `next_frame` does."""
        self.feed(data)
        frames: list[bytes] = []
        while (found := self.next_frame()) is not None:
            frames.append(found)
        return frames

    def rest(self) -> bytes:
        """Return the received bytes after the last returned frame."""
        return self._data[self._offset :] or bytes(self._buffer)

    def forget_budget(self) -> None:
        """Stop reserving bytes, because the budget is closed."""
        self._budget = None

    def _keep(self, needed: int) -> None:
        self._hold(self._data[self._offset :] if self._offset else self._data)
        self._needed = needed
        self._data = b""
        self._offset = 0

    def _hold(self, data: bytes) -> None:
        if self._budget is not None and not self._budget.reserve(len(data)):
            raise FrameError(f"no room for {len(data)} bytes of a frame")
        self._buffer += data
