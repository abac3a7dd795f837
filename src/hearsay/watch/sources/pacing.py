"""The controls of a source: its pace, and the answers to requests of pages about the picture."""

from __future__ import annotations

from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.picture.picture import Changes


def answer(broadcast: Broadcast, request: dict[str, Any]) -> Any:
    """Return the answer to a request about the picture; None for other requests."""
    picture = broadcast.picture
    match request:
        case {"do": "places"}:
            broadcast.layout.request()
            return {}
        case {"do": "node", "place": int(place)} if is_place(broadcast, place):
            return picture.node(place)
        case {"do": "density", "message": int(serial), "late": int(late_us)}:
            return picture.density(serial, late_us) or {}
        case {"do": "degrees", "topic": int(topic)}:
            return picture.degrees(topic)
        case _:
            return None


def is_place(broadcast: Broadcast, place: int) -> bool:
    return type(place) is int and 0 <= place < len(broadcast.picture.drawn.numbers)


SLOWEST_PACE, FASTEST_PACE = 0.01, 1000.0


class Pacing:
    def __init__(self, pace: float | None, *, paused: bool = False) -> None:
        """Start the clock. `pace` is the source's time per real time; None is as fast as possible."""
        self.paused = paused
        self._pace = pace
        self._anchor: tuple[float, Micros] = (monotonic(), 0)

    def begin(self, now_us: Micros) -> None:
        """Restart the clock now, at a time of the source."""
        self._anchor = monotonic(), now_us

    @property
    def pace(self) -> float | None:
        return self._pace

    def state(self) -> Changes:
        return {"paused": self.paused, "pace": self._pace}

    def due_us(self) -> Micros | None:
        """Return the time that the source may have reached by now; None for no limit."""
        since_s, from_us = self._anchor
        if self.paused:
            return from_us
        return None if self._pace is None else from_us + round((monotonic() - since_s) * self._pace * 1e6)

    def perform(self, request: dict[str, Any], now_us: Micros) -> bool:
        """Perform a request about the pace. Return False for other requests."""
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
