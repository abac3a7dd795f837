"""Shares the time of the event loop between peers that have work waiting.

A worker that arrives while nothing waits runs at once. Otherwise workers run for slices of time, and the one that has
used least time goes next; after a few slices the event loop runs. So a peer that sends little does not wait for the
slices of many that flood. Idle time earns nothing: a worker that arrives counts as one that used as much as the last.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

SLICE_S = 0.001
"""For one of several workers that wait."""
TURN_S = 0.004
"""For all workers, before the event loop runs."""


class Worker(Protocol):
    used_s: float
    """Kept by the turns: what the worker has used, or counts as having used."""

    def work(self, until_s: float) -> bool:
        """Work until about that time; true when nothing is left that can be done now."""
        ...


class Turns:
    """`now_s` is a monotonic clock; `call_soon` calls a function in the loop's next iteration."""

    def __init__(self, now_s: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._now_s = now_s
        self._call_soon = call_soon
        self._waiting: dict[Worker, int] = {}
        """The number of each one's entry in `_order`."""
        self._order: list[tuple[float, int, Worker]] = []
        """A heap by used time, then by arrival; entries of workers that left are skipped."""
        self._entries = 0
        self._used_s = 0.0
        """Time that the last worker had used at its start."""
        self._at_once_s = 0.0
        """Time spent on work at arrival since the event loop last ran."""
        self._called = False

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, worker: Worker) -> None:
        """A worker has something to do."""
        if worker in self._waiting:
            return
        worker.used_s = max(worker.used_s, self._used_s)
        if not self._called and self._at_once_s < TURN_S:
            begin_s = self._now_s()
            done = worker.work(begin_s + SLICE_S)
            spent_s = self._now_s() - begin_s
            worker.used_s += spent_s
            self._at_once_s += spent_s
            if done:
                return
        self._enter(worker)
        self._call()

    def leave(self, worker: Worker) -> None:
        """A worker has nothing more to do."""
        self._waiting.pop(worker, None)

    def _enter(self, worker: Worker) -> None:
        self._entries += 1
        self._waiting[worker] = self._entries
        heappush(self._order, (worker.used_s, self._entries, worker))

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Run some slices."""
        self._called = False
        self._at_once_s = 0.0
        waiting = self._waiting
        now_s = self._now_s()
        end_s = now_s + TURN_S
        try:
            while waiting and now_s < end_s:
                used_s, number, worker = heappop(self._order)
                if waiting.get(worker) != number:
                    continue
                del waiting[worker]
                self._used_s = used_s
                done = worker.work(now_s + SLICE_S)
                before_s, now_s = now_s, self._now_s()
                worker.used_s += now_s - before_s
                if not done:
                    self._enter(worker)
        finally:
            if waiting:
                self._call()
            else:
                self._order.clear()
