"""Streams of delimited protobuf events: bytes in, batches of rows out, memory bounded.

Rules:

* Rows carry nanoseconds and the unit's own numbers (`Identifiers`); `unit` turns them into what files hold.
* A stream of TraceEventBatch (what a remote tracer sends) is known by its first byte; a stream is of one kind.
* Bytes left over at the end are a truncated event: the stream is refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hearsay.ingest.decoding.errors import BadSource
from hearsay.ingest.decoding.event_decoder import (
    MAX_MESSAGE,
    NEED_MORE,
    NO_ROOM,
    PROBLEMS,
    DecodedRows,
    decode,
    rows_needed,
)
from hearsay.ingest.decoding.identifiers import Identifiers
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import WIDTH

Sink = Callable[[Rows], None]

_FIRST_ROOM, _USUAL_ROOM = 1 << 14, 1 << 20
"""Bytes of events that the buffer of rows has room for, at first and in a stream that is longer."""

_BATCH_TAG, _EVENT_TAG = 0x0A, 0x08


def is_batched(head: bytes) -> bool:
    """Whether a stream that begins with these bytes holds batches of events."""
    at = 0
    while at < len(head) and head[at] >= 0x80:
        at += 1
    return head[at + 1 : at + 2] == bytes([_BATCH_TAG])


def looks_like_events(head: bytes) -> bool:
    """Whether these bytes could begin a stream of delimited events: a length, then field 1 of event or batch."""
    at = 0
    while at < min(len(head), 4) and head[at] >= 0x80:
        at += 1
    return len(head) > at + 1 and head[at + 1] in (_BATCH_TAG, _EVENT_TAG)


def _room_for(length: int) -> DecodedRows:
    rows = rows_needed(length)
    return DecodedRows(
        np.empty((rows, WIDTH), dtype=np.int64), np.empty((rows, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)
    )


class ProtobufStream:
    """Decodes the pieces of one stream as they come."""

    def __init__(self, identifiers: Identifiers, sink: Sink, batched: bool, offset: int = 0) -> None:
        self._identifiers = identifiers
        self._sink = sink
        self._batched = batched
        self._offset = offset
        self._rest = b""
        self._room = _FIRST_ROOM
        self._decoded = _room_for(_FIRST_ROOM)

    def feed(self, piece: bytes | memoryview) -> None:
        data = np.frombuffer(self._rest + bytes(piece) if self._rest else piece, dtype=np.uint8)
        at, size = 0, len(data)
        while at < size:
            status, at = decode(data, at, size, self._batched, self._decoded, self._room)
            filled = int(self._decoded.filled[0])
            if self._decoded.filled[1]:
                self._identifiers.number(data, self._decoded)
                self._sink(self._decoded.rows[:filled])
            if status == NO_ROOM and self._room < _USUAL_ROOM:
                self._take_room(_USUAL_ROOM)
            elif status == NO_ROOM and not self._decoded.filled[1]:
                self._take_room(MAX_MESSAGE + 16)
            if status < 0:
                raise BadSource(f"{PROBLEMS[status]} at byte {self._offset + at}")
            if status == NEED_MORE:
                break
        self._offset += at
        self._rest = data[at:].tobytes()

    def _take_room(self, length: int) -> None:
        self._room = length
        self._decoded = _room_for(length)

    def finish(self) -> None:
        if self._rest:
            raise BadSource(f"truncated: an event at byte {self._offset} is cut off")


def decode_pieces(
    pieces: Iterable[bytes | memoryview], identifiers: Identifiers, sink: Sink, batched: bool, offset: int = 0
) -> None:
    """Decode a whole stream; BadSource if any of it is wrong."""
    stream = ProtobufStream(identifiers, sink, batched, offset)
    for piece in pieces:
        stream.feed(piece)
    stream.finish()
