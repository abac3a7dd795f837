"""Shares the time of the event loop between peers that have work waiting.

A worker that arrives while nothing waits runs at once. Otherwise each worker runs for a slice of time, then the next
one does; after a few slices the event loop runs. Workers are held to time, not to a number of items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SLICE_S = 0.001
"""For one of several workers that wait."""
TURN_S = 0.004
"""For all workers, before the event loop runs."""


class Worker(Protocol):
    def work(self, until_s: float) -> bool:
        """Work until about that time; true when nothing is left that can be done now."""
        ...


class Turns:
    """`now_s` is a monotonic clock; `call_soon` calls a function in the loop's next iteration."""

    def __init__(self, now_s: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._now_s = now_s
        self._call_soon = call_soon
        self._waiting: dict[Worker, None] = {}
        """The next one first."""
        self._at_once_s = 0.0
        """Time spent on work at arrival since the event loop last ran."""
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
        """A worker has nothing more to do."""
        self._waiting.pop(worker, None)

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Run some slices, of the workers that have waited longest."""
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
