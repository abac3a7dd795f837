"""The memory of a broadcast tree: messages that can be sent again, and announced messages that have not arrived.

Rules (episub spec, "Broadcast State", "Multicast Tree Repair"):

* REPAIR-1: Messages are kept for `payload_ttl_ms`. A message is missing from its first announcement until it arrives.
  Each tick of a timer touches all missing messages. The first touch only marks a message. Each later touch requests
  the message from the next of its announcers. The touch after `graft_attempts` requests gives the message up, which
  means that it is no longer missing. A message that has arrived and waits for its verdict is not touched. In each
  topic, the numbers of kept and of missing messages are bounded; the oldest message is removed first.

The ids of received messages are in the shell's seen cache.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field

from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.language.rpc import Message
from hearsay.core.language.sizes import message_footprint
from hearsay.core.rules.message_rules import announcer_in_turn, is_given_up, is_requested


@dataclass(slots=True)
class Kept:
    """A message that can be sent again."""

    message: Message
    hops: int
    """The number of hops from the publisher to this node."""
    parent: PeerId | None
    """The peer that sent the first copy of the message; None if this node published the message."""
    since_us: Micros
    """The time at which the message was put into the cache."""
    answers: dict[PeerId, int] = field(default_factory=lambda: {})
    """For each peer, how often the message was sent to it on request."""


class PayloadCache:
    """The messages of a topic that can be sent again, the oldest first."""

    def __init__(self, parameters: EpisubParameters) -> None:
        self._ttl_us = parameters.payload_ttl_ms * 1000
        self._limit = parameters.max_cached_messages
        self._most_bytes = parameters.max_cached_bytes
        self._bytes = 0
        self._kept: OrderedDict[MessageId, Kept] = OrderedDict()

    def put(self, message: Message, hops: int, parent: PeerId | None, now: Micros) -> None:
        """Add a message. Remove messages that are too old, and the oldest ones beyond the limits."""
        self._expire(now)
        before = self._kept.get(message.id)
        self._kept[message.id] = Kept(message, hops, parent, now)
        if self._most_bytes:
            self._bytes += message_footprint(message) - (message_footprint(before.message) if before else 0)
        while len(self._kept) > self._limit or self._bytes > self._most_bytes:
            self._take_away(next(iter(self._kept)))

    def get(self, message_id: MessageId, now: Micros) -> Kept | None:
        """Return a message if it can be sent again at the time `now`, otherwise None."""
        kept = self._kept.get(message_id)
        return kept if kept is not None and now - kept.since_us < self._ttl_us else None

    def messages(self, now: Micros) -> list[Message]:
        self._expire(now)
        return [kept.message for kept in self._kept.values()]

    def since(self, since_us: Micros, most: int) -> dict[MessageId, int]:
        """Return ids and hops of the messages that were put into the cache at `since_us` or later, the newest first.
        If there are more than `most`, return the newest `most`."""
        recent: dict[MessageId, int] = {}
        for message_id, kept in reversed(self._kept.items()):
            if kept.since_us < since_us or len(recent) == most:
                break
            recent[message_id] = kept.hops
        return recent

    def forget_peer(self, peer: PeerId) -> None:
        """Forget how often messages were sent to a peer on request."""
        for kept in self._kept.values():
            kept.answers.pop(peer, None)

    def has_answered(self, peer: PeerId) -> bool:
        """Return whether one of these messages was sent to this peer on request."""
        return any(peer in kept.answers for kept in self._kept.values())

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def _expire(self, now: Micros) -> None:
        while self._kept and now - self._kept[oldest := next(iter(self._kept))].since_us >= self._ttl_us:
            self._take_away(oldest)

    def _take_away(self, message_id: MessageId) -> None:
        kept = self._kept.pop(message_id)
        if self._most_bytes:
            self._bytes -= message_footprint(kept.message)


@dataclass(slots=True)
class MissingMessage:
    """A message that was announced but has not arrived."""

    announcers: list[tuple[PeerId, int]]
    """The peers that announced the message, each with the hops in the peer's IHAVE, in the order of arrival."""
    touches: int = 0
    """The number of touches so far (REPAIR-1)."""

    @property
    def first(self) -> PeerId:
        return self.announcers[0][0]


class MissingList:
    """The missing messages of a topic, the oldest first."""

    def __init__(self, parameters: EpisubParameters) -> None:
        self._limit = parameters.max_missing
        self._max_announcers = parameters.max_announcers
        self.entries: OrderedDict[MessageId, MissingMessage] = OrderedDict()

    def announce(self, message_id: MessageId, peer: PeerId, hops: int) -> PeerId | None:
        """Note that a peer announced a missing message, with these hops. The second and later announcements of the
        same peer are ignored, and so are announcers beyond `max_announcers`.

        If the list is too long then, remove the oldest message and return its first announcer; otherwise return None.
        """
        entry = self.entries.get(message_id)
        if entry is None:
            self.entries[message_id] = MissingMessage([(peer, hops)])
            if len(self.entries) > self._limit:
                return self.entries.popitem(last=False)[1].first
        elif len(entry.announcers) < self._max_announcers and all(known != peer for known, _ in entry.announcers):
            entry.announcers.append((peer, hops))
        return None

    def arrived(self, message_id: MessageId) -> MissingMessage | None:
        """Remove and return a message that has arrived; None if it was not missing."""
        return self.entries.pop(message_id, None)

    def touch(
        self, attempts: int, pending: Container[MessageId], seen: Container[MessageId]
    ) -> tuple[dict[PeerId, list[MessageId]], dict[PeerId, int]]:
        """Handle one tick. Return the ids to request of each peer, and the number of messages that are given up, by
        their first announcer.

        Messages in `pending` have arrived and wait for a verdict; they are skipped. Missing messages in `seen` were
        rejected; they are removed. If a peer gets a request for one message, the request has all messages that are
        due now, that this peer announced, and that are requested of no other peer (the spec's piggybacking).
        """
        due: dict[MessageId, MissingMessage] = {}
        given_up: Counter[PeerId] = Counter()
        for message_id in list(self.entries):
            if message_id in pending:
                continue
            if message_id in seen:
                del self.entries[message_id]
                continue
            entry = self.entries[message_id]
            entry.touches += 1
            if is_given_up(entry.touches, attempts):
                del self.entries[message_id]
                given_up[entry.first] += 1
            elif is_requested(entry.touches, attempts):
                due[message_id] = entry
        asks: dict[PeerId, list[MessageId]] = {}
        for message_id, entry in due.items():
            if any(message_id in ids for ids in asks.values()):
                continue
            peer = entry.announcers[announcer_in_turn(entry.touches, len(entry.announcers))][0]
            wanted = asks.setdefault(peer, [])
            asked = {known for ids in asks.values() for known in ids}
            wanted += [
                other
                for other, known in due.items()
                if other not in asked and (other == message_id or any(peer == one for one, _ in known.announcers))
            ]
        return asks, given_up

    def forget_peer(self, peer: PeerId) -> None:
        """Remove a peer from all announcers, and the messages that no other peer announced."""
        for message_id in list(self.entries):
            entry = self.entries[message_id]
            entry.announcers = [known for known in entry.announcers if known[0] != peer]
            if not entry.announcers:
                del self.entries[message_id]

    def mentions(self, peer: PeerId) -> bool:
        """Return whether a peer is an announcer of a missing message."""
        return any(peer == known for entry in self.entries.values() for known, _ in entry.announcers)

    def __len__(self) -> int:
        return len(self.entries)
