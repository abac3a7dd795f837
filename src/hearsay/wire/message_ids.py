"""Message ids: what makes two messages the same.

The default of go-libp2p-pubsub and py-libp2p is author and sequence number; other implementations differ, so that a
network of several needs one function set everywhere. Unsigned messages have neither, so they go by their content.
"""

from __future__ import annotations

from hashlib import sha256

from hearsay.wire.decode import MessageIdFunction


def by_author(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """Author, then sequence number; by content when both are missing."""
    if source is None and seqno is None:
        return by_content(topic, source, seqno, data)
    return (source or b"") + (seqno or b"")


def by_content(topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
    """SHA-256 of the data."""
    return sha256(data).digest()


class MessageIds:
    """A function for each topic, and one for all others."""

    def __init__(self, default: MessageIdFunction = by_author) -> None:
        self._default = default
        self._by_topic: dict[str, MessageIdFunction] = {}

    def set(self, topic: str, function: MessageIdFunction) -> None:
        self._by_topic[topic] = function

    def __call__(self, topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
        return self._by_topic.get(topic, self._default)(topic, source, seqno, data)
