"""The compiled decoder from the protobuf bytes of go-libp2p-pubsub's `TraceEvent` (pb/trace.proto) to trace rows.

Rules:

* The decoder reads only bytes inside the given range (`protobuf_fields.py`).
* An event has a type, a peer, a time and the payload of its type, each exactly once. An event that lacks or repeats
  one of these is an error, and so is an event of an unknown type. Fields that this version does not know are skipped.
* Versions of go-libp2p-pubsub differ in names only: v0.16 renamed ADD_PEER and REMOVE_PEER to ON_NEW_OUTBOUND_STREAM
  and ON_CLOSED_OUTBOUND_STREAM, with the same numbers. Events before August 2020 may lack topics, and events before
  2021 may lack senders. Rows of such events have no topic, or no remote peer.
* SEND_RPC_COMPLETED (v0.19) is checked but makes no rows. The SEND_RPC of the same RPC has made a row for each part,
  at the time when the RPC entered the queue of the peer. A second row would count each part twice.
* Names are read in two steps, for speed. In place of a name, `decode` writes a span into a row: the offset and the
  length of the name's bytes, in one number (`SPAN_BITS`). Later `pubsub_traces` reads the names at the spans.
* The caller allocates arrays for the worst case (`rows_needed`), so that no array has to grow.
* A function that writes rows returns the index of the next row, or a problem: a negative status of `PROBLEMS`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.ingest.protobuf_fields import SPAN_BITS, Data, Numbers, field, texts, varint
from hearsay.trace.language.compiled_code import compiled
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column, TraceEvent

MAX_MESSAGE = 1 << 22
"""Maximum size of a delimited message in bytes: the limit of go-libp2p-pubsub-tracer for a batch of events."""

DONE, NEED_MORE, NO_ROOM = 0, 1, 2
TOO_LONG, CORRUPT, UNKNOWN_TYPE, INCOMPLETE = -1, -2, -3, -4

PROBLEMS = {
    TOO_LONG: f"an event or batch longer than {MAX_MESSAGE} bytes",
    CORRUPT: "not the protobuf of a TraceEvent",
    UNKNOWN_TYPE: "an event of unknown type",
    INCOMPLETE: "an event without type, peer, time or the payload of its type",
}


class DecodedRows(NamedTuple):
    """Arrays for the results of `decode`.

    In `rows`, the column PEER has the index of the row's event in `events`, and other columns of names have spans.
    The peer, the time and the type of an event are only in `events`.
    """

    rows: Rows
    events: Numbers
    """For each event: the span of its peer's name, its `TraceEvent` or `_NO_ROWS`, and its time."""
    filled: Numbers
    """Two numbers: how many rows of the array `rows` are filled, and how many of `events`."""


def rows_needed(length: int) -> int:
    """Return a bound for the number of rows, and of events, in `length` bytes. Each part has at least two bytes."""
    return length // 2 + 1


_NO_ROWS = -1
"""The number in place of a TraceEvent for an event that makes no rows."""

TYPES = (
    (("PUBLISH_MESSAGE",), TraceEvent.PUBLISH, (1, 0, 2, 0)),
    (("REJECT_MESSAGE",), TraceEvent.REJECT, (1, 2, 4, 3)),
    (("DUPLICATE_MESSAGE",), TraceEvent.DUPLICATE, (1, 2, 3, 0)),
    (("DELIVER_MESSAGE",), TraceEvent.DELIVER, (1, 3, 2, 0)),
    (("ADD_PEER", "ON_NEW_OUTBOUND_STREAM"), TraceEvent.ADD_PEER, (0, 1, 0, 0)),
    (("REMOVE_PEER", "ON_CLOSED_OUTBOUND_STREAM"), TraceEvent.REMOVE_PEER, (0, 1, 0, 0)),
    (("RECV_RPC",), TraceEvent.RECV_RPC, (0, 1, 0, 0)),
    (("SEND_RPC",), TraceEvent.SEND_RPC, (0, 1, 0, 0)),
    (("DROP_RPC",), TraceEvent.DROP_RPC, (0, 1, 0, 0)),
    (("JOIN",), TraceEvent.JOIN, (0, 0, 1, 0)),
    (("LEAVE",), TraceEvent.LEAVE, (0, 0, 2, 0)),
    (("GRAFT",), TraceEvent.GRAFT, (0, 1, 2, 0)),
    (("PRUNE",), TraceEvent.PRUNE, (0, 1, 2, 0)),
    (("SEND_RPC_COMPLETED",), _NO_ROWS, (0, 1, 0, 0)),
)
"""An entry for each TraceEvent.Type of trace.proto: its names before and after v0.16, the event of its rows, and the
numbers of the payload's fields for message id, remote peer, topic and reason (0: the payload has no such field)."""
_EVENT = np.array([event for _, event, _ in TYPES], dtype=np.int64)
_FIELDS = np.array([fields for _, _, fields in TYPES], dtype=np.int64)

