"""Pubsub traces written by protobuf's own library, from declarations of the messages.

`plain_rows` makes the rows of an event in plain Python, with which the compiled decoder must agree.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed
from hypothesis import strategies as st
from protobuf_classes import FIELD, message_classes

from hearsay.core.language.rpc import PartKind
from hearsay.trace.language.schema import TraceEvent

TYPES = {
    "PUBLISH_MESSAGE": ("publishMessage", TraceEvent.PUBLISH),
    "REJECT_MESSAGE": ("rejectMessage", TraceEvent.REJECT),
    "DUPLICATE_MESSAGE": ("duplicateMessage", TraceEvent.DUPLICATE),
    "DELIVER_MESSAGE": ("deliverMessage", TraceEvent.DELIVER),
    "ADD_PEER": ("addPeer", TraceEvent.ADD_PEER),
    "REMOVE_PEER": ("removePeer", TraceEvent.REMOVE_PEER),
    "RECV_RPC": ("recvRPC", TraceEvent.RECV_RPC),
    "SEND_RPC": ("sendRPC", TraceEvent.SEND_RPC),
    "DROP_RPC": ("dropRPC", TraceEvent.DROP_RPC),
    "JOIN": ("join", TraceEvent.JOIN),
    "LEAVE": ("leave", TraceEvent.LEAVE),
    "GRAFT": ("graft", TraceEvent.GRAFT),
    "PRUNE": ("prune", TraceEvent.PRUNE),
    "SEND_RPC_COMPLETED": ("sendRPCCompleted", None),
}
"""Types of events in the order of their numbers, each with the field of its content and the event of its row."""
NAMES = list(TYPES)
CLASSES = message_classes("trace", {"Type": NAMES})
Event = CLASSES["TraceEvent"]
Batch = CLASSES["TraceEventBatch"]


def delimited(messages: list[Any]) -> bytes:
    data = BytesIO()
    for message in messages:
        serialize_length_prefixed(message, data)
    return data.getvalue()


def parse_delimited(data: bytes, batched: bool = False) -> list[Any]:
    """Return the events of a trace, or of its batches, as protobuf's own library decodes them."""
    events: list[Any] = []
    rest = BytesIO(data)
    while (message := parse_length_prefixed(Batch if batched else Event, rest)) is not None:
        events += message.batch if batched else [message]
    return events


RENAMED = {"addPeer": "onNewOutboundStream", "removePeer": "onClosedOutboundStream"}
LONG_NUMBERS = {"timestamp", "writeDurationNanos"}
"""Fields that protojson writes as texts."""
RENAMED_TYPES = {"ADD_PEER": "ON_NEW_OUTBOUND_STREAM", "REMOVE_PEER": "ON_CLOSED_OUTBOUND_STREAM"}


def json_line(event: Any, *, new_names: bool = False, protojson: bool = False) -> bytes:
    """Return an event as Go's JSON encoder writes it, or as protojson does."""
    fields = MessageToDict(event, preserving_proto_field_name=True, use_integers_for_enums=not protojson)
    if not protojson:
        for message in (fields, fields.get("sendRPCCompleted", {})):
            message.update((name, int(message[name])) for name in LONG_NUMBERS & message.keys())
    if new_names:
        fields = {RENAMED.get(key, key): value for key, value in fields.items()}
        fields["type"] = RENAMED_TYPES.get(fields["type"], fields["type"])
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def plain_rows(event: Any) -> list[tuple[Any, ...]]:
    """Return (time, event, kind, peer, remote, topic, message, count, reason) of each row of an event, names as
    bytes.
    """
    field, row_event = TYPES[NAMES[event.type]]
    if row_event is None:
        return []
    payload = getattr(event, field)

    def name(message: Any, *fields: str) -> bytes | None:
        for field in fields:
            if field in message.DESCRIPTOR.fields_by_name and message.HasField(field):
                value = getattr(message, field)
                return value.encode() if isinstance(value, str) else value
        return None

    remote = name(payload, "receivedFrom", "sendTo", "peerID") or None
    first = (event.timestamp, row_event)
    if "RPC" not in field:
        ids = name(payload, "topic"), name(payload, "messageID")
        return [(*first, None, event.peerID, remote, *ids, None, name(payload, "reason"))]
    parts: list[tuple[PartKind, bytes | None, bytes | None, int]] = []
    meta = payload.meta
    for each in meta.messages:
        parts.append((PartKind.PUBLISH, name(each, "topic"), name(each, "messageID"), 1))
    for each in meta.subscription:
        kind = PartKind.SUBSCRIBE if each.subscribe else PartKind.UNSUBSCRIBE
        parts.append((kind, name(each, "topic"), None, 1))
    control = meta.control
    parts += [(PartKind.IHAVE, name(each, "topic"), None, len(each.messageIDs)) for each in control.ihave]
    parts += [(PartKind.IWANT, None, None, len(each.messageIDs)) for each in control.iwant]
    parts += [(PartKind.GRAFT, name(each, "topic"), None, 1) for each in control.graft]
    parts += [(PartKind.PRUNE, name(each, "topic"), None, 1) for each in control.prune]
    parts += [(PartKind.IDONTWANT, None, None, len(each.messageIDs)) for each in control.idontwant]
    return [
        (*first, kind, event.peerID, remote, topic, message, count, None) for kind, topic, message, count in parts
    ]


_IDS = st.binary(min_size=0, max_size=40) | st.sampled_from([b"peer-%d" % number for number in range(5)])
_TEXTS = st.sampled_from(["news", "prices", "", "überall", "a" * 300]) | st.text('aé漢😀"\\\n\0<', max_size=8)


VALUES = {
    FIELD.TYPE_BYTES: _IDS, FIELD.TYPE_STRING: _TEXTS, FIELD.TYPE_BOOL: st.booleans(),
    FIELD.TYPE_INT64: st.integers(0, 2**63 - 1),
}  # fmt: skip


@st.composite
def _filled(draw: st.DrawFn, name: str) -> Any:
    message = CLASSES[name]()
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            target = getattr(message, field.name)
            if field.is_repeated:
                target.extend(draw(st.lists(_filled(field.message_type.name), max_size=3)))
            elif draw(st.booleans()):
                target.CopyFrom(draw(_filled(field.message_type.name)))
                target.SetInParent()
        else:
            values = VALUES[field.type]
            if field.is_repeated:
                getattr(message, field.name).extend(draw(st.lists(values, max_size=4)))
            elif draw(st.integers(0, 9)):
                setattr(message, field.name, draw(values))
    return message


@st.composite
def events(draw: st.DrawFn) -> Any:
    """Draw any event that a tracer could write, and some that no tracer writes."""
    number = draw(st.integers(0, len(TYPES) - 1))
    event = Event(type=number, peerID=draw(_IDS.filter(bool)), timestamp=draw(st.integers(0, 2**63 - 1)))
    payload, _ = TYPES[NAMES[number]]
    getattr(event, payload).CopyFrom(draw(_filled(payload[0].upper() + payload[1:])))
    getattr(event, payload).SetInParent()
    return event
