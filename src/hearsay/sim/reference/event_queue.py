"""The queue of the reference engine: a calendar of buckets, each sorted when its time comes.

An entry is a tuple that starts with (time, node, kind, source, sequence), which no two entries share; that is the
canonical order of events (see `docs/design/determinism.md`). The payload follows; for an RPC it is the link, the
event and its parts. A bucket as wide as the smallest latency is complete when it opens, save for timers and faults,
so one sort replaces a heap operation per event; what does fall into the open bucket is inserted in its place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from operator import length_hint
from typing import Any, TypeAlias

from hearsay.core.language.identifiers import Micros

Entry: TypeAlias = tuple[Micros, int, int, int, int, Any, Any, Any]
"""Plain, as such tuples are made and sorted fastest; whoever takes one names its places:
time, node, kind, source, sequence, payload, event or life, parts."""

MINIMUM_WIDTH_US = 1000
EVERYWHERE = -1
"""The node number of what concerns the whole network; it sorts before every node."""


class EventQueue:
    __slots__ = ("_numbers", "_open", "_open_number", "_walk", "buckets", "width_us")

    def __init__(self, smallest_latency_us: Micros) -> None:
        self.width_us = max(smallest_latency_us, MINIMUM_WIDTH_US)
        self.buckets: dict[int, list[Entry]] = {}
        """Entries of buckets to come, by time over width, unsorted."""
        self._numbers: list[int] = []
        self._open: list[Entry] = []
        self._open_number = -1
        self._walk = iter(self._open)

    def add(
        self, time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any, life: int | None = None
    ) -> None:
        """Queue anything but an RPC; with `life` it is for the node as it was started then."""
        self.push((time, node, kind, source, sequence, payload, life, None))

    def push(self, entry: Entry) -> None:
        number = entry[0] // self.width_us
        bucket = self.buckets.get(number)
        if bucket is not None:
            bucket.append(entry)
        elif number == self._open_number:
            insort(self._open, entry, lo=self._begun())
        else:
            self.buckets[number] = [entry]
            heappush(self._numbers, number)

    def open_next(self) -> Iterator[Entry] | None:
        """Walks the next bucket in order; it may grow meanwhile."""
        if not self._numbers:
            return None
        self._open_number = heappop(self._numbers)
        self._open = self.buckets.pop(self._open_number)
        self._open.sort()
        self._walk = iter(self._open)
        return self._walk

    @property
    def next_us(self) -> Micros:
        """Where the buckets begin that were not opened yet."""
        return (self._open_number + 1) * self.width_us

    def discard(self, unwanted: Callable[[Entry], bool]) -> None:
        """Take entries out of the buckets to come."""
        for entries in self.buckets.values():
            entries[:] = [entry for entry in entries if not unwanted(entry)]

    def _begun(self) -> int:
        """How many entries of the open bucket were handed out; the walk knows, so nobody has to count."""
        return len(self._open) - length_hint(self._walk)

    def waiting(self) -> Iterator[Entry]:
        """All entries that are not done, in no particular order."""
        yield from self._open[self._begun() :]
        for bucket in self.buckets.values():
            yield from bucket
