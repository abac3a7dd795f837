"""The message cache of gossipsub (r1, "The message cache is a data structure that stores windows of message IDs").

`put` adds to the current window, `get` finds a message that is still kept, `window` names the ids of the last
`gossip` windows of a topic, `shift` closes the current window and discards what is older than `length` windows.

* CACHE-1: at most `limit` messages are kept, and `most_bytes` of memory unless that is 0; the oldest goes first.
* CACHE-2: how often a message was sent to a peer on request is counted with the message, so that a peer that
  reconnects does not start anew. Of these counts there are at most `MAX_COUNTED`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.language.footprint import message_footprint
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import Message
from hearsay.core.shell.windows import Windows

MAX_COUNTED = 100_000
"""Pairs of message and peer; beyond that the message that was asked for first starts anew."""


class MessageCache:
    __slots__ = ("_answers", "_bytes", "_counted", "_gossip", "_length", "_limit", "_messages", "_most_bytes",
                 "_windows")  # fmt: skip

    def __init__(self, length: int, gossip: int, limit: int, most_bytes: int = 0) -> None:
        self._length = length
        self._gossip = gossip
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self._messages: dict[MessageId, Message] = {}
        self._answers: dict[MessageId, dict[PeerId, int]] = {}
        self._counted = 0
        """Entries of all of `_answers`."""
        self._windows: Windows[Message] = Windows()

    def put(self, message: Message) -> None:
        if message.id in self._messages:
            return
        self._messages[message.id] = message
        self._windows.add(message)
        if self._most_bytes:
            self._bytes += message_footprint(message)
        while len(self._messages) > self._limit or self._bytes > self._most_bytes:
            self._forget(self._windows.pop_oldest().id)

    def get(self, message_id: MessageId) -> Message | None:
        return self._messages.get(message_id)

    def count_answer(self, message_id: MessageId, peer: PeerId) -> int:
        """How often a kept message was sent to a peer on request, this time included. Outlasts a disconnection."""
        counts = self._answers.setdefault(message_id, {})
        if peer not in counts:
            self._counted += 1
        counts[peer] = counts.get(peer, 0) + 1
        count = counts[peer]
        if self._counted > MAX_COUNTED:
            self._counted -= len(self._answers.pop(next(iter(self._answers))))
        return count

    def window(self, topic: TopicId) -> tuple[MessageId, ...]:
        """The ids of a topic in the gossip windows, ascending."""
        return tuple(sorted(self.gossip().get(topic, ())))

    def gossip(self) -> dict[TopicId, list[MessageId]]:
        """The ids in the gossip windows by topic."""
        by_topic: dict[TopicId, list[MessageId]] = {}
        for message in self._windows.last(self._gossip):
            by_topic.setdefault(message.topic, []).append(message.id)
        return by_topic

    def shift(self) -> None:
        for message in self._windows.shift(self._length):
            self._forget(message.id)

    def messages(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def _forget(self, message_id: MessageId) -> None:
        message = self._messages.pop(message_id)
        if self._most_bytes:
            self._bytes -= message_footprint(message)
        self._counted -= len(self._answers.pop(message_id, ()))
