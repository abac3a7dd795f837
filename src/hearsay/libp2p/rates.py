"""Limits of how often a peer may act (rates, allowances), and turns in which peers share the event loop.

A worker handles the input of one peer: a connection, or the streams of a peer to a node. A worker with new work runs
at once for a slice of time if no other worker waits, unless such slices have used `TURN_S` since the last turn. All
other work is done in slices in turns. The worker that has used the least time is next; after a few slices the event
loop runs. So a peer that sends little does not wait for many peers that flood. A worker gets no advantage from idle
time: with new work, its used time is at least that of the worker that ran last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar


class Allowance:
    """A token bucket. It begins with its maximum, `burst` tokens, and gets `per_s` tokens per second."""

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._since_s = now_s
        self.left = burst
        """The number of tokens. Callers subtract from it; a negative number is a debt. `wait_s` adds new tokens."""

    def wait_s(self, now_s: float) -> float:
        """Add the tokens of the time until `now_s`. Return the seconds until the debt is paid; 0 without debt."""
        self.left = min(self._burst, self.left + (now_s - self._since_s) * self._per_s)
        self._since_s = now_s
        return max(0.0, -self.left / self._per_s)


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Rate:
    """A maximum rate: `at_once` uses in a burst, then `per_s` uses per second."""

    at_once: int
    per_s: float


class Rates(Generic[Key]):
    """A maximum rate for each of many keys, such as peers. `now_s` is any monotonic clock in seconds.

    A key is idle when its full burst is available again. The time at which it becomes idle is stored. If more
    than `remembered` keys are stored, all idle keys are deleted; if no key is idle, the least recently used key is
    deleted. The past uses of a deleted key no longer count.
    """

    def __init__(self, now_s: Callable[[], float], rate: Rate, remembered: int = 4096) -> None:
        self._now_s = now_s
        self._rate = rate
        self._remembered = remembered
        self._used_until: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._used_until)

    def use_or_wait_s(self, key: Key) -> float:
        """Record a use and return 0. If it is too early for a use, record nothing and return the seconds to wait."""
        early_s = self.remaining_wait_s(key)
        if early_s:
            return early_s
        now_s = self._now_s()
        self._used_until[key] = max(self._used_until.pop(key, now_s), now_s) + 1 / self._rate.per_s
        if len(self._used_until) > self._remembered:
            self._forget(now_s)
        return 0.0

    def remaining_wait_s(self, key: Key) -> float:
        """Return the seconds until another use is allowed. Record nothing."""
        now_s, step_s = self._now_s(), 1 / self._rate.per_s
        until = max(self._used_until.get(key, now_s), now_s) + step_s
        early_s = until - now_s - self._rate.at_once * step_s
        return early_s if early_s > 1e-9 else 0.0

    def _forget(self, now_s: float) -> None:
        """Delete the idle keys; if there are none, the least recently used key."""
        before = len(self._used_until)
        self._used_until = {key: until for key, until in self._used_until.items() if until > now_s}
        if len(self._used_until) == before:
            del self._used_until[next(iter(self._used_until))]


SLICE_S = 0.001
"""Seconds of one slice of a worker."""
TURN_S = 0.004
"""Seconds of all slices before the event loop runs."""


class Worker(Protocol):
    """A handler of one peer's input."""

    used_s: float
    """Used time in seconds, by which workers are ordered. `Turns` sets it."""

    def work(self, until_s: float) -> bool:
        """Work until about `until_s`, a time of the clock of `Turns`. Returns True if no work can be done now."""
        ...


class Turns:
    """The scheduler of workers. `now_s` is a monotonic clock in seconds, `call_soon` a method of the event loop."""

    def __init__(self, now_s: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._now_s = now_s
        self._call_soon = call_soon
        self._waiting: dict[Worker, int] = {}
        """The waiting workers, each with the number of its entry in `_order`."""
        self._order: list[tuple[float, int, Worker]] = []
        """A heap ordered by used time, then by arrival. Entries of workers that left are skipped."""
        self._entries = 0
        self._used_s = 0.0
        """Used time of the last worker when its slice began."""
        self._at_once_s = 0.0
        """Seconds that workers have used in `schedule` since the last `_turn`."""
        self._called = False

    def __len__(self) -> int:
        return len(self._waiting)

    def schedule(self, worker: Worker) -> None:
        """Handle the new work of a worker: now if possible, otherwise in the worker's turn."""
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
        """Remove a worker that has no more work. Do nothing if the worker does not wait."""
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
        """Run slices of the waiting workers for about `TURN_S`."""
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
