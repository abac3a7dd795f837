"""The trace format: one row of 13 integers per event.

Rules:

* A row is 13 int64 in the order of `COLUMNS`; -1 means that there is no value. Frequently run code writes rows as
  integers; for people and tools there is `TraceRow`, with None and enumerations.
* Codes are part of the format and of the trace hash: append, never renumber. Kinds, vias and reasons are the core's.
  In files and for people a code is its enumeration's name in lower case (`wire_name`).
* A SEND_RPC row stands for one part of an RPC (`kind`): `peer` sends, `remote` receives, `delay_us` is the time until
  it arrives. A DROP_RPC row means that such a part did not arrive; its time is when the part would have arrived.
* So a simulated trace has neither RECV_RPC nor DUPLICATE rows: both are derived (`with_derived` in `order.py`).
* In SCORE rows and the rows of a score's parts, `bytes` has the bits of a float64. Only these rows may have `bytes`
  below -1. The bits of the integer -1 are a NaN as a float64, so no score is mistaken for a missing value.
* Every row belongs to one class, and every class has its folder. `message` has all rows about copies of messages,
  so that all rows of a message are together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from operator import attrgetter
from typing import NamedTuple

from hearsay.core.language.actions import (
    OverlayChange,
    Reason,
    Via,
)
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.rpc import PartKind


class TraceEvent(IntEnum):
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


OVERLAY_EVENTS: dict[OverlayChange, TraceEvent] = {
    OverlayChange.NEIGHBOR_UP: TraceEvent.NEIGHBOR_UP,
    OverlayChange.NEIGHBOR_DOWN: TraceEvent.NEIGHBOR_DOWN,
    OverlayChange.PASSIVE_ADDED: TraceEvent.PASSIVE_ADD,
    OverlayChange.PASSIVE_REMOVED: TraceEvent.PASSIVE_REMOVE,
    OverlayChange.EAGER: TraceEvent.EAGER,
    OverlayChange.LAZY: TraceEvent.LAZY,
}


class Column(IntEnum):
    """The index of each column in a row."""

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
    """Return the name of an event, kind, via or reason in files."""
    return code.name.lower()


COLUMNS = tuple(column.name.lower() for column in Column)
WIDTH = len(COLUMNS)
NONE = -1

CLASSES = ("message", "rpc", "mesh", "node", "score", "exchange")
TRACE_FOLDER = "trace"


def number_of_id(message_id: bytes) -> int:
    """Return the number of a message in traces of live nodes: 63 bits of a hash, the same at every node."""
    return int.from_bytes(blake2b(message_id, digest_size=8).digest(), "big") >> 1


def class_folder(trace_class: str) -> str:
    """Return the folder of a class, relative to the run folder. Query engines read `class=` as a partition."""
    return f"{TRACE_FOLDER}/class={trace_class}"


class EventForm(NamedTuple):
    """The declaration of an event: its class, the columns with a value in its rows, except time and event, and its
    meaning. Rows are made from these declarations (`event_rows.py`, `formed_rows.py`)."""

    trace_class: str
    columns: tuple[Column, ...]
    meaning: str


_KIND, _PEER, _REMOTE, _TOPIC, _MESSAGE = Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE
_HOPS, _BYTES, _COUNT, _VIA = Column.HOPS, Column.BYTES, Column.COUNT, Column.VIA
_DELAY_US, _REASON = Column.DELAY_US, Column.REASON
_SCORED = (_PEER, _REMOTE, _BYTES)
_SCORED_IN_TOPIC = (_PEER, _REMOTE, _TOPIC, _BYTES)
_PART = (_KIND, _PEER, _REMOTE, _TOPIC, _MESSAGE, _HOPS, _BYTES, _COUNT, _VIA)

FORMS: dict[TraceEvent, EventForm] = {
    TraceEvent.PUBLISH: EventForm(
        "message", (_PEER, _TOPIC, _MESSAGE, _HOPS, _BYTES), "a message enters the network, once"
    ),
    TraceEvent.DELIVER: EventForm(
        "message", (_PEER, _REMOTE, _TOPIC, _MESSAGE, _HOPS, _VIA), "the application at `peer` gets it"
    ),
    TraceEvent.DUPLICATE: EventForm(
        "message", (_PEER, _REMOTE, _TOPIC, _MESSAGE, _HOPS, _VIA), "a copy that was not the one delivered; derived"
    ),
    TraceEvent.REJECT: EventForm(
        "message",
        (_KIND, _PEER, _REMOTE, _TOPIC, _MESSAGE, _COUNT, _REASON),
        "`peer` did not use a message, or `count` parts of an RPC",
    ),
    TraceEvent.ADD_PEER: EventForm("node", (_PEER, _REMOTE), "`peer` has a connection to `remote`"),
    TraceEvent.REMOVE_PEER: EventForm("node", (_PEER, _REMOTE), "… and has it no more"),
    TraceEvent.RECV_RPC: EventForm("rpc", _PART, "a part arrived; derived"),
    TraceEvent.SEND_RPC: EventForm("rpc", (*_PART, _DELAY_US), "one row per part"),
    TraceEvent.DROP_RPC: EventForm("rpc", (*_PART, _REASON), "a part never arrived; its time is when it would have"),
    TraceEvent.JOIN: EventForm("mesh", (_PEER, _TOPIC), "`peer` joins a topic"),
    TraceEvent.LEAVE: EventForm("mesh", (_PEER, _TOPIC), "… and leaves it"),
    TraceEvent.GRAFT: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "`peer` takes `remote` into its mesh"),
    TraceEvent.PRUNE: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "… and out of it"),
    TraceEvent.NODE_UP: EventForm("node", (_PEER,), "a node starts, knowing nothing"),
    TraceEvent.NODE_DOWN: EventForm("node", (_PEER, _REASON), "a node stops; `lost` if it could not say so itself"),
    TraceEvent.STATE: EventForm(
        "node", (_PEER, _BYTES, _COUNT), "sampled size of what a node remembers: `count` entries, `bytes`"
    ),
    TraceEvent.NEIGHBOR_UP: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "episub: `remote` is in the active view"),
    TraceEvent.NEIGHBOR_DOWN: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "… and no more"),
    TraceEvent.PASSIVE_ADD: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "episub: `remote` is in the passive view"),
    TraceEvent.PASSIVE_REMOVE: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "… and no more"),
    TraceEvent.EAGER: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "episub: full messages go to `remote`"),
    TraceEvent.LAZY: EventForm("mesh", (_PEER, _REMOTE, _TOPIC), "episub: `remote` gets announcements"),
    TraceEvent.SCORE: EventForm("score", _SCORED, "sampled score of `remote` at `peer`, the sum of the next five"),
    TraceEvent.SCORE_TOPICS: EventForm("score", _SCORED, "the sum over topics, weighted and capped"),
    TraceEvent.SCORE_P5: EventForm("score", _SCORED, "what the application thinks of it, weighted"),
    TraceEvent.SCORE_P6: EventForm("score", _SCORED, "for shared addresses"),
    TraceEvent.SCORE_P7: EventForm("score", _SCORED, "for misbehaviour"),
    TraceEvent.SCORE_SLOW: EventForm("score", _SCORED, "for a queue that it lets fill up (rust, nim)"),
    TraceEvent.SCORE_P1: EventForm("score", _SCORED_IN_TOPIC, "time in the mesh, before the topic's weight"),
    TraceEvent.SCORE_P2: EventForm("score", _SCORED_IN_TOPIC, "first deliveries"),
    TraceEvent.SCORE_P3: EventForm("score", _SCORED_IN_TOPIC, "too few deliveries in the mesh"),
    TraceEvent.SCORE_P3B: EventForm("score", _SCORED_IN_TOPIC, "… and when it left the mesh"),
    TraceEvent.SCORE_P4: EventForm("score", _SCORED_IN_TOPIC, "invalid messages"),
    TraceEvent.DIAL: EventForm(
        "exchange", (_PEER, _REMOTE, _TOPIC), "`peer` dials `remote`, as a PRUNE of the topic named it"
    ),
}


def class_of(event: int, kind: int) -> str:
    """Return the class of a row with these codes."""
    name = FORMS[TraceEvent(event)].trace_class
    return "message" if name == "rpc" and kind == PartKind.PUBLISH else name


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row for people and tools; fields in the order of `COLUMNS`."""

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


_ENUMERATIONS = {Column.EVENT: TraceEvent, Column.KIND: PartKind, Column.VIA: Via, Column.REASON: Reason}
_KINDS = tuple(_ENUMERATIONS.get(column, int) for column in Column)
_values = attrgetter(*COLUMNS)
_row: Callable[..., TraceRow] = fast_init(TraceRow)
