"""Which messages of each author were here, by their sequence numbers: a replay is known however late it comes.

An author's numbers grow. What is above the highest one that was taken is new; among the few below it those that were
taken are known one by one, since messages overtake each other on their ways; what is older counts as a replay. There
is no end of authors, so those that were silent for longest are forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from hearsay.libp2p.names.peer_id import PeerId

WINDOW = 1024
"""How far a message may come behind a later one of its author."""
NUMBER_BYTES = 8

_ALL_TAKEN = (1 << WINDOW) - 1


class SequenceNumbers:
    """`authors` are remembered at most; `highest` is what was taken of each before, by somebody else or earlier."""

    def __init__(self, authors: int, highest: Iterable[tuple[PeerId, int]] = ()) -> None:
        self._limit = authors
        self._authors: OrderedDict[PeerId, _Author] = OrderedDict()
        self.changes = 0
        """How often something was taken."""
        for author, number in highest:
            self._keep(author, _Author(number, _ALL_TAKEN))

    def is_new(self, author: PeerId, number: bytes) -> bool:
        known = self._authors.get(author)
        if known is None:
            return True
        behind = known.highest - int.from_bytes(number, "big")
        return behind < 0 or (behind < WINDOW and not known.taken >> behind & 1)

    def take(self, author: PeerId, number: bytes) -> bool:
        """Remember a message; False if it was here, or is too old to be known."""
        if not self.is_new(author, number):
            return False
        value = int.from_bytes(number, "big")
        known = self._authors.pop(author, None) or _Author(value, 0)
        ahead = value - known.highest
        if ahead > 0:
            known.taken = known.taken << ahead & _ALL_TAKEN if ahead < WINDOW else 0
            known.highest = value
        known.taken |= 1 << known.highest - value
        self._keep(author, known)
        self.changes += 1
        return True

    def highest(self) -> list[tuple[PeerId, int]]:
        """Of each author; who was silent for longest comes first."""
        return [(author, known.highest) for author, known in self._authors.items()]

    def _keep(self, author: PeerId, known: _Author) -> None:
        self._authors[author] = known
        if len(self._authors) > self._limit:
            self._authors.popitem(last=False)


class _Author:
    """Bit i of `taken` stands for the number i below the highest."""

    __slots__ = ("highest", "taken")

    def __init__(self, highest: int, taken: int) -> None:
        self.highest = highest
        self.taken = taken