_FIRST_RPC, _LAST_RPC, _SEND_COMPLETED = 6, 8, 13
_WRITE_DURATION_TAG = 24

_PARTS = np.array(
    [
        [PartKind.IHAVE, 1, 2],
        [PartKind.IWANT, 0, 1],
        [PartKind.GRAFT, 1, 0],
        [PartKind.PRUNE, 1, 0],
        [PartKind.IDONTWANT, 0, 1],
    ],
    dtype=np.int64,
)
"""Row n - 1 is about field n of ControlMeta. It has the kind of the part, and the numbers of the part's fields for
the topic and for ids (0: the part has no such field). The ids are counted."""

_K_PUBLISH, _K_SUBSCRIBE, _K_UNSUBSCRIBE = int(PartKind.PUBLISH), int(PartKind.SUBSCRIBE), int(PartKind.UNSUBSCRIBE)
_PEER, _REMOTE, _KIND, _TOPIC = int(Column.PEER), int(Column.REMOTE), int(Column.KIND), int(Column.TOPIC)
_MESSAGE, _COUNT, _REASON = int(Column.MESSAGE), int(Column.COUNT), int(Column.REASON)


@compiled
def _span(start: int, length: int) -> int:
    return -1 if start < 0 else start << SPAN_BITS | length


@compiled
def _named(spans: Numbers, number: int) -> int:
    return _span(spans[number, 0], spans[number, 1])


@compiled
def _put(rows: Rows, n: int, event: int, remote: int, kind: int, topic: int, message: int, count: int) -> int:
    """Write row `n`, which belongs to the event with the index `event`. Returns the index of the next row."""
    rows[n, :] = -1
    rows[n, _PEER] = event
    rows[n, _REMOTE] = remote
    rows[n, _KIND] = kind
    rows[n, _TOPIC] = topic
    rows[n, _MESSAGE] = message
    rows[n, _COUNT] = count
    return n + 1


@compiled
def _control(data: Data, at: int, end: int, rows: Rows, n: int, event: int, remote: int) -> int:
    """Write a row for each part of a ControlMeta. Returns the index of the next row, or a problem."""
    while at < end:
        tag, start, length, at = field(data, at, end)
        if at < 0:
            return CORRUPT
        if tag >> 3 > 5:
            continue
        if tag & 7 != 2:
            return CORRUPT
        part = _PARTS[(tag >> 3) - 1]
        kind, topic_field, ids_field = part[0], part[1], part[2]
        topic, count = -1, 0
        inner, inner_end = start, start + length
        while inner < inner_end:
            inner_tag, inner_start, inner_length, inner = field(data, inner, inner_end)
            if inner < 0:
                return CORRUPT
            number = inner_tag >> 3
            if number == topic_field:
                if inner_tag & 7 != 2:
                    return CORRUPT
                topic = _span(inner_start, inner_length)
            elif number == ids_field:
                if inner_tag & 7 != 2:
                    return CORRUPT
                count += 1
        n = _put(rows, n, event, remote, kind, topic, -1, count if ids_field else 1)
    return n


@compiled
def _subscription(data: Data, at: int, end: int) -> tuple[int, int]:
    """Return the kind of a SubMeta (or CORRUPT), and the span of its topic (-1: no topic)."""
    kind, topic = _K_UNSUBSCRIBE, -1
    while at < end:
        tag, value, length, at = field(data, at, end)
        if at < 0:
            return CORRUPT, -1
        if tag == 8:
            kind = _K_SUBSCRIBE if value else _K_UNSUBSCRIBE
        elif tag == 18:
            topic = _span(value, length)
        elif tag >> 3 <= 2:
            return CORRUPT, -1
    return kind, topic


@compiled
def _rpc(data: Data, at: int, end: int, rows: Rows, n: int, event: int, remote: int, spans: Numbers) -> int:
    """Write a row for each part of an RPCMeta. Returns the index of the next row, or a problem."""
    while at < end:
        tag, start, length, at = field(data, at, end)
        if at < 0:
            return CORRUPT
        number = tag >> 3
        if number > 3:
            continue
        if tag & 7 != 2:
            return CORRUPT
        if number == 3:
            n = _control(data, start, start + length, rows, n, event, remote)
            if n < 0:
                return n
            continue
        kind, topic, message = _K_PUBLISH, -1, -1
        if number == 1:
            if not texts(data, start, start + length, spans, 0):
                return CORRUPT
            message, topic = _named(spans, 1), _named(spans, 2)
        else:
            kind, topic = _subscription(data, start, start + length)
            if kind < 0:
                return CORRUPT
        n = _put(rows, n, event, remote, kind, topic, message, 1)
    return n


