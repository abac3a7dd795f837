"""Rows of rare events, made from their forms; those of frequent ones have functions (`event_rows.py`)."""

from __future__ import annotations

from typing import cast

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.schema import FORMS, NONE, WIDTH, TraceEvent

_PLACES = [tuple(map(int, FORMS[event].columns)) for event in TraceEvent]
"""Columns beside the time and the event, by event."""
_EMPTY = (NONE,) * (WIDTH - 2)


def formed_row(event: TraceEvent, time_us: Micros, *values: int) -> Codes:
    """Return a row with these values in the columns that `FORMS` declares for the event."""
    row = [time_us, int(event), *_EMPTY]
    for place, value in zip(_PLACES[event], values, strict=True):
        row[place] = value
    return cast("Codes", tuple(row))
