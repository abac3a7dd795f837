"""A budget that refills at a constant rate, up to a burst. A user in debt has to wait."""

from __future__ import annotations


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
