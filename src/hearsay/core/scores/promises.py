"""Promises of peers to send requested messages (rules: `core.rules.deliveries`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.rules import deliveries
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.shell.parameters import Parameters, choice, integer, milliseconds
from hearsay.core.shell.randomness import below

Draw: TypeAlias = Callable[[], int]
"""Returns a 64-bit hash of the circumstances of a choice, such as the peer and the heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseParameters(Parameters):
    """The promises that are tracked, their time, and limits on their number."""

    owner: ClassVar[str] = "promises"

    tracked_promises: TrackedPromises = choice(TrackedPromises.ONE)
    """Ids of an IWANT that are promises."""
    iwant_followup_ms: int = milliseconds(3_000)
    """Time after which a promise is broken."""
    asked_peer_must_send: bool = False
    """Only a copy from the peer that was asked keeps a promise (jvm)."""
    max_promises_per_peer: int = integer(5_000, low=1)
    """Promises of one peer that are tracked."""
    max_promises: int = integer(100_000, low=1)
    """Promises of all peers that are tracked."""


class Promises:
    """Promises by message and by peer, in the order of their ends."""

    def __init__(self, parameters: PromiseParameters) -> None:
        self._parameters = parameters
        self._followup: Micros = parameters.iwant_followup_ms * 1000
        self._ends: dict[tuple[PeerId, MessageId], Micros] = {}
        """Ends of promises, the earliest first, since all last equally long."""
        self._of_message: dict[MessageId, dict[PeerId, None]] = {}
        self._of_peer: dict[PeerId, dict[MessageId, None]] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def ask(self, peer: PeerId, ids: Sequence[MessageId], now: Micros, draw: Draw) -> None:
        """Track a request for these messages to a peer. `draw` chooses the id if only one is tracked."""
        match self._parameters.tracked_promises:
            case TrackedPromises.ONE:
                if ids:
                    self._promise(peer, ids[below(draw(), len(ids))], now)
            case TrackedPromises.ALL:
                for message in ids:
                    self._promise(peer, message, now)
            case TrackedPromises.NONE:
                pass

    def keep(self, message: MessageId, sender: PeerId | None = None) -> None:
        """Note that a message has arrived. All its promises are kept (with `asked_peer_must_send`: the sender's)."""
        for peer in tuple(self._of_message.get(message, ())):
            if peer == sender or not self._parameters.asked_peer_must_send:
                self._end(peer, message)

    def reject(self, message: MessageId, reason: int, sender: PeerId | None = None) -> None:
        """Note that a message has arrived and is not used; `reason` is a `Reason`."""
        if deliveries.rejection_keeps(reason):
            self.keep(message, sender)

    def void(self, peer: PeerId) -> None:
        """Drop the promises of a peer whose messages the gater refuses."""
        for message in tuple(self._of_peer.get(peer, ())):
            self._end(peer, message)

    def take_broken(self, now: Micros) -> tuple[tuple[PeerId, int], ...]:
        """Return the number of promises that each peer has broken since the last call, peers ascending."""
        broken: Counter[PeerId] = Counter()
        while self._ends:
            peer, message = next(iter(self._ends))
            if not deliveries.is_broken(now, self._ends[peer, message]):
                break
            self._end(peer, message)
            broken[peer] += 1
        return tuple(sorted(broken.items(), key=lambda item: item[0]))

    @property
    def ends(self) -> Mapping[tuple[PeerId, MessageId], Micros]:
        """Return the end of each wait, as a live view."""
        return self._ends

    def sizes(self) -> tuple[tuple[str, int, int], ...]:
        return (("promises", len(self._ends), self._parameters.max_promises),)

    def _promise(self, peer: PeerId, message: MessageId, now: Micros) -> None:
        own = self._parameters
        of_peer = self._of_peer.get(peer, {})
        room = deliveries.has_room(len(of_peer), own.max_promises_per_peer, len(self._ends), own.max_promises)
        if room and message not in of_peer:
            self._ends[peer, message] = now + self._followup
            self._of_message.setdefault(message, {})[peer] = None
            self._of_peer.setdefault(peer, {})[message] = None

    def _end(self, peer: PeerId, message: MessageId) -> None:
        del self._ends[peer, message]
        for index, key, value in ((self._of_message, message, peer), (self._of_peer, peer, message)):
            del index[key][value]
            if not index[key]:
                del index[key]
