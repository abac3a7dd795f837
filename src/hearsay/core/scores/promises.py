"""Promises: a peer that gets an IWANT shall send the requested messages (rules: `rules/deliveries.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.rules import deliveries
from hearsay.core.rules.randomness import below
from hearsay.core.scores.declarations import TrackedPromises

Draw: TypeAlias = Callable[[], int]
"""A function that returns a draw: a 64-bit hash of the circumstances of a choice, such as the peer and the time."""


MAX_PROMISES = 100_000
"""Maximum number of tracked promises of all peers."""
MAX_PROMISES_OF_PEER = 5_000
"""Maximum number of tracked promises of one peer."""


class IwantPromises:
    """The tracked promises, by message and by peer. A copy from any peer keeps all promises of its message."""

    def __init__(self, tracked: TrackedPromises, followup_us: Micros) -> None:
        """`tracked` says which ids of an IWANT are promises. A promise must be kept in `followup_us` after the
        IWANT."""
        self._tracked = tracked
        self._followup_us = followup_us
        self.ends: dict[tuple[PeerId, MessageId], Micros] = {}
        """By peer and message, the time by which the promise must be kept. The earliest time comes first, since all
        promises last equally long. Do not change the object, which is a live view for others."""
        self._of_message: dict[MessageId, dict[PeerId, None]] = {}
        self._of_peer: dict[PeerId, dict[MessageId, None]] = {}

    def ask(self, peer: PeerId, ids: Sequence[MessageId], now: Micros, draw: Draw) -> None:
        """Track the promises of a peer that gets an IWANT with these ids. If only one promise is tracked, `draw`
        chooses it."""
        match self._tracked:
            case TrackedPromises.ONE:
                if ids:
                    self._promise(peer, ids[below(draw(), len(ids))], now)
            case TrackedPromises.ALL:
                for message in ids:
                    self._promise(peer, message, now)
            case TrackedPromises.NONE:
                pass

    def keep(self, message: MessageId, sender: PeerId | None = None) -> None:
        """End the promises of a message that is being validated, was accepted or was rejected. `sender` sent the
        copy; None if this node published the message."""
        for peer in tuple(self._of_message.get(message, ())):
            self._end(peer, message)

    def duplicate(self, message: MessageId, sender: PeerId) -> None:
        """Handle a later copy of a message. It keeps no promise."""

    def reject(self, message: MessageId, reason: int, sender: PeerId | None = None) -> None:
        """Handle a rejected copy of a message, which `sender` sent. `reason` is the number of a `Reason`; a copy with
        BAD_SIGNATURE keeps no promise."""
        if deliveries.rejection_keeps(reason):
            self.keep(message, sender)

    def void(self, peer: PeerId) -> None:
        """Remove all promises of a peer, since the gater does not accept its messages (PROMISE-4)."""
        for message in tuple(self._of_peer.get(peer, ())):
            self._end(peer, message)

    def take_broken(self, now: Micros) -> tuple[tuple[PeerId, int], ...]:
        """Remove the promises whose time is over. Return each peer that has broken promises, with their number, peers
        ascending."""
        broken: Counter[PeerId] = Counter()
        while self.ends and deliveries.is_broken(now, self.ends[oldest := next(iter(self.ends))]):
            self._end(*oldest)
            broken[oldest[0]] += 1
        return tuple(sorted(broken.items(), key=lambda item: item[0]))

    def _promise(self, peer: PeerId, message: MessageId, now: Micros) -> None:
        of_peer = self._of_peer.get(peer, {})
        room = deliveries.has_room(len(of_peer), MAX_PROMISES_OF_PEER, len(self.ends), MAX_PROMISES)
        if room and message not in of_peer:
            self.ends[peer, message] = now + self._followup_us
            self._of_message.setdefault(message, {})[peer] = None
            self._of_peer.setdefault(peer, {})[message] = None

    def _end(self, peer: PeerId, message: MessageId) -> None:
        del self.ends[peer, message]
        for index, key, value in ((self._of_message, message, peer), (self._of_peer, peer, message)):
            del index[key][value]
            if not index[key]:
                del index[key]


class StrictIwantPromises(IwantPromises):
    """Promises that only a copy from the peer that promised the message keeps. A duplicate also counts (jvm)."""

    def keep(self, message: MessageId, sender: PeerId | None = None) -> None:
        if sender is not None and sender in self._of_message.get(message, ()):
            self._end(sender, message)

    def duplicate(self, message: MessageId, sender: PeerId) -> None:
        self.keep(message, sender)
