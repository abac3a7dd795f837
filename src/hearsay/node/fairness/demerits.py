"""Demerits by name: they add up, fade by half every half-life, and who has too many is out for a while.

Bounded: beyond `limit` names those that matter least are forgotten, a quarter at a time; who is out matters most,
then who has most demerits.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

FADED = 1.0
"""Who has fewer demerits starts anew: what came before is not told any more."""


@dataclass(slots=True)
class _Account:
    at_s: float
    demerits: float = 0.0
    """At that time; fewer now."""
    out_until_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict[str, int])


class Demerits(Generic[Name]):
    """The accounts of peers, or of addresses. Times are seconds of any clock that goes forward."""

    def __init__(self, out_at: float, out_s: float, half_life_s: float, limit: int) -> None:
        self._out_at = out_at
        self._out_s = out_s
        self._half_life_s = half_life_s
        self._limit = limit
        self._accounts: dict[Name, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, name: Name, now_s: float) -> float:
        account = self._accounts.get(name)
        return 0.0 if account is None else self._faded(account, now_s)

    def add(self, name: Name, demerits: float, what: str, count: int, now_s: float) -> bool:
        """`count` times `what`, worth so many demerits in all; True if that puts it out. Who is out gets no more."""
        account = self._accounts.get(name)
        if account is None:
            account = _Account(now_s, out_until_s=now_s)
            self._make_room(now_s)
            self._accounts[name] = account
        elif now_s < account.out_until_s:
            return False
        before = self._faded(account, now_s)
        if before < FADED:
            account.counts.clear()
        account.counts[what] = account.counts.get(what, 0) + count
        account.at_s = now_s
        account.demerits = before + demerits
        if account.demerits < self._out_at:
            return False
        account.demerits = 0.0
        account.out_until_s = now_s + self._out_s
        return True

    def out_s(self, name: Name, now_s: float) -> float:
        """How much longer it is out; 0 if it is not."""
        account = self._accounts.get(name)
        return 0.0 if account is None else max(0.0, account.out_until_s - now_s)

    def counts(self, name: Name) -> dict[str, int]:
        """How often it did what, since it last had nothing to answer for."""
        account = self._accounts.get(name)
        return {} if account is None else dict(account.counts)

    def _faded(self, account: _Account, now_s: float) -> float:
        return account.demerits * 0.5 ** ((now_s - account.at_s) / self._half_life_s)

    def _make_room(self, now_s: float) -> None:
        if len(self._accounts) < self._limit:
            return
        ranked = sorted(
            self._accounts,
            key=lambda name: (self.out_s(name, now_s), self.of(name, now_s)),
        )
        for name in ranked[: max(1, self._limit // 4)]:
            del self._accounts[name]
