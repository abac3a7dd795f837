"""Until when scores of peers that have gone are kept.

Rules:

* RETAIN-5: There are so many at most. Who has nothing against them goes first, then the longest gone: or whoever
  wants a bad score forgotten would come and go under new names until it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.rules.scores.retention import is_forgotten


class RetainedPeers:
    __slots__ = ("_blamed", "_blameless", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._blameless: dict[PeerId, Micros] = {}
        self._blamed: dict[PeerId, Micros] = {}
        """Until when; the longest gone first, but for those that were blamed later."""

    def __len__(self) -> int:
        return len(self._blameless) + len(self._blamed)

    def keep(self, peer: PeerId, until: Micros, blameless: bool) -> PeerId | None:
        """The one that is forgotten instead, if there is no room."""
        (self._blameless if blameless else self._blamed)[peer] = until
        if len(self) <= self._most:
            return None
        group = self._blameless or self._blamed
        oldest = next(iter(group))
        del group[oldest]
        return oldest

    def blame(self, peer: PeerId) -> None:
        """Something against the peer comes out while it is away: a verdict, a broken promise."""
        until = self._blameless.pop(peer, None)
        if until is not None:
            self._blamed[peer] = until

    def take_back(self, peer: PeerId) -> None:
        self._blameless.pop(peer, None)
        self._blamed.pop(peer, None)

    def expire(self, now: Micros) -> Iterator[PeerId]:
        """Those whose time is over; they are kept no longer."""
        for group in (self._blameless, self._blamed):
            while group:
                oldest = next(iter(group))
                if not is_forgotten(now, group[oldest]):
                    break
                del group[oldest]
                yield oldest
