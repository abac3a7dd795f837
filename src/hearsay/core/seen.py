"""The seen cache: which messages were here before, since when, and who sent them first.

It is the flow control of all routers (r1: "The seen cache is the flow control mechanism"): only the first copy of a
message is acted on. Two ways to forget, behind one interface:

* `TimedSeen`: a fixed time after the first copy (r1, two minutes; not prolonged by later copies).
* `WindowedSeen`: after a number of heartbeats, as simsub's actor does, whose message store is its seen set.

Both hold at most `limit` ids; the oldest goes first. Ids enter in the order of time, so the oldest is the first in
a queue and forgetting costs a constant per id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from hearsay.core.identifiers import MessageId, Micros, PeerId


@dataclass(frozen=True, slots=True)
class SeenEntry:
    message_id: MessageId
    first_us: Micros
    sender: PeerId | None


class SeenCache(Protocol):
    def contains(self, message_id: MessageId, now: Micros) -> bool: ...

    def missing(self, ids: Iterable[MessageId], now: Micros) -> list[MessageId]:
        """Those of `ids` that are not remembered."""
        ...

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None: ...

    def shift(self) -> None: ...

    def entries(self, now: Micros) -> list[SeenEntry]: ...

    def __len__(self) -> int: ...


class TimedSeen:
    """Remembers each id for `ttl_us` after its first copy."""

    __slots__ = ("_first", "_limit", "_order", "_ttl_us")

    def __init__(self, ttl_us: Micros, limit: int) -> None:
        self._ttl_us = ttl_us
        self._limit = limit
        self._first: dict[MessageId, tuple[Micros, PeerId | None]] = {}
        self._order: deque[tuple[Micros, MessageId]] = deque()

    def contains(self, message_id: MessageId, now: Micros) -> bool:
        entry = self._first.get(message_id)
        return entry is not None and now - entry[0] < self._ttl_us

    def missing(self, ids: Iterable[MessageId], now: Micros) -> list[MessageId]:
        return [message_id for message_id in ids if not self.contains(message_id, now)]

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        order = self._order
        while order and now - order[0][0] >= self._ttl_us:
            del self._first[order.popleft()[1]]
        self._first[message_id] = (now, sender)
        order.append((now, message_id))
        if len(order) > self._limit:
            del self._first[order.popleft()[1]]

    def shift(self) -> None:
        """Heartbeats do not age a timed cache."""

    def entries(self, now: Micros) -> list[SeenEntry]:
        return [
            SeenEntry(message_id, first_us, sender)
            for message_id, (first_us, sender) in self._first.items()
            if now - first_us < self._ttl_us
        ]

    def __len__(self) -> int:
        return len(self._first)


class WindowedSeen:
    """Remembers each id for `windows` heartbeats after the one that closes its own window."""

    __slots__ = ("_closed", "_first", "_limit", "_open", "_windows")

    def __init__(self, windows: int, limit: int) -> None:
        self._windows = windows
        self._limit = limit
        self._first: dict[MessageId, tuple[Micros, PeerId | None]] = {}
        self._open: list[MessageId] = []
        self._closed: deque[list[MessageId]] = deque()

    def contains(self, message_id: MessageId, now: Micros) -> bool:
        return message_id in self._first

    def missing(self, ids: Iterable[MessageId], now: Micros) -> list[MessageId]:
        first = self._first
        return [message_id for message_id in ids if message_id not in first]

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        self._first[message_id] = (now, sender)
        self._open.append(message_id)
        if len(self._first) > self._limit:
            self._drop_oldest()

    def shift(self) -> None:
        self._closed.append(self._open)
        self._open = []
        if len(self._closed) > self._windows:
            for message_id in self._closed.popleft():
                del self._first[message_id]

    def entries(self, now: Micros) -> list[SeenEntry]:
        return [SeenEntry(message_id, first_us, sender) for message_id, (first_us, sender) in self._first.items()]

    def __len__(self) -> int:
        return len(self._first)

    def _drop_oldest(self) -> None:
        for window in (*self._closed, self._open):
            if window:
                del self._first[window.pop(0)]
                return
