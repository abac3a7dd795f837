"""Controls of a source: its pace, and questions of pages."""

from __future__ import annotations

from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.picture.picture import Changes


def answer(broadcast: Broadcast, request: dict[str, Any]) -> Any:
    """The answer; none if the request is no question about the picture."""
    picture = broadcast.picture
    match request:
        case {"do": "places"}:
            broadcast.places.want()
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
