"""What a page asks about the picture, whatever its source."""

from __future__ import annotations

from typing import Any

from hearsay.watch.broadcast import Broadcast


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
