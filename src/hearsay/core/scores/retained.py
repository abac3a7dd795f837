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
    __slots__ = ("_blameless", "_most", "_until")

    def __init__(self, most: int) -> None:
        self._most = most
        self._until: dict[PeerId, Micros] = {}
        """Until when each is kept; the longest gone first."""
        self._blameless: dict[PeerId, None] = {}
        """Those with nothing against them; the longest gone first."""

    def __len__(self) -> int:
        return len(self._until)

    def keep(self, peer: PeerId, until: Micros, blameless: bool) -> PeerId | None:
        """The one that is forgotten instead, if there is no room."""
        self._until[peer] = until
        if blameless:
            self._blameless[peer] = None
        if len(self) <= self._most:
            return None
        oldest = next(iter(self._blameless or self._until))
        self.take_back(oldest)
        return oldest

    def blame(self, peer: PeerId) -> None:
        """Something against the peer comes out while it is away: a verdict, a broken promise."""
        self._blameless.pop(peer, None)

    def take_back(self, peer: PeerId) -> None:
        self._until.pop(peer, None)
        self._blameless.pop(peer, None)

    def expire(self, now: Micros) -> Iterator[PeerId]:
        """Those whose time is over; they are kept no longer."""
        while self._until:
            oldest = next(iter(self._until))
            if not is_forgotten(now, self._until[oldest]):
                return
            self.take_back(oldest)
            yield oldest
