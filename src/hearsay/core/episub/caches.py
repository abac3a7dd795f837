"""The memory of a tree: payloads that can be sent again, and messages that were announced but have not arrived.

Rules (episub spec, "Broadcast State", "Multicast Tree Repair"):

* REPAIR-1: Payloads are kept for `payload_ttl_ms`. Each tick of a timer touches all missing messages. The first touch
  only marks a message; each later touch requests it from the next of its announcers, and after `graft_attempts`
  requests it is given up. A message that has arrived and waits for its verdict is not touched. The numbers of
  payloads and of missing messages are bounded; the oldest is removed first.

The ids of received messages are in the shell's seen cache.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.language.rpc import Message
from hearsay.core.language.sizes import message_footprint
from hearsay.core.rules.tree_rules import announcer_in_turn, is_given_up, is_requested


@dataclass(slots=True)
class Kept:
    """A message that can be sent again. `answers` has the number of times that each peer was sent it on request.

    `parent` is the peer that sent the message; None if this node published it.
    """

    message: Message
    hops: int
    parent: PeerId | None
    since_us: Micros
    answers: dict[PeerId, int] = field(default_factory=lambda: {})


class PayloadCache:
    """Messages that can be sent again for `ttl_us`: at most `limit`, in at most `most_bytes` (0 is unlimited)."""

    def __init__(self, ttl_us: Micros, limit: int, most_bytes: int = 0) -> None:
        self._ttl_us = ttl_us
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[MessageId, Kept] = OrderedDict()

    def put(self, message: Message, hops: int, parent: PeerId | None, now: Micros) -> None:
        self._expire(now)
        before = self._kept.get(message.id)
        self._kept[message.id] = Kept(message, hops, parent, now)
        if self._most_bytes:
            self._bytes += message_footprint(message) - (message_footprint(before.message) if before else 0)
        while len(self._kept) > self._limit or self._bytes > self._most_bytes:
            self._take_away(next(iter(self._kept)))

    def get(self, message_id: MessageId, now: Micros) -> Kept | None:
        kept = self._kept.get(message_id)
        return kept if kept is not None and now - kept.since_us < self._ttl_us else None

    def messages(self, now: Micros) -> list[Message]:
        self._expire(now)
        return [kept.message for kept in self._kept.values()]

    def since(self, since_us: Micros, most: int) -> dict[MessageId, int]:
        """Return the ids and hops of messages kept since `since_us`, at most the newest `most`."""
        recent: dict[MessageId, int] = {}
        for message_id, kept in reversed(self._kept.items()):
            if kept.since_us < since_us or len(recent) == most:
                break
            recent[message_id] = kept.hops
        return recent

    def forget_peer(self, peer: PeerId) -> None:
        for kept in self._kept.values():
            kept.answers.pop(peer, None)

    def counts_for(self, peer: PeerId) -> bool:
        """Return whether any kept message was sent to this peer on request."""
        return any(peer in kept.answers for kept in self._kept.values())

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def _expire(self, now: Micros) -> None:
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if now - oldest.since_us < self._ttl_us:
                return
            self._take_away(oldest.message.id)

    def _take_away(self, message_id: MessageId) -> None:
        kept = self._kept.pop(message_id)
        if self._most_bytes:
            self._bytes -= message_footprint(kept.message)


@dataclass(slots=True)
class MissingMessage:
    """A message that was announced but has not arrived. `announcers` has the peers, with the hops in their IHAVEs."""

    announcers: list[tuple[PeerId, int]]
    touches: int = 0

    @property
    def first(self) -> PeerId:
        return self.announcers[0][0]

    @property
    def turn(self) -> PeerId:
        """The announcer that gets the next GRAFT."""
        return self.announcers[announcer_in_turn(self.touches, len(self.announcers))][0]


class MissingList:
    def __init__(self, limit: int, max_announcers: int) -> None:
        self._limit = limit
        self._max_announcers = max_announcers
        self.entries: OrderedDict[MessageId, MissingMessage] = OrderedDict()

    def announce(self, message_id: MessageId, peer: PeerId, hops: int) -> PeerId | None:
        """Note an announcer. If a message is dropped to make room, return its first announcer, otherwise None."""
        entry = self.entries.get(message_id)
        if entry is None:
            self.entries[message_id] = MissingMessage([(peer, hops)])
            if len(self.entries) > self._limit:
                return self.entries.popitem(last=False)[1].first
        elif len(entry.announcers) < self._max_announcers and all(known != peer for known, _ in entry.announcers):
            entry.announcers.append((peer, hops))
        return None

    def arrived(self, message_id: MessageId) -> MissingMessage | None:
        return self.entries.pop(message_id, None)

    def touch(
        self, attempts: int, judged: Container[MessageId], seen: Container[MessageId]
    ) -> tuple[dict[PeerId, list[MessageId]], dict[PeerId, int]]:
        """Handle one tick. Return the ids to request, by peer, and the number of messages given up, by peer.

        A message given up counts for its first announcer.
        Messages in `judged` have arrived and wait for a verdict; they are skipped. Missing messages in `seen` were
        refused; they are removed. A peer that is asked for one message is asked for all due messages that it
        announced (the spec's piggybacking).
        """
        due: dict[MessageId, MissingMessage] = {}
        given_up: Counter[PeerId] = Counter()
        for message_id in list(self.entries):
            if message_id in judged:
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
            peer = entry.turn
            wanted = asks.setdefault(peer, [])
            asked = {known for ids in asks.values() for known in ids}
            wanted += [
                other
                for other, known in due.items()
                if other not in asked and (other == message_id or any(peer == one for one, _ in known.announcers))
            ]
        return asks, given_up

    def forget_peer(self, peer: PeerId) -> None:
        for message_id in list(self.entries):
            entry = self.entries[message_id]
            entry.announcers = [known for known in entry.announcers if known[0] != peer]
            if not entry.announcers:
                del self.entries[message_id]

    def mentions(self, peer: PeerId) -> bool:
        return any(peer == known for entry in self.entries.values() for known, _ in entry.announcers)

    def __len__(self) -> int:
        return len(self.entries)
