"""Traces of go-libp2p-pubsub: streams of delimited protobuf, and lines of JSON, which are converted to such a stream.

Rules of streams, which are decoded in pieces, so that memory is bounded:

* A stream consists of delimited TraceEvents, or of delimited TraceEventBatches if a remote tracer has written it. The
  first bytes of the stream show which of the two it has.
* Bytes that remain at the end are a truncated event. Then the whole stream is refused.
* The records (`records.py`) of a stream have times in nanoseconds, and message ids in hexadecimal.

Rules of JSON, with one event per line:

* `type` is a number in files of Go's encoding/json, and a name in files of protojson. Names of all versions are
  accepted: ADD_PEER with `addPeer` before v0.16, ON_NEW_OUTBOUND_STREAM with `onNewOutboundStream` from v0.16 on.
* `timestamp` is in nanoseconds: a number, or a text in files of protojson, which writes every int64 as a text.
* Bytes (`peerID`, `messageID`, `receivedFrom`, …) are in base64.
* Before September 2020, messages had a list `topics`. Its last topic is used, as today's protobuf readers do.
* Unknown keys are skipped, as unknown protobuf fields are. A known key with a value of the wrong type is an error.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from hearsay.ingest.event_decoder import (
    MAX_MESSAGE,
    NEED_MORE,
    NO_ROOM,
    PROBLEMS,
    TYPES,
    DecodedRows,
    decode,
    rows_needed,
)
from hearsay.ingest.protobuf_fields import SPAN_BITS, Data, Numbers, copy_spans
from hearsay.ingest.records import BadSource, coded, empty_rows, peer_name, records, texts
from hearsay.libp2p.names.protobuf import bytes_field, encode, varint_field
from hearsay.trace.folder.arrow import pa
from hearsay.trace.language.schema import NONE, WIDTH, Column

_TYPES = {name: number for number, (names, *_) in enumerate(TYPES) for name in names}

_Encoder: TypeAlias = Callable[[Any], bytes | int]
"""A function that encodes a value of JSON.

