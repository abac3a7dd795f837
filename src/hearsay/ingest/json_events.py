"""go-libp2p-pubsub's JSON trace, one event a line, put into protobuf: then one decoder serves both.

What Go's encoder writes, and what is taken besides:

* `type` is a number (gogo's enums have no JSON name of their own); protojson writes the name. Names of before and
  after v0.16 are taken: ADD_PEER or ON_NEW_OUTBOUND_STREAM, with `addPeer` or `onNewOutboundStream`.
* `timestamp` is a number of nanoseconds; protojson writes it as text, for it is an int64.
* Bytes (`peerID`, `messageID`, `receivedFrom`, …) are base64; texts are texts.
* Before September 2020 messages had `topics`, a list. Protobuf readers of today take the last; so does this.
* Unknown keys are skipped, as unknown protobuf fields are. A key known with a value of the wrong type is corrupt.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from hearsay.ingest.errors import BadSource

_TYPES = {
    name: number
    for number, names in enumerate(
        [
            ("PUBLISH_MESSAGE",),
            ("REJECT_MESSAGE",),
            ("DUPLICATE_MESSAGE",),
            ("DELIVER_MESSAGE",),
            ("ADD_PEER", "ON_NEW_OUTBOUND_STREAM"),
            ("REMOVE_PEER", "ON_CLOSED_OUTBOUND_STREAM"),
            ("RECV_RPC",),
            ("SEND_RPC",),
            ("DROP_RPC",),
            ("JOIN",),
            ("LEAVE",),
            ("GRAFT",),
            ("PRUNE",),
        ]
    )
    for name in names
}

_Encoder: TypeAlias = Callable[[Any], bytes]
_Fields: TypeAlias = dict[str, tuple[int, _Encoder]]


def protobuf_of_lines(lines: Iterable[bytes], first_line: int = 1) -> Iterator[bytes]:
    """The delimited protobuf of each line; BadSource at the first that is no event."""
    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        if not line.endswith(b"\n"):
            raise BadSource(f"truncated: line {number} has no end")
        try:
            event = _message(_EVENT, json.loads(line))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise BadSource(f"line {number} is not a trace event ({_short(error)})") from None
        yield _varint(len(event)) + event


def _short(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return text if len(text) <= 80 else text[:79] + "…"


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes((value,))
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is out of range")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(fields: _Fields, value: object) -> bytes:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} instead of an object")
    parts: list[bytes] = []
    for key, inner in cast("dict[str, object]", value).items():
        field = fields.get(key)
        if field is None or inner is None:
            continue
        number, encode = field
        if encode is _type or encode is _time or encode is _truth:
            parts += (_varint(number << 3), encode(inner))
        elif encode is _last_text:
            if inner:
                parts.append(_delimited(number, encode(inner)))
        elif key in _REPEATED:
            if not isinstance(inner, list):
                raise TypeError(f"{key} is not a list")
            parts += (_delimited(number, encode(each)) for each in cast("list[object]", inner))
        else:
            parts.append(_delimited(number, encode(inner)))
    return b"".join(parts)


def _delimited(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _type(value: object) -> bytes:
    if isinstance(value, str):
        return _varint(_TYPES[value])
    return _whole(value)


def _time(value: object) -> bytes:
    return _whole(int(value) if isinstance(value, str) else value)


def _whole(value: object) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return _varint(value)


def _truth(value: object) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return b"\1" if value else b"\0"


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not base64")
    return a2b_base64(value, strict_mode=bool(value))


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value.encode("utf-8", "surrogatepass")


def _last_text(value: object) -> bytes:
    if not isinstance(value, list):
        raise TypeError("topics is not a list")
    return _text(cast("list[object]", value)[-1])


def _of(fields: _Fields) -> _Encoder:
    return lambda value: _message(fields, value)


_REPEATED = {"messages", "subscription", "ihave", "iwant", "graft", "prune", "idontwant", "messageIDs", "peers"}

_MESSAGE_META: _Fields = {"messageID": (1, _bytes), "topic": (2, _text), "topics": (2, _last_text)}
_SUBSCRIPTION: _Fields = {"subscribe": (1, _truth), "topic": (2, _text)}
_CONTROL: _Fields = {
    "ihave": (1, _of({"topic": (1, _text), "messageIDs": (2, _bytes)})),
    "iwant": (2, _of({"messageIDs": (1, _bytes)})),
    "graft": (3, _of({"topic": (1, _text)})),
    "prune": (4, _of({"topic": (1, _text), "peers": (2, _bytes)})),
    "idontwant": (5, _of({"messageIDs": (1, _bytes)})),
}
_META: _Fields = {
    "messages": (1, _of(_MESSAGE_META)),
    "subscription": (2, _of(_SUBSCRIPTION)),
    "control": (3, _of(_CONTROL)),
}
_STREAM_OPENED = (8, _of({"peerID": (1, _bytes), "proto": (2, _text)}))
_STREAM_CLOSED = (9, _of({"peerID": (1, _bytes)}))
_MESHED = _of({"peerID": (1, _bytes), "topic": (2, _text)})
_SENT = _of({"sendTo": (1, _bytes), "meta": (2, _of(_META))})
_EVENT: _Fields = {
    "type": (1, _type),
    "peerID": (2, _bytes),
    "timestamp": (3, _time),
    "publishMessage": (4, _of(_MESSAGE_META)),
    "rejectMessage": (
        5,
        _of(
            {
                "messageID": (1, _bytes),
                "receivedFrom": (2, _bytes),
                "reason": (3, _text),
                "topic": (4, _text),
                "topics": (4, _last_text),
            }
        ),
    ),
    "duplicateMessage": (
        6,
        _of({"messageID": (1, _bytes), "receivedFrom": (2, _bytes), "topic": (3, _text), "topics": (3, _last_text)}),
    ),
    "deliverMessage": (
        7,
        _of({"messageID": (1, _bytes), "topic": (2, _text), "topics": (2, _last_text), "receivedFrom": (3, _bytes)}),
    ),
    "addPeer": _STREAM_OPENED,
    "onNewOutboundStream": _STREAM_OPENED,
    "removePeer": _STREAM_CLOSED,
    "onClosedOutboundStream": _STREAM_CLOSED,
    "recvRPC": (10, _of({"receivedFrom": (1, _bytes), "meta": (2, _of(_META))})),
    "sendRPC": (11, _SENT),
    "dropRPC": (12, _SENT),
    "join": (13, _of({"topic": (1, _text)})),
    "leave": (14, _of({"topic": (2, _text)})),
    "graft": (15, _MESHED),
    "prune": (16, _MESHED),
}
