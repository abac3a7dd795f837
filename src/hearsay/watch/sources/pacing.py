"""How fast a source goes: its time over the clock's, stopped and changed from the page."""

from __future__ import annotations

from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.picture.picture import Changes

SLOWEST_PACE, FASTEST_PACE = 0.01, 1000.0


class Pacing:
    def __init__(self, pace: float | None, *, paused: bool = False) -> None:
        """`pace` is the source's time over time; none is as fast as it goes."""
        self.paused = paused
        self._pace = pace
        self._anchor: tuple[float, Micros] = (monotonic(), 0)

    def begin(self, now_us: Micros) -> None:
        """The clock goes on from here."""
        self._anchor = monotonic(), now_us

    @property
    def pace(self) -> float | None:
        return self._pace

    def state(self) -> Changes:
        return {"paused": self.paused, "pace": self._pace}

    def due_us(self) -> Micros | None:
        """How far the source may be by now; none if nothing holds it."""
        since_s, from_us = self._anchor
        if self.paused:
            return from_us
        return None if self._pace is None else from_us + round((monotonic() - since_s) * self._pace * 1e6)

    def perform(self, request: dict[str, Any], now_us: Micros) -> bool:
        """Do what is asked; whether that was about the pace."""
        match request:
            case {"do": "pause", "paused": bool(paused)}:
                self.paused = paused
            case {"do": "pace", "pace": None}:
                self._pace = None
            case {"do": "pace", "pace": int() | float() as pace} if SLOWEST_PACE <= pace <= FASTEST_PACE:
                self._pace = float(pace)
            case _:
                return False
        self.begin(now_us)
        return True
