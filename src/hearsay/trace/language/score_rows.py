"""The rows of a score: the whole, and a row for each part that is not 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.state import ScoreParts
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.formed_rows import formed_row
from hearsay.trace.language.schema import TraceEvent

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
    """The bits of a float64 as an integer of 64 bits. A zero has no sign."""
    return _INTEGER.unpack(_FLOAT.pack(number + 0.0))[0]


def number_of(bits: int) -> float:
    """The number that has these bits; columns do it at once: `bytes.view(numpy.float64)`."""
    return _FLOAT.unpack(_INTEGER.pack(bits))[0]


def score_rows(
    time_us: int, observer: int, peer: int, parts: ScoreParts, topic_numbers: Mapping[TopicId, int]
) -> Iterator[Codes]:
    """What one router thinks of one peer."""
    yield formed_row(TraceEvent.SCORE, time_us, observer, peer, bits_of(parts.score))
    for event, number in zip(_OF_PEER, parts.peer, strict=True):
        if number:
            yield formed_row(event, time_us, observer, peer, bits_of(number))
    for topic, counted in parts.topics:
        for event, number in zip(_OF_TOPIC, counted, strict=True):
            if number:
                yield formed_row(event, time_us, observer, peer, topic_numbers[topic], bits_of(number))
