"""How late the event loop comes to what is due: the sign that a node has more to do than it can.

A timer looks four times a second; what it is late by goes into a histogram. A loop that is blocked for long shows one
long delay.
"""

from __future__ import annotations

import asyncio

from hearsay.node.metrics.durations import Histogram

LOOK_S = 0.25
BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class LoopDelay:
    """Measures from its making until it is closed."""

    def __init__(self) -> None:
        self.late = Histogram(BOUNDS_S)
        self._loop = asyncio.get_running_loop()
        self._due_s = 0.0
        self._arm()

    def close(self) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        self._due_s = self._loop.time() + LOOK_S
        self._timer = self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        self.late.note(max(0.0, self._loop.time() - self._due_s))
        self._arm()
