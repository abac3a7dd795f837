"""The clock of a source: the time that the source may have reached by now, and requests that change its pace."""

from __future__ import annotations

from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.picture import Changes

SLOWEST_PACE, FASTEST_PACE = 0.01, 1000.0
"""Limits of the pace that a page may request."""


class Pacing:
    """The clock of a source, which users may pause and whose pace they may change."""

    def __init__(self, pace: float | None, *, paused: bool = False) -> None:
        """Start the clock at 0. `pace` is the source's time per real time; None means as fast as possible."""
        self.paused = paused
        self.pace = pace
        self._anchor: tuple[float, Micros] = (monotonic(), 0)

    def begin(self, now_us: Micros) -> None:
        """Set the clock to `now_us`, a time of the source. From now on, it continues at the pace."""
        self._anchor = monotonic(), now_us

    def state(self) -> Changes:
        """Return the pace, and whether the clock is paused, in the form for browsers."""
        return {"paused": self.paused, "pace": self.pace}

    def due_us(self) -> Micros | None:
        """Return the time that the source may have reached by now; None means no limit."""
        since_s, from_us = self._anchor
        if self.paused:
            return from_us
        return None if self.pace is None else from_us + round((monotonic() - since_s) * self.pace * 1e6)

    def perform(self, request: dict[str, Any], now_us: Micros) -> Changes | None:
        """Perform a request about the pace, and return its answer. Return None for all other requests."""
        match request:
            case {"do": "pause", "paused": bool(paused)}:
                self.paused = paused
            case {"do": "pace", "pace": None}:
                self.pace = None
            case {"do": "pace", "pace": int() | float() as pace} if SLOWEST_PACE <= pace <= FASTEST_PACE:
                self.pace = float(pace)
            case _:
                return None
        self.begin(now_us)
        return {}
