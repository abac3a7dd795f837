"""Message ids: what makes two messages the same.

The default of go-libp2p-pubsub and py-libp2p is author and sequence number; other implementations differ, so that a
network of several needs one function set everywhere. Unsigned messages have neither, so they go by their content,
which is topic and data: the same data in two topics are two messages. Peers of other implementations that hash the
data alone need `by_data` here, and one topic for each thing that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from hearsay.wire.decode_message import MessageIdFunction


def by_author(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Author, then sequence number; by content when both are missing."""
    if source is None and seqno is None:
        return by_content(topic, source, seqno, data)
    return (source or b"") + (seqno or b"")


def by_content(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """SHA-256 of the topic's length in eight bytes, big endian, the topic and the data."""
    name = topic.encode()
    return sha256(b"".join((len(name).to_bytes(8, "big"), name, data))).digest()


def by_data(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """SHA-256 of the data alone."""
    return sha256(data).digest()


NAMED: Mapping[str, MessageIdFunction] = {"author": by_author, "content": by_content, "data": by_data}


class MessageIds:
    """A function for each topic, and one for all others."""

    def __init__(self, default: MessageIdFunction = by_author) -> None:
        self._default = default
        self._by_topic: dict[str, MessageIdFunction] = {}

    def set(self, topic: str, function: MessageIdFunction) -> None:
        self._by_topic[topic] = function

    def __call__(self, topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
        return self._by_topic.get(topic, self._default)(topic, source, seqno, data)
