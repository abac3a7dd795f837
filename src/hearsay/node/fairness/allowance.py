"""What somebody may use of something: so much per second, and some of it at once. Debts are paid by waiting."""

from __future__ import annotations


class Allowance:
    __slots__ = ("_burst", "_per_s", "_since_s", "left")

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._since_s = now_s
        self.left = burst
        """Whoever uses some takes it away; less than nothing is a debt. It grows when it is asked for."""

    def wait_s(self, now_s: float) -> float:
        """How long to wait for the debt to be paid; 0 when there is none."""
        self.left = min(self._burst, self.left + (now_s - self._since_s) * self._per_s)
        self._since_s = now_s
        return max(0.0, -self.left / self._per_s)
