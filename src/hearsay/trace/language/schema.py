"""The trace format: one row of 13 integers per event, and functions that make rows of rare events and of scores.

Rules:

* A row is 13 int64 in the order of `COLUMNS`; -1 (`NONE`) means that the column has no value in this row. Code that
  runs often handles rows as integers. Code for people and tools uses `TraceRow`, with None and enumerations.
* The codes of events, kinds, vias and reasons are part of the format and of the trace hash: new codes are appended,
  and no code is renumbered. The enumerations of kinds, vias and reasons are those of `core`. Files and pages show a
  code as the name of the enumeration's member in lower case (`wire_name`).
* A SEND_RPC row stands for one part of an RPC. `kind` is the kind of the part: `peer` sends the part, `remote`
  receives it, and `delay_us` is the time until it arrives. A DROP_RPC row means that a part did not arrive; the time
  of the row is usually the time at which the part would have arrived.
* So a simulated trace stores neither RECV_RPC nor DUPLICATE rows: both are derived (`with_derived` in `rows.py`).
* In SCORE rows and in the rows of a score's parts, `bytes` has the bits of a float64. Only these rows may have
  `bytes` below -1. The bits of the integer -1 are a NaN as a float64, so no score is mistaken for a missing value.
* Every row belongs to one class, and every class has its own folder. The class `message` has all rows about copies of
  messages, so that all rows of a message are in one class.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from importlib.resources import files
from operator import attrgetter
from struct import Struct
from typing import NamedTuple, cast

from hearsay.core.language.actions import OverlayChange, Reason, Via, fast_init
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.rpc import PartKind
from hearsay.core.shell.guarantees import ScoreParts
from hearsay.trace.language.event_rows import Codes


class TraceEvent(IntEnum):
    """The events of a trace. `events.toml` has their meanings."""

    PUBLISH = 0
    DELIVER = 1
    DUPLICATE = 2
    REJECT = 3
    ADD_PEER = 4
    REMOVE_PEER = 5
    RECV_RPC = 6
    SEND_RPC = 7
    DROP_RPC = 8
    JOIN = 9
    LEAVE = 10
    GRAFT = 11
    PRUNE = 12
    NODE_UP = 13
    NODE_DOWN = 14
    STATE = 15
    NEIGHBOR_UP = 16
    NEIGHBOR_DOWN = 17
    PASSIVE_ADD = 18
    PASSIVE_REMOVE = 19
    EAGER = 20
    LAZY = 21
    SCORE = 22
    SCORE_TOPICS = 23
    SCORE_P1 = 24
    SCORE_P2 = 25
    SCORE_P3 = 26
    SCORE_P3B = 27
    SCORE_P4 = 28
    SCORE_P5 = 29
    SCORE_P6 = 30
    SCORE_P7 = 31
    SCORE_SLOW = 32
    DIAL = 33


OVERLAY_EVENTS = {change: TraceEvent[change.name] for change in OverlayChange}


class Column(IntEnum):
    """The index of each column in a row. Times and delays are in microseconds."""

    TIME_US = 0
    EVENT = 1
    KIND = 2
    PEER = 3
    REMOTE = 4
    TOPIC = 5
    MESSAGE = 6
    HOPS = 7
    BYTES = 8
    COUNT = 9
    VIA = 10
    DELAY_US = 11
    REASON = 12


def wire_name(code: IntEnum) -> str:
    """Return the name by which files show an event, kind, via, reason or column."""
    return code.name.lower()


COLUMNS = tuple(map(wire_name, Column))
WIDTH = len(COLUMNS)
NONE = -1
CODED: dict[Column, type[IntEnum]] = {
    Column.EVENT: TraceEvent, Column.KIND: PartKind, Column.VIA: Via, Column.REASON: Reason
}  # fmt: skip
"""The columns whose values are codes, and the enumerations of these codes."""

CLASSES = ("message", "rpc", "mesh", "node", "score", "exchange")
TRACE_FOLDER = "trace"


def number_of_id(message_id: bytes) -> int:
    """Return the number of a message in traces of live nodes: 63 bits of a hash of its id, the same at every node."""
    return int.from_bytes(blake2b(message_id, digest_size=8).digest(), "big") >> 1


def class_folder(trace_class: str) -> str:
    """Return the folder of a class, relative to the run folder. Because its name begins with `class=`, query engines
    read it as a partition.
    """
    return f"{TRACE_FOLDER}/class={trace_class}"


class EventForm(NamedTuple):
    """The declaration of an event in `events.toml`. It determines the rows that `event_rows.py` and `formed_row`
    create.
    """

    trace_class: str
    columns: tuple[Column, ...]
    """The columns that have a value in rows of the event, without time and event."""
    meaning: str


_EVENTS: dict[str, dict[str, str]] = tomllib.loads(
    files("hearsay.trace.language").joinpath("events.toml").read_text(encoding="utf-8")
)
FORMS = {
    TraceEvent[name.upper()]: EventForm(
        form["class"], tuple(Column[column.upper()] for column in form["columns"].split()), form["meaning"]
    )
    for name, form in _EVENTS.items()
}
_PLACES = [tuple(map(int, FORMS[event].columns)) for event in TraceEvent]
"""The indices of the columns that have a value, without time and event, for each event."""
_EMPTY = (NONE,) * (WIDTH - 2)
_FLOAT, _INTEGER = Struct("<d"), Struct("<q")
_PARTS_OF_PEER = [TraceEvent[f"SCORE_{part}"] for part in ("TOPICS", "P5", "P6", "P7", "SLOW")]
"""The events of the parts of a peer's score, in the order of `PeerParts`."""
_PARTS_OF_TOPIC = [TraceEvent[f"SCORE_{part}"] for part in ("P1", "P2", "P3", "P3B", "P4")]
"""The events of the parts of a topic's score, in the order of `TopicParts`."""


