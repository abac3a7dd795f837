"""Slots for the work of several peers, shared out fairly.

A peer may have as many slots as stay free besides its own: a single peer gets half of them, and n peers that take all
they can leave as many free as each of them has. So the next peer finds one at once. Free slots go round.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hearsay.libp2p.names.peer_id import PeerId

Work = TypeVar("Work", bound=Hashable)


class FairSlots(Generic[Work]):
    """`start` is called with a piece of work that has its slot, which is the peer's until `leave`."""

    def __init__(self, count: int, start: Callable[[PeerId, Work], None]) -> None:
        self._free = count
        self._start = start
        self._running: dict[PeerId, int] = {}
        self._waiting: dict[PeerId, OrderedDict[Work, None]] = {}
        self._turns: deque[PeerId] = deque()
        """The peers that wait, the next one first."""

    def enter(self, peer: PeerId, work: Work) -> None:
        """Wait for a slot, behind what the peer waits with already."""
        if peer not in self._waiting:
            self._waiting[peer] = OrderedDict()
            self._turns.append(peer)
        self._waiting[peer][work] = None
        self._fill()

    def withdraw(self, peer: PeerId, work: Work) -> None:
        """It waits no more."""
        waiting = self._waiting.get(peer)
        if waiting is not None and work in waiting:
            del waiting[work]
            if not waiting:
                del self._waiting[peer]
                self._turns.remove(peer)

    def leave(self, peer: PeerId) -> None:
        """A slot of the peer's is free again."""
        self._free += 1
        self._running[peer] -= 1
        if not self._running[peer]:
            del self._running[peer]
        self._fill()

    def clear(self) -> None:
        """Nothing that waits is started any more."""
        self._waiting.clear()
        self._turns.clear()

    def _fill(self) -> None:
        passed_over = 0
        while self._free and passed_over < len(self._turns):
            peer = self._turns.popleft()
            running = self._running.get(peer, 0)
            if running and running >= self._free:
                self._turns.append(peer)
                passed_over += 1
                continue
            passed_over = 0
            waiting = self._waiting[peer]
            work, _ = waiting.popitem(last=False)
            if waiting:
                self._turns.append(peer)
            else:
                del self._waiting[peer]
            self._free -= 1
            self._running[peer] = running + 1
            self._start(peer, work)
