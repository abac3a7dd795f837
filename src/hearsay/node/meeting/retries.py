"""How long to wait before somebody who could not be reached is tried again."""

from __future__ import annotations

from random import random

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0


class Retries:
    """1, 2, 4 … 60 seconds, each with up to half of it more, so that a crowd does not come back at once."""

    def __init__(self, first_s: float = FIRST_RETRY_S) -> None:
        self._first_s = self._next_s = first_s

    def wait_s(self) -> float:
        """After one more failure."""
        wait_s = self._next_s * (1 + random() / 2)
        self._next_s = min(2 * self._next_s, LAST_RETRY_S)
        return wait_s

    def succeeded(self) -> None:
        self._next_s = self._first_s
