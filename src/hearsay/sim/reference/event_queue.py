"""The queue of the reference engine: a calendar of buckets, each sorted when its time comes.

An entry is a tuple that starts with (time, node, kind, source, sequence), which no two entries share; that is the
canonical order of events (see `docs/design/determinism.md`). The payload follows; for an RPC it is the link, the
event and its parts. A bucket as wide as the smallest latency is complete when it opens, except for timers and faults,
so one sort replaces a heap operation per event. An entry for the open bucket is inserted in its place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from operator import length_hint
from typing import Any, TypeAlias

from hearsay.core.language.events import EventKind
from hearsay.core.language.identifiers import Micros

Entry: TypeAlias = tuple[Micros, int, int, int, int, Any, Any, Any]
"""Time, node, kind, source, sequence, payload, event or life, parts. A plain tuple, which is created and sorted
fastest."""

MINIMUM_WIDTH_US = 1000
EVERYWHERE = -1
"""The node number of entries that concern the whole network; it sorts before every node."""
FAULT, SAMPLE, SCRIPT, DIAL_ARRIVAL = range(4)
"""Kinds of entries that concern the whole network, in their order within a microsecond."""
SERVED = len(EventKind)
"""The kind of an entry at which a node has handled an event and takes the next."""
UPLINK_FREE = len(EventKind) + 1
"""The kind of an entry at which an RPC has left a node, and the next one follows."""
END = -2
"""Node number and kind of the end of the run, which comes before all other entries of its microsecond."""


class EventQueue:
    """Entries in their order. `width_us` is the simulated time of a bucket."""

    __slots__ = ("_numbers", "_open", "_open_number", "_walk", "buckets", "width_us")

    def __init__(self, smallest_latency_us: Micros) -> None:
        self.width_us = max(smallest_latency_us, MINIMUM_WIDTH_US)
        self.buckets: dict[int, list[Entry]] = {}
        """Unsorted entries of later buckets, by time over width."""
        self._numbers: list[int] = []
        self._open: list[Entry] = []
        self._open_number = -1
        self._walk = iter(self._open)

    def add(
        self, time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any, life: int | None = None
    ) -> None:
        """Queue anything but an RPC; with `life`, the entry is for the node as it was started then."""
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
        """Return an iterator over the next bucket in order, which may grow meanwhile; None if there is none."""
        if not self._numbers:
            return None
        self._open_number = heappop(self._numbers)
        self._open = self.buckets.pop(self._open_number)
        self._open.sort()
        self._walk = iter(self._open)
        return self._walk

    @property
    def next_us(self) -> Micros:
        """The time at which the first unopened bucket begins."""
        return (self._open_number + 1) * self.width_us

    def discard(self, unwanted: Callable[[Entry], bool]) -> None:
        """Remove entries from the unopened buckets."""
        for entries in self.buckets.values():
            entries[:] = [entry for entry in entries if not unwanted(entry)]

    def waiting(self) -> Iterator[Entry]:
        """Yield all entries that are not handled, in no particular order."""
        yield from self._open[self._begun() :]
        for bucket in self.buckets.values():
            yield from bucket

    def _begun(self) -> int:
        """Return how many entries of the open bucket were handed out."""
        return len(self._open) - length_hint(self._walk)
