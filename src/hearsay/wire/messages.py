"""The decoder of messages from protobuf bytes, and functions that compute message ids.

* A message keeps its received bytes, so that it is forwarded as it was signed. If these bytes are not canonical, the
  message keeps the canonical encoding instead, which other implementations verify and forward.
* Unknown fields are dropped, and `has_more` is then True. A malformed message is left out, but the rest of the RPC is
  used, because older versions of go relay unknown fields that no other implementation can read.

In go-libp2p-pubsub and py-libp2p, the default message id is author and sequence number. Other implementations have
other defaults. So all nodes of a network must be configured to use the same function. Unsigned messages have no
author and no sequence number. So by default their id is a hash of topic and data, and the same data in two topics are
two messages. If other implementations in the network hash only the data, use `by_data` and do not publish the same
data in two topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

from hearsay.core.language.actions import fast_init
from hearsay.core.language.rpc import Message
from hearsay.core.language.sizes import field_size
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, walk
from hearsay.wire.fields import RpcLimits, is_hops

MessageIdFunction: TypeAlias = Callable[[str, bytes | None, bytes | None, bytes], bytes]
"""A function that computes a message's id from topic, source (None: no author), sequence number (or None) and data.
"""

_message = fast_init(Message)


def short_length(data: bytes, offset: int) -> tuple[int, int]:
    """Return the length that is encoded as a varint at `offset`, and the offset after the varint.

    Return (0, 0) if the varint is cut off or not in its shortest form, or if the length is 16 KiB or more.
    """
    first = data[offset : offset + 2]
    if not first:
        return 0, 0
    if first[0] < 0x80:
        return first[0], offset + 1
    if len(first) < 2 or not 0 < first[1] < 0x80:
        return 0, 0
    return first[0] & 0x7F | first[1] << 7, offset + 2


def usual_message(encoded: bytes, message_id: MessageIdFunction, limits: RpcLimits) -> Message | None:
    """Return the message in `encoded` if it has the usual form; otherwise None.

    In the usual form, all fields are known, they are in the order of their numbers, each occurs at most once and has
    less than 16 KiB, and each length is a varint in its shortest form. Return None as well if the topic is missing or
    malformed, or if the topic or id is too long. `decode_message` returns the same messages, but without this
    function it would take three times as long.
    """
    values: list[bytes | None] = [None] * 7
    last = offset = 0
    stop = len(encoded)
    while offset < stop:
        key = encoded[offset]
        number = key >> 3
        if key & 7 != DELIMITED or not last < number < 7:
            return None
        begin = offset + 2
        if begin > stop:
            return None
        length = encoded[offset + 1]
        if length >= 0x80:
            length, begin = short_length(encoded, offset + 1)
            if not begin:
                return None
        offset = begin + length
        if offset > stop:
            return None
        values[number] = encoded[begin:offset]
        last = number
    return _message_with(values, encoded, False, message_id, limits)


def _message_with(
    values: list[bytes | None], encoded: bytes, has_more: bool, message_id: MessageIdFunction, limits: RpcLimits
) -> Message | None:
    """Return the message with the fields `values`, a list that is indexed by field number.

    Return None if the topic is missing or not UTF-8, or if the topic or the message id is too long.
    """
    _, source, payload, seqno, topic, signature, key = values
    name = topic_name(topic, limits)
    if name is None:
        return None
    content = payload or b""
    identifier = message_id(name, source, seqno, content)
    if len(identifier) > limits.max_id_bytes:
        return None
    return _message(identifier, name, content, source, seqno, signature, key, encoded, None, has_more)


def decode_message(encoded: bytes, message_id: MessageIdFunction, limits: RpcLimits) -> Message | None:
    """Return the message in `encoded`.

    Return None if the bytes are malformed, if the topic is missing or not UTF-8, or if the topic or id is too long.
    """
    usual = usual_message(encoded, message_id, limits)
    if usual is not None:
        return usual
    values: list[bytes | None] = [None] * 7
    last = size = 0
    ordered, has_more = True, False
    try:
        for number, wire_type, begin, end in walk(encoded):
            known = _is_known(number, wire_type)
            ordered = ordered and known and number > last
            has_more = has_more or not known
            if known:
                values[number] = encoded[begin:end]
                last = number
                size += field_size(end - begin)
    except EncodingError:
        return None
    if not ordered or size != len(encoded):
        encoded = b"".join([bytes_field(number, value) for number, value in enumerate(values) if value is not None])
    return _message_with(values, encoded, has_more, message_id, limits)


def with_hops(encoded: bytes, message: Message | None) -> Message | None:
    """Return the message with the hop count that its received bytes `encoded` contain, if they contain one.

    The signature does not cover the hop count. The result's `has_more` does not count the hop count as an unknown
    field. Return None if `message` is None.
    """
    if message is None:
        return None
    hops, has_more = None, False
    for number, wire_type, value, _ in walk(encoded):
        if is_hops(number) and wire_type == VARINT:
            hops = value
        else:
            has_more = has_more or not _is_known(number, wire_type)
    return message if hops is None else replace(message, hops=hops, has_more=has_more)


def _is_known(number: int, wire_type: int) -> bool:
    return wire_type == DELIMITED and number < 7


def topic_name(topic: bytes | None, limits: RpcLimits) -> str | None:
    """Return the topic as a string; None if it is missing (None), too long or not UTF-8."""
    try:
        return None if topic is None or len(topic) > limits.max_topic_bytes else topic.decode()
    except UnicodeDecodeError:
        return None


def by_author(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Return author and sequence number as the id; if both are missing, return the result of `by_content`."""
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
