"""The memory of gossipsub: the message cache, and the messages that peers do not want.

The cache has windows (r1, "The message cache is a data structure that stores windows of message IDs"): `put` adds a
message to the open window, `get` finds a message that is still kept, and `gossip` returns the ids of the last
`history_gossip` windows. `shift` closes the open window and discards messages older than `history_length` windows. An
unwanted message is one that a peer has named in an IDONTWANT (v1.2).

* CACHE-1: At most `max_cached_messages` messages are kept, in at most `max_cached_bytes` of memory unless this
  parameter is 0. The oldest message is removed first.
* CACHE-2: For each kept message, the requests of each peer by IWANT are counted. The counts last as long as the
  message, so that a peer cannot reset them by reconnecting. There are at most `MAX_COUNTED` counts.
* IDONTWANT-4: A peer that does not want a message gets no copy of it, except by flood publishing. Peers that only
  flood send no IDONTWANT. With `withdraw_unwanted` the driver is asked to remove copies from the peer's send queue
  (rust). Each copy that is not sent is reported (`CopyWithheld`), unless it would answer an IWANT. For a long time js
  sent IDONTWANT without obeying it (`heeds_idontwant`).
* IDONTWANT-5: The number of remembered ids is bounded; the oldest is removed first. The IDONTWANTs of a peer are
  forgotten when its connection ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import IDontWant, Message
from hearsay.core.language.sizes import message_footprint
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten
from hearsay.core.shell.seen import Windows

MAX_COUNTED = 100_000
"""Maximum number of counts, one for each message and peer. If there are more, the counts of the message that was
requested first are removed."""


class MessageCache:
    """The messages that the router can announce in gossip and send on request."""

    def __init__(self, parameters: GossipsubParameters) -> None:
        self._length = parameters.history_length
        self._gossip = parameters.history_gossip
        self._limit = parameters.max_cached_messages
        self._max_bytes = parameters.max_cached_bytes
        self._bytes = 0
        self._messages: dict[MessageId, Message] = {}
        self._answers: dict[MessageId, dict[PeerId, int]] = {}
        self._counted = 0
        """Number of counts in `_answers`, over all messages."""
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
        """Count a request of a peer for a kept message. Return the number of the peer's requests for it, this one
        included (CACHE-2)."""
        counts = self._answers.setdefault(message_id, {})
        if peer not in counts:
            self._counted += 1
        counts[peer] = counts.get(peer, 0) + 1
        count = counts[peer]
        if self._counted > MAX_COUNTED:
            self._counted -= len(self._answers.pop(next(iter(self._answers))))
        return count

    def gossip(self) -> dict[TopicId, list[MessageId]]:
        """Return the ids in the last `history_gossip` windows, by topic."""
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
    """The ids of unwanted messages, by peer."""

    def __init__(self, parameters: GossipsubParameters) -> None:
        self._parameters = parameters
        self._by_peer: dict[PeerId, dict[MessageId, int]] = {}
        self._order: dict[tuple[PeerId, MessageId], int] = {}
        """By peer and message, the number of the last heartbeat before the IDONTWANT; the oldest entry first."""
        self._rpcs: dict[PeerId, int] = {}
        """By peer, the number of RPCs with IDONTWANT since the last heartbeat."""
        self._ids: dict[PeerId, int] = {}
        """By peer, the number of accepted ids since the last heartbeat."""
        self.tick = 0

    def __len__(self) -> int:
        return len(self._order)

    def receive(self, peer: PeerId, parts: Iterable[IDontWant]) -> tuple[list[MessageId], int]:
        """Remember the IDONTWANTs of one RPC. Return the accepted ids, and the number of ids beyond a limit."""
        ids = [message_id for part in parts for message_id in part.ids]
        if not ids:
            return [], 0
        own = self._parameters
        rpcs, before = self._rpcs.get(peer, 0), self._ids.get(peer, 0)
        accepted = accepted_ids(
            rpcs, own.max_idontwants, len(ids), own.max_ids_per_idontwant, before, own.max_idontwant_ids
        )
        self._rpcs[peer] = rpcs + 1
        self._ids[peer] = before + accepted
        for message_id in ids[:accepted]:
            self._order.pop((peer, message_id), None)
            self._order[peer, message_id] = self.tick
            self._by_peer.setdefault(peer, {})[message_id] = self.tick
        while len(self._order) > own.max_unwanted:
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
        ttl_heartbeats = self._parameters.idontwant_ttl_heartbeats
        while self._order and is_forgotten(self._order[oldest := next(iter(self._order))], tick, ttl_heartbeats):
            self._forget(*oldest)

    def _forget(self, peer: PeerId, message_id: MessageId) -> None:
        del self._order[peer, message_id]
        of_peer = self._by_peer[peer]
        del of_peer[message_id]
        if not of_peer:
            del self._by_peer[peer]
