"""Which peer each lacking part of a group is asked of: one at a time, and another if it does not send it.

Peers offer what they say they have. A part is asked of who offers it first; if it does not come within a whole
heartbeat, of the one among the others who is asked for least. Who did not send a part is asked for it again when it
offers it again. Whatever peers say, a group has so many offers, and each part is asked of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.identifiers import PeerId
from hearsay.partial.claims import members, set_of

MAX_OFFERS = 256
"""Of a group; further peers are asked for nothing."""
PATIENCE = 1
"""Whole heartbeats for which a part is waited for."""


@dataclass(slots=True)
class _Ask:
    peer: PeerId
    heartbeats: int = 0


class Asks:
    __slots__ = ("_asked", "_offers")

    def __init__(self) -> None:
        self._asked: dict[int, _Ask] = {}
        self._offers: dict[PeerId, int] = {}

    def of(self, peer: PeerId) -> int:
        """The parts that this peer is asked for."""
        return set_of(part for part, ask in self._asked.items() if ask.peer == peer)

    def offered(self, peer: PeerId, has: int, lacking: int) -> None:
        """A peer has these parts; it is asked for those that are lacking and asked of nobody else."""
        if peer not in self._offers and len(self._offers) >= MAX_OFFERS:
            return
        self._offers[peer] = has
        for part in members(has & lacking & ~set_of(self._asked)):
            self._asked[part] = _Ask(peer)

    def arrived(self, parts: int) -> None:
        for part in [part for part in self._asked if parts >> part & 1]:
            del self._asked[part]

    def beat(self) -> list[PeerId]:
        """A heartbeat has passed. Those who are asked for more than before, or for less, ascending."""
        changed: set[PeerId] = set()
        for part, ask in sorted(self._asked.items()):
            ask.heartbeats += 1
            if ask.heartbeats <= PATIENCE:
                continue
            changed.add(ask.peer)
            self._offers[ask.peer] &= ~(1 << part)
            del self._asked[part]
            other = self._least_asked(part)
            if other is not None:
                self._asked[part] = _Ask(other)
                changed.add(other)
        return sorted(changed)

    def _least_asked(self, part: int) -> PeerId | None:
        """Who offers a part; of several, who is asked for the fewest, and of those who offered first."""
        offering = [peer for peer, has in self._offers.items() if has >> part & 1]
        return min(offering, key=lambda peer: self.of(peer).bit_count(), default=None)
