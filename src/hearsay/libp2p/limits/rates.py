"""Rates: how often a peer may act, as bursts and allowances that refill."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar


class Allowance:
    __slots__ = ("_burst", "_per_s", "_since_s", "left")

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._since_s = now_s
        self.left = burst
        """Users subtract from it; a negative value is a debt. `wait_s` refills it."""

    def wait_s(self, now_s: float) -> float:
        """How long until the debt is paid; 0 without debt."""
        self.left = min(self._burst, self.left + (now_s - self._since_s) * self._per_s)
        self._since_s = now_s
        return max(0.0, -self.left / self._per_s)


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Rate:
    at_once: int
    per_s: float


class Rates(Generic[Key]):
    """Rates of many peers, by key. `now_s` is any monotonic clock.

    Kept is until when each has used up its rate: who is not over it at all need not be remembered.
    """

    def __init__(self, now_s: Callable[[], float], rate: Rate, remembered: int = 4096) -> None:
        self._now_s = now_s
        self._rate = rate
        self._remembered = remembered
        self._used_until: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._used_until)

    def wait_s(self, key: Key) -> float:
        """Once more, if that is 0; else so long it is too early, and nothing is counted."""
        early_s = self.early_s(key)
        if early_s:
            return early_s
        now_s = self._now_s()
        self._used_until[key] = max(self._used_until.pop(key, now_s), now_s) + 1 / self._rate.per_s
        if len(self._used_until) > self._remembered:
            self._forget(now_s)
        return 0.0

    def early_s(self, key: Key) -> float:
        """How long it is too early for once more; nothing is counted."""
        now_s, step_s = self._now_s(), 1 / self._rate.per_s
        until = max(self._used_until.get(key, now_s), now_s) + step_s
        early_s = until - now_s - self._rate.at_once * step_s
        return early_s if early_s > 1e-9 else 0.0

    def _forget(self, now_s: float) -> None:
        """Return the keys with a full budget; without any, the least recently used key."""
        before = len(self._used_until)
        self._used_until = {key: until for key, until in self._used_until.items() if until > now_s}
        if len(self._used_until) == before:
            del self._used_until[next(iter(self._used_until))]
