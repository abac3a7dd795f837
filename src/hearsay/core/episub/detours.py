"""Which lazy neighbour can stand in for an eager one that goes in good order.

A lazy neighbour that had a message with no more hops than we is not below us in that message's tree. If the message
came to us over the neighbour that goes now, a link to the other one joins what the loss parts.
"""

from __future__ import annotations

from collections.abc import Container

from hearsay.core.language.identifiers import PeerId


class Detours:
    __slots__ = ("_ahead", "_latest")

    def __init__(self) -> None:
        self._latest: PeerId | None = None
        self._ahead: dict[PeerId, tuple[PeerId, int]] = {}
        """Neighbours that were not below us when we last compared: over whom the message came to us, and by how many
        hops they had it earlier, negative."""

    def came_from(self, parent: PeerId | None) -> None:
        """The newest message; None when it is our own."""
        self._latest = parent

    def compare(self, parent: PeerId | None, own_hops: int, announcer: PeerId, hops: int) -> None:
        """A message came over `parent`; `announcer` had it after `hops`."""
        if parent is not None and announcer != parent and hops <= own_hops:
            self._ahead[announcer] = (parent, hops - own_hops)
        else:
            self._ahead.pop(announcer, None)

    def depends_on(self, peer: PeerId) -> bool:
        """Whether the newest message came over this neighbour: if so, its loss cuts us off and not it."""
        return self._latest == peer

    def around(self, peer: PeerId, among: Container[PeerId]) -> PeerId | None:
        """The nearest stand-in for a neighbour."""
        ways = [(by, other) for other, (parent, by) in self._ahead.items() if parent == peer and other in among]
        return min(ways)[1] if ways else None

    def forget(self, peer: PeerId) -> None:
        if self._latest == peer:
            self._latest = None
        self._ahead.pop(peer, None)
        for other in [other for other, (parent, _) in self._ahead.items() if parent == peer]:
            del self._ahead[other]

    def mentions(self, peer: PeerId) -> bool:
        return (
            self._latest == peer or peer in self._ahead or any(parent == peer for parent, _ in self._ahead.values())
        )
