"""Rows of rare events, made from `schema.FORMS`, and rows of scores. Nodes use this module, so it needs no numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import cast

from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.state import ScoreParts
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.schema import FORMS, NONE, WIDTH, TraceEvent

_PLACES = [tuple(map(int, FORMS[event].columns)) for event in TraceEvent]
"""Columns in addition to the time and the event, by event."""
_EMPTY = (NONE,) * (WIDTH - 2)


def formed_row(event: TraceEvent, time_us: Micros, *values: int) -> Codes:
    """Return a row with these values in the columns that `FORMS` declares for the event."""
    row = [time_us, int(event), *_EMPTY]
    for place, value in zip(_PLACES[event], values, strict=True):
        row[place] = value
    return cast("Codes", tuple(row))


_FLOAT, _INTEGER = Struct("<d"), Struct("<q")
# In the order of `PeerParts` and `TopicParts`.
_OF_PEER = (
    TraceEvent.SCORE_TOPICS,
    TraceEvent.SCORE_P5,
    TraceEvent.SCORE_P6,
    TraceEvent.SCORE_P7,
    TraceEvent.SCORE_SLOW,
)
_OF_TOPIC = (
    TraceEvent.SCORE_P1,
    TraceEvent.SCORE_P2,
    TraceEvent.SCORE_P3,
    TraceEvent.SCORE_P3B,
    TraceEvent.SCORE_P4,
)


def bits_of(number: float) -> int:
    """Return the bits of a float64 as a 64-bit integer. -0.0 counts as 0.0."""
    return _INTEGER.unpack(_FLOAT.pack(number + 0.0))[0]


def number_of(bits: int) -> float:
    """Return the float64 with these bits. For a column use `bytes.view(numpy.float64)`."""
    return _FLOAT.unpack(_INTEGER.pack(bits))[0]


def score_rows(
    time_us: int, observer: int, peer: int, parts: ScoreParts, topic_numbers: Mapping[TopicId, int]
) -> Iterator[Codes]:
    """Yield the rows of the score of one peer at one router."""
    yield formed_row(TraceEvent.SCORE, time_us, observer, peer, bits_of(parts.score))
    for event, number in zip(_OF_PEER, parts.peer, strict=True):
        if number:
            yield formed_row(event, time_us, observer, peer, bits_of(number))
    for topic, counted in parts.topics:
        for event, number in zip(_OF_TOPIC, counted, strict=True):
            if number:
                yield formed_row(event, time_us, observer, peer, topic_numbers[topic], bits_of(number))
