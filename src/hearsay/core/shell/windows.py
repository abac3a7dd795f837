"""Things by the heartbeat in which they came, for caches that forget by heartbeats.

A window is open until `shift`. Only windows that hold something are stored, so that an idle cache costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from hearsay.core.rules.gossip_counts import windows_left

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
        """What the last `count` windows hold, the open one included, newest window first."""
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