@compiled
def _event(data: Data, at: int, end: int, rows: Rows, n: int, events: Numbers, number: int, spans: Numbers) -> int:
    """Write the rows of a TraceEvent, and row `number` of `events`. Returns the index of the next row, or a
    problem."""
    kind, time = -1, -1
    peer_start, peer_length = -1, 0
    payload, payload_start, payload_end = -1, 0, 0
    while at < end:
        tag, value, length, at = field(data, at, end)
        if at < 0:
            return CORRUPT
        if tag == 8:
            if kind >= 0:
                return CORRUPT
            if value < 0 or value > _SEND_COMPLETED:
                return UNKNOWN_TYPE
            kind = value
        elif tag == 18:
            if peer_start >= 0:
                return CORRUPT
            peer_start, peer_length = value, length
        elif tag == 24:
            if time >= 0 or value < 0:
                return CORRUPT
            time = value
        elif tag >> 3 <= 17:
            if tag >> 3 < 4 or tag & 7 != 2 or payload >= 0:
                return CORRUPT
            payload, payload_start, payload_end = (tag >> 3) - 4, value, value + length
    if kind < 0 or time < 0 or peer_length == 0 or payload != kind:
        return INCOMPLETE
    events[number, 0] = _span(peer_start, peer_length)
    events[number, 1] = _EVENT[kind]
    events[number, 2] = time
    if not texts(data, payload_start, payload_end, spans, _WRITE_DURATION_TAG if kind == _SEND_COMPLETED else 0):
        return CORRUPT
    fields = _FIELDS[kind]
    remote = _named(spans, fields[1]) if spans[fields[1], 1] else -1
    if _FIRST_RPC <= kind <= _LAST_RPC or kind == _SEND_COMPLETED:
        meta, length = spans[2, 0], spans[2, 1]
        stop = n if meta < 0 else _rpc(data, meta, meta + length, rows, n, number, remote, spans)
        return n if kind == _SEND_COMPLETED and stop >= 0 else stop
    stop = _put(rows, n, number, remote, -1, _named(spans, fields[2]), _named(spans, fields[0]), -1)
    rows[n, _REASON] = _named(spans, fields[3])
    return stop


@compiled
def _batch(
    data: Data, at: int, end: int, rows: Rows, n: int, events: Numbers, number: int, spans: Numbers
) -> tuple[int, int]:
    """Write the rows of a TraceEventBatch. Returns the index of the next row (or a problem) and of the next event."""
    while at < end:
        tag, start, length, at = field(data, at, end)
        if at < 0 or tag != 10:
            return CORRUPT, number
        n = _event(data, start, start + length, rows, n, events, number, spans)
        if n < 0:
            return n, number
        number += 1
    return n, number


@compiled
def _next_message(data: Data, at: int, end: int) -> tuple[int, int, int]:
    """Return a status, and the start and the end of the delimited message whose length is at offset `at`."""
    length, start = varint(data, at, end)
    if start < 0:
        return (CORRUPT if end - at >= 10 else NEED_MORE), 0, 0
    if length < 0 or length > MAX_MESSAGE:
        return TOO_LONG, 0, 0
    if length > end - start:
        return NEED_MORE, 0, 0
    return DONE, start, start + length


@compiled
def decode(data: Data, at: int, end: int, batched: bool, decoded: DecodedRows, room: int) -> tuple[int, int]:
    """Decode the delimited messages in `data[at:end]`, and write their events and rows into `decoded`.

    Stop before a message that is incomplete or has a problem, and before the decoded messages have more than `room`
    bytes. Returns a status, and the offset of the first message that was not decoded.
    """
    spans = np.empty((5, 2), dtype=np.int64)
    rows, events, filled = decoded.rows, decoded.events, decoded.filled
    n, number, status = 0, 0, DONE
    while at < end:
        status, start, stop = _next_message(data, at, end)
        if status != DONE:
            break
        length = stop - start
        if length + 2 > room:
            status = NO_ROOM
            break
        room -= length + 2
        if batched:
            next_row, next_number = _batch(data, start, stop, rows, n, events, number, spans)
        else:
            next_row, next_number = _event(data, start, stop, rows, n, events, number, spans), number + 1
        if next_row < 0:
            status = next_row
            break
        n, number, at = next_row, next_number, stop
    filled[0] = n
    filled[1] = number
    return status, at


@compiled
def message_ends(data: Data, at: int, step: int, ends: Numbers) -> tuple[int, int, int]:
    """Find ends of delimited messages that are about `step` bytes apart, and write their offsets to `ends`.

    The search begins at offset `at`. Each end in `ends` is the first end of a message that is at least `step` bytes
    after the previous one. Returns a status, the offset at which the search stopped, and the number of ends.
    """
    found, wanted, size = 0, at + step, len(data)
    while at < size:
        status, _, stop = _next_message(data, at, size)
        if status != DONE:
            return status, at, found
        at = stop
        if at >= wanted and found < len(ends):
            ends[found] = at
            found += 1
            wanted = at + step
    return DONE, at, found