Its result is written as a varint (int) or as a delimited field (bytes).
"""


class _Field(NamedTuple):
    number: int
    encode: _Encoder
    repeated: bool = False


_Fields: TypeAlias = dict[str, _Field]
_many = partial(_Field, repeated=True)


def protobuf_of_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the event of each line as delimited protobuf. Raises `BadSource` at the first line that is not an
    event."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = _message(_EVENT, json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if not line.endswith(b"\n"):
                raise BadSource(f"truncated: line {number} has no end") from None
            raise BadSource(f"line {number} is not a trace event ({_short(error)})") from None
        yield encode(len(event)) + event


def _short(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return text if len(text) <= 80 else text[:79] + "…"


def _message(fields: _Fields, value: object) -> bytes:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, not {json.dumps(value):.40}")
    parts: list[bytes] = []
    for key, inner in cast("dict[str, object]", value).items():
        field = fields.get(key)
        if field is None or inner is None:
            continue
        if not field.repeated:
            parts.append(_encoded(field, inner))
        elif isinstance(inner, list):
            parts += (_encoded(field, each) for each in cast("list[object]", inner))
        else:
            raise TypeError(f"{key} is not a list")
    return b"".join(parts)


def _encoded(field: _Field, value: object) -> bytes:
    data = field.encode(value)
    return varint_field(field.number, data) if isinstance(data, int) else bytes_field(field.number, data)


def _type(value: object) -> int:
    return _TYPES[value] if isinstance(value, str) else _whole(value)


def _time(value: object) -> int:
    return _whole(int(value) if isinstance(value, str) else value)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not in 0…2^64 - 1")
    return value


def _truth(value: object) -> int:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return int(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not base64")
    return a2b_base64(value, strict_mode=bool(value))


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value.encode("utf-8", "surrogatepass")


def _last_text(value: object) -> bytes:
    if not isinstance(value, list) or not value:
        raise TypeError("topics must be a list with at least one topic")
    return _text(cast("list[object]", value)[-1])


def _object(**fields: _Field) -> _Encoder:
    return lambda value: _message(fields, value)


def _topics(number: int) -> dict[str, _Field]:
    return {"topic": _Field(number, _text), "topics": _Field(number, _last_text)}


_ID, _FROM = _Field(1, _bytes), _Field(2, _bytes)
_PUBLISHED = _object(messageID=_ID, **_topics(2))
_META = _object(
    messages=_many(1, _PUBLISHED),
    subscription=_many(2, _object(subscribe=_Field(1, _truth), topic=_Field(2, _text))),
    control=_Field(
        3,
        _object(
            ihave=_many(1, _object(topic=_Field(1, _text), messageIDs=_many(2, _bytes))),
            iwant=_many(2, _object(messageIDs=_many(1, _bytes))),
            graft=_many(3, _object(topic=_Field(1, _text))),
            prune=_many(4, _object(topic=_Field(1, _text), peers=_many(2, _bytes))),
            idontwant=_many(5, _object(messageIDs=_many(1, _bytes))),
        ),
    ),
)
_SENT = _object(sendTo=_ID, meta=_Field(2, _META))
_MESHED = _object(peerID=_ID, topic=_Field(2, _text))
_OPENED = _Field(8, _object(peerID=_ID, proto=_Field(2, _text)))
_CLOSED = _Field(9, _object(peerID=_ID))

_EVENT: _Fields = {
    "type": _Field(1, _type),
    "peerID": _Field(2, _bytes),
    "timestamp": _Field(3, _time),
    "publishMessage": _Field(4, _PUBLISHED),
    "rejectMessage": _Field(5, _object(messageID=_ID, receivedFrom=_FROM, reason=_Field(3, _text), **_topics(4))),
    "duplicateMessage": _Field(6, _object(messageID=_ID, receivedFrom=_FROM, **_topics(3))),
    "deliverMessage": _Field(7, _object(messageID=_ID, receivedFrom=_Field(3, _bytes), **_topics(2))),
    "addPeer": _OPENED,
    "onNewOutboundStream": _OPENED,
    "removePeer": _CLOSED,
    "onClosedOutboundStream": _CLOSED,
    "recvRPC": _Field(10, _object(receivedFrom=_ID, meta=_Field(2, _META))),
    "sendRPC": _Field(11, _SENT),
    "dropRPC": _Field(12, _SENT),
    "sendRPCCompleted": _Field(17, _object(sendTo=_ID, meta=_Field(2, _META), writeDurationNanos=_Field(3, _time))),
    "join": _Field(13, _object(topic=_Field(1, _text))),
    "leave": _Field(14, _object(topic=_Field(2, _text))),
    "graft": _Field(15, _MESHED),
    "prune": _Field(16, _MESHED),
}


_FIRST_ROOM, _USUAL_ROOM = 1 << 14, 1 << 20
"""Numbers of bytes of events whose rows fit into the buffer, at the start of a stream and later in a long stream."""

_BATCH_TAG, _EVENT_TAG = 0x0A, 0x08


def is_batched(head: bytes) -> bool:
    """Return True if a stream whose first bytes are `head` contains batches of events."""
    return _first_tag(head, len(head)) == _BATCH_TAG


def looks_like_events(head: bytes) -> bool:
    """Return True if `head` may be the first bytes of a stream: a length, then the first tag of an event or batch."""
    return _first_tag(head, 4) in (_BATCH_TAG, _EVENT_TAG)


def _first_tag(head: bytes, max_length_bytes: int) -> int | None:
    """Return the byte that follows the length of the first message; None if `head` has no such byte."""
    at = 0
    while at < min(len(head), max_length_bytes) and head[at] >= 0x80:
        at += 1
    return head[at + 1] if len(head) > at + 1 else None


def _room_for(length: int) -> DecodedRows:
    rows = rows_needed(length)
    return DecodedRows(
        np.empty((rows, WIDTH), dtype=np.int64), np.empty((rows, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)
    )


def decode_pieces(pieces: Iterable[bytes | memoryview], batched: bool, offset: int = 0) -> Iterator[Any]:
    """Yield the records of a stream in batches. Raises `BadSource` if a part of the stream cannot be read.

    `offset` is the offset of the stream in its file. It is added to the offsets in error messages.
    """
    rest, room, decoded = b"", _FIRST_ROOM, _room_for(_FIRST_ROOM)
    for piece in pieces:
        data = np.frombuffer(rest + bytes(piece) if rest else piece, dtype=np.uint8)
        at, size = 0, len(data)
        while at < size:
            status, at = decode(data, at, size, batched, decoded, room)
            events = int(decoded.filled[1])
            if events:
                yield _records(data, decoded)
            if status == NO_ROOM and (room < _USUAL_ROOM or not events):
                room = _USUAL_ROOM if room < _USUAL_ROOM else MAX_MESSAGE + 16
                decoded = _room_for(room)
            if status < 0:
                raise BadSource(f"{PROBLEMS[status]} at byte {offset + at}")
            if status == NEED_MORE:
                break
        offset += at
        rest = data[at:].tobytes()
    if rest:
        raise BadSource(f"truncated: an event at byte {offset} is cut off")


def _records(data: Data, decoded: DecodedRows) -> Any:
    """Return a batch with the records of the decoded events. An event without rows has one record as well."""
    filled, found = map(int, decoded.filled)
    events = decoded.events[:found]
    parts = np.bincount(decoded.rows[:filled, Column.PEER], minlength=found)
    event_of: Numbers = np.repeat(np.arange(found), np.maximum(parts, 1))
    rows = empty_rows(len(event_of))
    rows[parts[event_of] > 0] = decoded.rows[:filled]
    rows[:, Column.TIME_US] = events[event_of, 2]
    rows[:, Column.EVENT] = events[event_of, 1]
    return records(
        rows,
        np.arange(len(rows)) - np.searchsorted(event_of, event_of),
        peer=_names(data, events[event_of, 0], peer_name),
        remote=_names(data, rows[:, Column.REMOTE], peer_name),
        topic=_names(data, rows[:, Column.TOPIC], _as_text),
        message=_names(data, rows[:, Column.MESSAGE], bytes.hex),
        reason=_names(data, rows[:, Column.REASON], _as_text),
    )


def _as_text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _names(data: Data, spans: Numbers, text_of: Callable[[bytes], str]) -> Any:
    """Return a dictionary array with the names at these spans as texts, and null for -1."""
    present = spans >= 0
    named = spans[present]
    ends = np.cumsum(named & ((1 << SPAN_BITS) - 1))
    copied = np.empty(ends[-1] if len(ends) else 0, dtype=np.uint8)
    copy_spans(data, named, ends, copied)
    buffers = [None, pa.py_buffer(np.append(0, ends)), pa.py_buffer(copied)]
    encoded = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(named), buffers).dictionary_encode()
    codes = np.full(len(spans), NONE, dtype=np.int64)
    codes[present] = encoded.indices.to_numpy()
    return coded(codes, texts(map(text_of, encoded.dictionary.to_pylist())))
