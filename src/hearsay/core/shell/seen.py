"""The seen cache: the messages that were received before, since when, and their first senders.

It is the flow control of all routers (r1: "The seen cache is the flow control mechanism"): only the first copy of a
message is acted on. Two caches have one interface:

* SEEN-1, `TimedSeen`: forgets an id a fixed time after the first copy (r1, two minutes; later copies do not prolong
  it).
* SEEN-2, `WindowedSeen`: forgets an id after a number of heartbeats, as simsub's actor does, whose message store is
  its seen set.
* SEEN-3: both hold at most `limit` ids, and `most_bytes` of memory unless that is 0; the oldest goes first.

Ids enter in the order of time, so the oldest is the first in a queue and forgetting costs a constant per id. Most
received messages are duplicates, so the shell looks into `known` itself, after `expire` whenever that is due.

`Windows` keeps things by the heartbeat in which they came, for caches that forget by heartbeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.language.sizes import SEEN_BYTES, length_of
from hearsay.core.rules.message_rules import windows_left

T = TypeVar("T")


class Windows(Generic[T]):
    __slots__ = ("_beat", "_windows")

    def __init__(self) -> None:
        self._beat = 0
        self._windows: deque[tuple[int, list[T]]] = deque()
        """Ascending, each with the beat in which it was open."""

    def add(self, thing: T) -> None:
        """Into the open window."""
        windows = self._windows
        if windows and windows[-1][0] == self._beat:
            windows[-1][1].append(thing)
        else:
            windows.append((self._beat, [thing]))

    def shift(self, keep: int) -> list[T]:
        """Close the open window; returns what is older than the last `keep` windows, the new one included."""
        self._beat += 1
        windows = self._windows
        if windows and windows_left(self._beat - windows[0][0], keep) <= 0:
            return windows.popleft()[1]
        return []

    def last(self, count: int) -> list[T]:
        """Return the content of the last `count` windows with the open one, newest window first."""
        found: list[T] = []
        over = self._beat - windows_left(0, count)
        for beat, things in reversed(self._windows):
            if beat <= over:
                break
            found += things
        return found

    def __iter__(self) -> Iterator[T]:
        """Everything, the oldest first."""
        return (thing for _, things in self._windows for thing in things)

    def pop_oldest(self) -> T:
        """Take out the oldest thing; there must be one."""
        _, things = self._windows[0]
        oldest = things.pop(0)
        if not things:
            self._windows.popleft()
        return oldest


NEVER: Micros = 1 << 62


@dataclass(frozen=True, slots=True)
class SeenEntry:
    message_id: MessageId
    first_us: Micros
    sender: PeerId | None


FirstCopy: TypeAlias = tuple[MessageId, Micros, PeerId | None]
"""An id, when its first copy came, and who sent it."""


class SeenCache(Protocol):
    known: set[MessageId]
    """The remembered ids since the last `expire`; only for lookups."""

    def expire(self, now: Micros) -> Micros:
        """Forget what is too old; returns a time before which there is nothing more to forget."""
        ...

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        """Remember an id that is not in `known`."""
        ...

    def shift(self) -> None:
        """A heartbeat has passed."""
        ...

    def first_copies(self) -> Iterable[FirstCopy]:
        """All that is remembered since the last `expire`, the oldest first."""
        ...

    def __len__(self) -> int: ...


def entries(seen: SeenCache, now: Micros) -> list[SeenEntry]:
    """All that is remembered, the oldest first."""
    seen.expire(now)
    return [SeenEntry(*first) for first in seen.first_copies()]


class TimedSeen:
    """Remembers each id for `ttl_us` after its first copy."""

    __slots__ = ("_bytes", "_limit", "_most_bytes", "_order", "_ttl_us", "known")

    def __init__(self, ttl_us: Micros, limit: int, most_bytes: int = 0) -> None:
        self._ttl_us = ttl_us
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self.known: set[MessageId] = set()
        self._order: deque[FirstCopy] = deque()

    def expire(self, now: Micros) -> Micros:
        order = self._order
        while order:
            dies_us = order[0][1] + self._ttl_us
            if now < dies_us:
                return dies_us
            self._forget_oldest()
        return now + self._ttl_us

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        self.known.add(message_id)
        self._order.append((message_id, now, sender))
        if self._most_bytes:
            self._bytes += SEEN_BYTES + length_of(message_id)
        while len(self._order) > self._limit or self._bytes > self._most_bytes:
            self._forget_oldest()

    def shift(self) -> None:
        """Heartbeats do not age a timed cache."""

    def first_copies(self) -> Iterable[FirstCopy]:
        return self._order

    def __len__(self) -> int:
        return len(self.known)

    def _forget_oldest(self) -> None:
        message_id = self._order.popleft()[0]
        self.known.remove(message_id)
        if self._most_bytes:
            self._bytes -= SEEN_BYTES + length_of(message_id)


class WindowedSeen:
    """Remembers each id for `windows` heartbeats after the one that closes its own window."""

    __slots__ = ("_bytes", "_kept", "_limit", "_most_bytes", "_windows", "known")

    def __init__(self, windows: int, limit: int, most_bytes: int = 0) -> None:
        self._kept = windows + 1
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self.known: set[MessageId] = set()
        self._windows: Windows[FirstCopy] = Windows()

    def expire(self, now: Micros) -> Micros:
        return NEVER

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        self.known.add(message_id)
        self._windows.add((message_id, now, sender))
        if self._most_bytes:
            self._bytes += SEEN_BYTES + length_of(message_id)
        while len(self.known) > self._limit or self._bytes > self._most_bytes:
            self._forget(self._windows.pop_oldest()[0])

    def shift(self) -> None:
        for message_id, _, _ in self._windows.shift(self._kept):
            self._forget(message_id)

    def first_copies(self) -> Iterable[FirstCopy]:
        return self._windows

    def __len__(self) -> int:
        return len(self.known)

    def _forget(self, message_id: MessageId) -> None:
        self.known.remove(message_id)
        if self._most_bytes:
            self._bytes -= SEEN_BYTES + length_of(message_id)
