"""The memory of gossipsub: the message cache, and the messages that peers do not want.

The cache (r1, "The message cache is a data structure that stores windows of message IDs"): `put` adds to the current
window, `get` finds a message that is still kept, `window` names the ids of the last `gossip` windows of a topic,
`shift` closes the current window and discards what is older than `length` windows. IDONTWANT is v1.2's.

* CACHE-1: At most `limit` messages are kept, and `max_bytes` of memory unless that is 0; the oldest is removed first.
* CACHE-2: The answers to IWANTs of a peer are counted with the message, so that reconnecting does not reset a peer's
  count. There are at most `MAX_COUNTED` of these counts.
* IDONTWANT-4: A message is not forwarded to a peer that does not want it, along the mesh and the fan-out, and is not
  sent to it for an IWANT. Peers that only flood send no IDONTWANT. With `withdraw_unwanted` the driver is asked to
  remove waiting copies from the peer's queue (rust). Each withheld copy along the mesh or the fan-out is reported
  (`CopyWithheld`). js sent IDONTWANT long before it obeyed it (`heeds_idontwant`).
* IDONTWANT-5: All state of peers is bounded; the oldest is removed first. A peer's IDONTWANTs end with its
  connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import IDontWant, Message
from hearsay.core.language.sizes import message_footprint
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten
from hearsay.core.shell.seen import Windows

MAX_COUNTED = 100_000
"""Maximum number of counts, by message and peer. Beyond it, the counts of the message requested first are removed."""


class MessageCache:
    """The messages that can be gossiped about and sent on request."""

    def __init__(self, length: int, gossip: int, limit: int, max_bytes: int = 0) -> None:
        self._length = length
        self._gossip = gossip
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._messages: dict[MessageId, Message] = {}
        self._answers: dict[MessageId, dict[PeerId, int]] = {}
        self._counted = 0
        """Entries in all of `_answers`."""
        self._windows: Windows[Message] = Windows()

    def put(self, message: Message) -> None:
        if message.id in self._messages:
            return
        self._messages[message.id] = message
        self._windows.append(message)
        if self._max_bytes:
            self._bytes += message_footprint(message)
        while len(self._messages) > self._limit or self._bytes > self._max_bytes:
            self._forget(self._windows.popleft().id)

    def get(self, message_id: MessageId) -> Message | None:
        return self._messages.get(message_id)

    def count_answer(self, message_id: MessageId, peer: PeerId) -> int:
        """Count one more answer to a peer, and return the count, which is kept when the peer disconnects."""
        counts = self._answers.setdefault(message_id, {})
        if peer not in counts:
            self._counted += 1
        counts[peer] = counts.get(peer, 0) + 1
        count = counts[peer]
        if self._counted > MAX_COUNTED:
            self._counted -= len(self._answers.pop(next(iter(self._answers))))
        return count

    def window(self, topic: TopicId) -> tuple[MessageId, ...]:
        """Return the ids of a topic in the gossip windows, ascending."""
        return tuple(sorted(self.gossip().get(topic, ())))

    def gossip(self) -> dict[TopicId, list[MessageId]]:
        """Return the ids in the gossip windows by topic."""
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
        if self._max_bytes:
            self._bytes -= message_footprint(message)
        self._counted -= len(self._answers.pop(message_id, ()))


class Unwanted:
    """The messages that each peer does not want."""

    def __init__(self, ttl_heartbeats: int, max_rpcs: int, max_ids: int, max_ids_of_peer: int, limit: int) -> None:
        self._ttl = ttl_heartbeats
        self._max_rpcs = max_rpcs
        self._max_ids = max_ids
        self._max_ids_of_peer = max_ids_of_peer
        self._limit = limit
        self._by_peer: dict[PeerId, dict[MessageId, int]] = {}
        self._order: dict[tuple[PeerId, MessageId], int] = {}
        """Number of the last heartbeat before each IDONTWANT, by peer and message, the oldest first."""
        self._rpcs: dict[PeerId, int] = {}
        """Number of RPCs with IDONTWANT of each peer since the last heartbeat."""
        self._ids: dict[PeerId, int] = {}
        """Number of accepted ids of each peer since the last heartbeat."""
        self.tick = 0

    def __len__(self) -> int:
        return len(self._order)

    def receive(self, peer: PeerId, parts: Iterable[IDontWant]) -> tuple[list[MessageId], int]:
        """Remember the IDONTWANTs of one RPC. Return the accepted ids, and the number of ids over a limit."""
        ids = [message_id for part in parts for message_id in part.ids]
        if not ids:
            return [], 0
        before = self._rpcs.get(peer, 0)
        self._rpcs[peer] = before + 1
        accepted_before = self._ids.get(peer, 0)
        accepted = accepted_ids(
            before, self._max_rpcs, len(ids), self._max_ids, accepted_before, self._max_ids_of_peer
        )
        self._ids[peer] = accepted_before + accepted
        for message_id in ids[:accepted]:
            self._order.pop((peer, message_id), None)
            self._order[peer, message_id] = self.tick
            self._by_peer.setdefault(peer, {})[message_id] = self.tick
        while len(self._order) > self._limit:
            self._forget(*next(iter(self._order)))
        return ids[:accepted], len(ids) - accepted

    def holds(self, peer: PeerId, message_id: MessageId) -> bool:
        return message_id in self._by_peer.get(peer, ())

    def remembers(self, peer: PeerId) -> bool:
        return peer in self._by_peer or peer in self._rpcs

    def remove_peer(self, peer: PeerId) -> None:
        for message_id in list(self._by_peer.get(peer, ())):
            self._forget(peer, message_id)
        self._rpcs.pop(peer, None)
        self._ids.pop(peer, None)

    def beat(self, tick: int) -> None:
        """Reset the counts of RPCs and of ids, and forget old IDONTWANTs."""
        self.tick = tick
        self._rpcs.clear()
        self._ids.clear()
        while self._order:
            (peer, message_id), said = next(iter(self._order.items()))
            if not is_forgotten(said, tick, self._ttl):
                return
            self._forget(peer, message_id)

    def _forget(self, peer: PeerId, message_id: MessageId) -> None:
        del self._order[peer, message_id]
        of_peer = self._by_peer[peer]
        del of_peer[message_id]
        if not of_peer:
            del self._by_peer[peer]