def class_of(event: int, kind: int) -> str:
    """Return the class of a row whose columns `event` and `kind` have these values."""
    name = FORMS[TraceEvent(event)].trace_class
    return "message" if name == "rpc" and kind == PartKind.PUBLISH else name


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row for people and tools. A column without a value is None. The fields are in the order of `COLUMNS`."""

    time_us: int
    event: TraceEvent
    kind: PartKind | None = None
    peer: int | None = None
    remote: int | None = None
    topic: int | None = None
    message: int | None = None
    hops: int | None = None
    bytes: int | None = None
    count: int | None = None
    via: Via | None = None
    delay_us: int | None = None
    reason: Reason | None = None

    @staticmethod
    def from_codes(codes: Sequence[int]) -> TraceRow:
        return _row(*[None if code == NONE else kind(code) for kind, code in zip(_KINDS, codes, strict=True)])

    def to_codes(self) -> tuple[int, ...]:
        return tuple([NONE if value is None else int(value) for value in _values(self)])


_KINDS = tuple(CODED.get(column, int) for column in Column)
_values = attrgetter(*COLUMNS)
_row: Callable[..., TraceRow] = fast_init(TraceRow)


def formed_row(event: TraceEvent, time_us: Micros, *values: int) -> Codes:
    """Return a row of the event. `values` are the values of `FORMS[event].columns`, in the order of these columns."""
    row = [time_us, int(event), *_EMPTY]
    for place, value in zip(_PLACES[event], values, strict=True):
        row[place] = value
    return cast("Codes", tuple(row))


def bits_of(number: float) -> int:
    """Return the bits of a float64 as a 64-bit integer. For -0.0, return those of 0.0."""
    return _INTEGER.unpack(_FLOAT.pack(number + 0.0))[0]


def number_of(bits: int) -> float:
    """Return the float64 with these bits. For a whole column, use `bytes.view(numpy.float64)`."""
    return _FLOAT.unpack(_INTEGER.pack(bits))[0]


def score_rows(
    time_us: int, observer: int, peer: int, parts: ScoreParts, topic_numbers: Mapping[TopicId, int]
) -> Iterator[Codes]:
    """Yield the rows about the score of `peer` at the router of `observer`: a row of the score, and a row of each of
    its parts that is not 0.
    """
    yield formed_row(TraceEvent.SCORE, time_us, observer, peer, bits_of(parts.score))
    for event, number in zip(_PARTS_OF_PEER, parts.peer, strict=True):
        if number:
            yield formed_row(event, time_us, observer, peer, bits_of(number))
    for topic, counted in parts.topics:
        for event, number in zip(_PARTS_OF_TOPIC, counted, strict=True):
            if number:
                yield formed_row(event, time_us, observer, peer, topic_numbers[topic], bits_of(number))
