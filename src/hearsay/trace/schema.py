"""The language of the trace: one row of 13 integers per event.

Rules:

* A row is 13 int64 in the order of `COLUMNS`; -1 is "none". Hot code writes rows as integers; people and tools see
  `TraceRow`, with None and enumerations.
* Codes are part of the format and of the trace hash: append, never renumber. `PartKind`, `TraceVia` and `Reason`
  repeat the numbers of the core, so that engines may copy them as they are.
* A SEND_RPC row stands for one part of an RPC (`kind`): `peer` sends, `remote` receives, `delay_us` is the time of
  flight. A DROP_RPC row says that such a part never arrived; its time is when it would have.
* So a simulated trace holds neither RECV_RPC nor DUPLICATE rows: both follow from the others (see `derive`).
* Every row belongs to one class, and every class has its folder. `message` takes all rows about copies of messages,
  so that a message's whole story lies together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum


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

    @property
    def wire_name(self) -> str:
        """The name in files: go-libp2p-pubsub's TraceEvent.Type in lower case."""
        return self.name.lower() + ("_message" if self <= TraceEvent.REJECT else "")


class PartKind(IntEnum):
    CONNECT = 0
    PUBLISH = 1
    SUBSCRIBE = 2
    UNSUBSCRIBE = 3
    IHAVE = 4
    IWANT = 5
    GRAFT = 6
    PRUNE = 7
    IDONTWANT = 8
    EXTENSION = 9

    @property
    def wire_name(self) -> str:
        return self.name.lower()


class TraceVia(IntEnum):
    """Why a copy of a message went to a peer."""

    MESH = 0
    IWANT = 1
    FLOOD = 2
    FANOUT = 3
    EAGER = 4
    LAZY = 5
    RANDOM = 6
    INJECT = 7
    TOP_UP = 8

    @property
    def wire_name(self) -> str:
        return self.name.lower()


class Reason(IntEnum):
    """Why a message was rejected or a part dropped."""

    REJECTED = 0
    IGNORED = 1
    SELF_ORIGIN = 2
    NOT_SUBSCRIBED = 3
    THROTTLED = 4
    OVER_LIMIT = 5
    LOST = 6
    UNREACHABLE = 7
    UNSUPPORTED = 8
    NOT_A_SUBSCRIBER = 9
    QUEUE_FULL = 10
    OTHER = 11

    @property
    def wire_name(self) -> str:
        return self.name.lower()


class Column(IntEnum):
    """Where each value stands in a row."""

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


COLUMNS = tuple(column.name.lower() for column in Column)
WIDTH = len(COLUMNS)
NONE = -1

CLASSES = ("message", "rpc", "mesh", "node")

_CLASS_OF_EVENT = {
    TraceEvent.PUBLISH: "message",
    TraceEvent.DELIVER: "message",
    TraceEvent.DUPLICATE: "message",
    TraceEvent.REJECT: "message",
    TraceEvent.ADD_PEER: "node",
    TraceEvent.REMOVE_PEER: "node",
    TraceEvent.RECV_RPC: "rpc",
    TraceEvent.SEND_RPC: "rpc",
    TraceEvent.DROP_RPC: "rpc",
    TraceEvent.JOIN: "mesh",
    TraceEvent.LEAVE: "mesh",
    TraceEvent.GRAFT: "mesh",
    TraceEvent.PRUNE: "mesh",
    TraceEvent.NODE_UP: "node",
    TraceEvent.NODE_DOWN: "node",
    TraceEvent.STATE: "node",
}


def class_of(event: int, kind: int) -> str:
    """The class (folder) of a row with these codes."""
    name = _CLASS_OF_EVENT[TraceEvent(event)]
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
    via: TraceVia | None = None
    delay_us: int | None = None
    reason: Reason | None = None

    @classmethod
    def from_codes(cls, codes: Sequence[int]) -> TraceRow:
        time_us, event, kind, *numbers, via, delay_us, reason = codes
        peer, remote, topic, message, hops, size, count = (_or_none(number) for number in numbers)
        return cls(
            time_us,
            TraceEvent(event),
            None if kind == NONE else PartKind(kind),
            peer,
            remote,
            topic,
            message,
            hops,
            size,
            count,
            None if via == NONE else TraceVia(via),
            _or_none(delay_us),
            None if reason == NONE else Reason(reason),
        )

    def to_codes(self) -> tuple[int, ...]:
        return tuple(NONE if value is None else int(value) for value in astuple(self))


def _or_none(number: int) -> int | None:
    return None if number == NONE else number
