"""Decoding of messages from protobuf bytes, and message ids.

* A message keeps its encoded bytes, so that it is forwarded as it was signed. If these bytes are not canonical, the
  message keeps the canonical encoding instead, which other implementations verify and forward.
* Unknown fields are dropped; `has_more` records this. A malformed message is left out, but the rest of the RPC
  counts, because older versions of go relay unknown fields that no other implementation can read.

In go-libp2p-pubsub and py-libp2p, the default message id is author and sequence number. In others it is different,
so all nodes of a mixed network need the same function. Unsigned messages have no author and no sequence number, so
their id is a hash of topic and data: the same data in two topics are two messages. If other implementations in the
network hash only the data, use `by_data` and do not publish the same data in two topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.rpc import Message
from hearsay.core.language.sizes import varint_size
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, walk
from hearsay.wire.encode import field
from hearsay.wire.fields import RpcLimits, is_hops

MessageIdFunction: TypeAlias = Callable[[str, bytes | None, bytes | None, bytes], bytes]
"""Computes a message's id from topic, source, sequence number and data."""

_message = fast_init(Message)


def short_length(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint length at `offset` and the offset after it.

    Return (0, 0) unless the length is below 16 KiB and in its shortest form.
    """
    first = data[offset : offset + 2]
    if not first:
        return 0, 0
    if first[0] < 0x80:
        return first[0], offset + 1
    if len(first) < 2 or not 0 < first[1] < 0x80:
        return 0, 0
    return first[0] & 0x7F | first[1] << 7, offset + 2


def usual_message(
    data: bytes, start: int, stop: int, message_id: MessageIdFunction, limits: RpcLimits
) -> Message | None:
    """Return a message whose fields are known, below 16 KiB, in order and in their shortest form; None for others.

    `_unusual_message` returns the same message, but takes three times as long.
    """
    values: list[bytes | None] = [None] * 7
    last = 0
    offset = start
    while offset < stop:
        key = data[offset]
        number = key >> 3
        if key & 7 != DELIMITED or not last < number < 7:
            return None
        begin = offset + 2
        if begin > stop:
            return None
        length = data[offset + 1]
        if length >= 0x80:
            length, begin = short_length(data, offset + 1)
            if not begin:
                return None
        offset = begin + length
        if offset > stop:
            return None
        values[number] = data[begin:offset]
        last = number
    return _made(values, data[start:stop], False, message_id, limits)


def _made(
    values: list[bytes | None], encoded: bytes, has_more: bool, message_id: MessageIdFunction, limits: RpcLimits
) -> Message | None:
    """Return a message; None if its topic is missing or malformed, or its topic or id is too long.

    `values` has the fields by their numbers.
    """
    _, source, payload, seqno, topic, signature, key = values
    name = topic_name(topic, limits)
    if name is None:
        return None
    content = payload or b""
    number = message_id(name, source, seqno, content)
    if len(number) > limits.max_id_bytes:
        return None
    return _message(number, name, content, source, seqno, signature, key, encoded, None, has_more)


def decode_message(
    data: bytes, start: int, stop: int, message_id: MessageIdFunction, limits: RpcLimits
) -> Message | None:
    """Return the message at `start` … `stop`; None if it is malformed, or its topic or id is missing or too long."""
    usual = usual_message(data, start, stop, message_id, limits)
    if usual is not None:
        return usual
    try:
        return _unusual_message(data, start, stop, message_id, limits)
    except EncodingError:
        return None


def _unusual_message(
    data: bytes, start: int, stop: int, message_id: MessageIdFunction, limits: RpcLimits
) -> Message | None:
    values: list[bytes | None] = [None] * 7
    last = size = 0
    ordered, has_more = True, False
    for number, wire_type, begin, end in walk(data, start, stop):
        known = wire_type == DELIMITED and number < 7
        ordered = ordered and known and number > last
        has_more = has_more or not known
        if known:
            values[number] = data[begin:end]
            last = number
            size += 1 + varint_size(end - begin) + end - begin
    if ordered and size == stop - start:
        encoded = data[start:stop]
    else:
        encoded = b"".join([field(number, value) for number, value in enumerate(values) if value is not None])
    return _made(values, encoded, has_more, message_id, limits)


def with_hops(data: bytes, start: int, stop: int, message: Message | None) -> Message | None:
    """Return the message with the hop count of episub, which is not part of its signed bytes."""
    if message is None:
        return None
    for number, wire_type, value, _ in walk(data, start, stop):
        if is_hops(number) and wire_type == VARINT:
            message = replace(message, hops=value, has_more=False)
    return message


def topic_name(topic: bytes | None, limits: RpcLimits) -> str | None:
    try:
        return None if topic is None or len(topic) > limits.max_topic_bytes else topic.decode()
    except UnicodeDecodeError:
        return None


def by_author(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Return author and sequence number as the id; if both are missing, the id by `by_content`."""
    if source is None and seqno is None:
        return by_content(topic, source, seqno, data)
    return (source or b"") + (seqno or b"")


def by_content(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Return the SHA-256 hash of the topic's length (eight bytes, big endian), the topic and the data."""
    name = topic.encode()
    return sha256(b"".join((len(name).to_bytes(8, "big"), name, data))).digest()


def by_data(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Return the SHA-256 hash of the data alone."""
    return sha256(data).digest()


NAMED: Mapping[str, MessageIdFunction] = {"author": by_author, "content": by_content, "data": by_data}


class MessageIds:
    """The functions that compute message ids: a default, and functions of single topics."""

    def __init__(self, default: MessageIdFunction = by_author) -> None:
        self._default = default
        self._by_topic: dict[str, MessageIdFunction] = {}

    def set(self, topic: str, function: MessageIdFunction) -> None:
        self._by_topic[topic] = function

    def __call__(self, topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
        return self._by_topic.get(topic, self._default)(topic, source, seqno, data)
