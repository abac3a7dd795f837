"""The seen cache: the ids of received messages, with the time and the sender of the first copy.

The seen cache is the flow control of all routers (r1: "The seen cache is the flow control mechanism"): a router uses
only the first copy of a message. There are two kinds of caches:

* SEEN-1, `TimedSeen`: forgets an id a fixed time after the first copy (r1, two minutes; later copies do not prolong
  this time).
* SEEN-2, `WindowedSeen`: forgets an id after a number of heartbeats, as in simsub, where the stored messages are the
  seen messages.
* SEEN-3: Both hold at most `limit` ids, and use at most `max_bytes` of memory unless that is 0; the oldest id is
  removed first.

Ids are added in the order of time, so the oldest id is the first in a queue and is found without a search. Most
received messages are duplicates, so the shell looks their ids up in `known` directly, and calls `expire` only when an
id may expire.

`Windows` is the queue of caches that forget items after a number of heartbeats. A window has the items that were
added between two successive heartbeats. The open window is the one to which items are added now."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.language.sizes import SEEN_BYTES, length_of
from hearsay.core.rules.message_rules import windows_left

T = TypeVar("T")


class Windows(Generic[T]):
    """A queue of items that are grouped by window."""

    __slots__ = ("_beat", "_windows")

    def __init__(self) -> None:
        self._beat = 0
        self._windows: deque[tuple[int, list[T]]] = deque()
        """The windows that have items, the oldest first. Each has its number and its items; the number is the value
        of `_beat`, the number of heartbeats, while the window was open."""

    def append(self, thing: T) -> None:
        """Add an item to the open window."""
        windows = self._windows
        if windows and windows[-1][0] == self._beat:
            windows[-1][1].append(thing)
        else:
            windows.append((self._beat, [thing]))

    def shift(self, keep: int) -> list[T]:
        """Close the open window and open a new one. Remove and return the items that are in none of the last `keep`
        windows.

        The new window is one of these. A call removes at most one window, so `keep` must be the same in all calls.
        """
        self._beat += 1
        windows = self._windows
        if windows and windows_left(self._beat - windows[0][0], keep) <= 0:
            return windows.popleft()[1]
        return []

    def last(self, count: int) -> list[T]:
        """Return the items of the last `count` windows, the open one included. The newest window comes first."""
        found: list[T] = []
        over = self._beat - windows_left(0, count)
        for beat, things in reversed(self._windows):
            if beat <= over:
                break
            found += things
        return found

    def __iter__(self) -> Iterator[T]:
        """Yield all items, the oldest first."""
        return (thing for _, things in self._windows for thing in things)

    def popleft(self) -> T:
        """Remove and return the oldest item. Raise `IndexError` if there is none."""
        _, things = self._windows[0]
        oldest = things.pop(0)
        if not things:
            self._windows.popleft()
        return oldest


NEVER: Micros = 1 << 62
"""A time after all events."""

FirstCopy: TypeAlias = tuple[MessageId, Micros, PeerId | None]
"""The id of a message, the time of its first copy, and the peer that sent this copy; None if this node published the
message."""


class SeenCache:
    """Ids of messages in the order of their first copies, within the limits of SEEN-3. This base class forgets no id
    by age."""

    def __init__(self, order: deque[FirstCopy] | Windows[FirstCopy], limit: int, max_bytes: int) -> None:
        self._order = order
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self.known: set[MessageId] = set()
        """The ids in the cache, for lookups. The object stays the same; do not change it."""

    def expire(self, now: Micros) -> Micros:
        """Forget the ids that are too old at the time `now`. Return a time before which no further id expires."""
        return NEVER

    def add(self, message_id: MessageId, now: Micros, sender: PeerId | None) -> None:
        """Add an id that is not in `known`. If a limit is exceeded then, remove the oldest ids. `sender` is None if
        this node published the message."""
        self.known.add(message_id)
        self._order.append((message_id, now, sender))
        if self._max_bytes:
            self._bytes += SEEN_BYTES + length_of(message_id)
        while len(self.known) > self._limit or self._bytes > self._max_bytes:
            self._forget(self._order.popleft()[0])

    def shift(self) -> None:
        """Handle a heartbeat: forget old ids, if their age is a number of heartbeats."""

    def first_copies(self) -> Iterable[FirstCopy]:
        """Return the ids in the cache with times and senders, the oldest first, as a live view."""
        return self._order

    def __len__(self) -> int:
        return len(self.known)

    def _forget(self, message_id: MessageId) -> None:
        self.known.remove(message_id)
        if self._max_bytes:
            self._bytes -= SEEN_BYTES + length_of(message_id)


class TimedSeen(SeenCache):
    """A cache that forgets an id `ttl_us` microseconds after the first copy (SEEN-1)."""

    def __init__(self, ttl_us: Micros, limit: int, max_bytes: int = 0) -> None:
        self._ttl_us = ttl_us
        self._by_time: deque[FirstCopy] = deque()
        super().__init__(self._by_time, limit, max_bytes)

    def expire(self, now: Micros) -> Micros:
        order = self._by_time
        while order:
            dies_us = order[0][1] + self._ttl_us
            if now < dies_us:
                return dies_us
            self._forget(order.popleft()[0])
        return now + self._ttl_us


class WindowedSeen(SeenCache):
    """A cache that forgets an id `windows` heartbeats after the heartbeat that closes the id's window (SEEN-2)."""

    def __init__(self, windows: int, limit: int, max_bytes: int = 0) -> None:
        self._kept = windows + 1
        self._windows: Windows[FirstCopy] = Windows()
        super().__init__(self._windows, limit, max_bytes)

    def shift(self) -> None:
        for message_id, _, _ in self._windows.shift(self._kept):
            self._forget(message_id)
