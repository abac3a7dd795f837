"""Turns for those who have something to do, so that nobody holds up the others, and none of them the event loop.

Who comes while nobody waits begins at once, without any detour. Each works for a slice of time, then the next one
does; after a few slices the loop has its turn. Time counts, not pieces of work: those may cost what they like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SLICE_S = 0.001
"""For one of several who wait."""
TURN_S = 0.004
"""For all of them, before the loop has its turn."""


class Worker(Protocol):
    def work(self, until_s: float) -> bool:
        """Work until about that time; whether there is nothing left that could be done now."""
        ...


class Turns:
    """`now_s` is any clock that goes forward; `call_soon` calls a function after the loop has had its turn."""

    def __init__(self, now_s: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._now_s = now_s
        self._call_soon = call_soon
        self._waiting: dict[Worker, None] = {}
        """The next one first."""
        self._at_once_s = 0.0
        """Time worked at once since the loop is known to have had its turn."""
        self._called = False

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, worker: Worker) -> None:
        """A worker has something to do."""
        if worker in self._waiting:
            return
        if not self._called and self._at_once_s < TURN_S:
            begin_s = self._now_s()
            done = worker.work(begin_s + SLICE_S)
            self._at_once_s += self._now_s() - begin_s
            if done:
                return
        self._waiting[worker] = None
        self._call()

    def leave(self, worker: Worker) -> None:
        """A worker has nothing to do any more."""
        self._waiting.pop(worker, None)

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Some slices, for those who have waited longest."""
        self._called = False
        self._at_once_s = 0.0
        waiting = self._waiting
        now_s = self._now_s()
        end_s = now_s + TURN_S
        try:
            while waiting and now_s < end_s:
                worker = next(iter(waiting))
                del waiting[worker]
                if not worker.work(now_s + SLICE_S):
                    waiting[worker] = None
                now_s = self._now_s()
        finally:
            if waiting:
                self._call()
