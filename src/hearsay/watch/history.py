"""The frames of a whole run in bounded room, thinned out evenly: so a page that is opened late can scrub all of it.

When there are more than `MOST_FRAMES`, each two become one that says what both did: what was counted is added up, and
of changes the end is kept. Messages are not among them: a page receives the latest ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any

from hearsay.watch.picture.links import Link
from hearsay.watch.picture.picture import Changes

MOST_FRAMES = 600
MOST_CHANGES = 300_000
"""Changes of links and nodes in all frames; above it, frames are merged."""
_LATEST = ("number", "now", "alive", "lost", "refused", "members", "scores")


@dataclass(slots=True)
class _Frame:
    latest: Changes = field(default_factory=dict[str, Any])
    rates: list[int] = field(default_factory=list[int])
    latencies: dict[int, int] = field(default_factory=dict[int, int])
    links: dict[Link, bool] = field(default_factory=dict[Link, bool])
    up: dict[int, bool] = field(default_factory=dict[int, bool])
    reached: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def changes(self) -> int:
        return len(self.links) + len(self.up) + len(self.reached)

    def add(self, other: _Frame) -> None:
        """The changes after it."""
        self.latest |= other.latest
        self.rates = [one + more for one, more in zip_longest(self.rates, other.rates, fillvalue=0)]
        for latency, count in other.latencies.items():
            self.latencies[latency] = self.latencies.get(latency, 0) + count
        self.links |= other.links
        self.up |= other.up
        self.reached |= other.reached

    def as_changes(self) -> Changes:
        """Return the frame in the form of a picture's changes."""
        found: Changes = {
            **self.latest,
            "rates": self.rates,
            "latencies": [value for item in sorted(self.latencies.items()) for value in item],
            "linked": [value for link, there in self.links.items() if there for value in link],
            "unlinked": [value for link, there in self.links.items() if not there for value in link],
            "up": [place for place, up in self.up.items() if up],
            "down": [place for place, up in self.up.items() if not up],
            "spread": [[serial, reached] for serial, reached in self.reached.items()],
        }
        return {name: value for name, value in found.items() if value != []}


class History:
    def __init__(self, most: int = MOST_FRAMES) -> None:
        self._most = most
        self._frames: list[_Frame] = []
        self._changes = 0
        self._stride = 1
        """Number of frames that become one."""
        self._open = _Frame()
        self._in_open = 0

    def add(self, changes: Mapping[str, Any]) -> None:
        """Add a frame that browsers received."""
        added = _frame_of(changes)
        before = (self._open.latest or self._last.latest).get("now")
        if added.latest["now"] == before and not added.changes and not any(added.rates):
            return  # the run stands still
        self._open.add(added)
        self._in_open += 1
        if self._in_open < self._stride:
            return
        self._frames.append(self._open)
        self._changes += self._open.changes
        self._open, self._in_open = _Frame(), 0
        while len(self._frames) > 1 and (len(self._frames) > self._most or self._changes > MOST_CHANGES):
            self._thin_out()

    def whole(self) -> list[Changes]:
        return [frame.as_changes() for frame in (*self._frames, self._open) if frame.latest]

    @property
    def _last(self) -> _Frame:
        return self._frames[-1] if self._frames else self._open

    def _thin_out(self) -> None:
        """The last of an odd number is open again."""
        if len(self._frames) % 2:
            again = self._frames.pop()
            again.add(self._open)
            self._open, self._in_open = again, self._in_open + self._stride
        pairs = list(pairwise(self._frames))[::2]
        for one, other in pairs:
            one.add(other)
        self._frames = [one for one, _ in pairs]
        self._stride *= 2
        self._changes = sum(frame.changes for frame in self._frames)


def _frame_of(changes: Mapping[str, Any]) -> _Frame:
    """Its lists become what can be added to."""
    found = _Frame({name: changes[name] for name in _LATEST if name in changes}, list(changes.get("rates", ())))
    latencies = changes.get("latencies", [])
    found.latencies = dict(zip(latencies[::2], latencies[1::2], strict=True))
    for name, there in (("linked", True), ("unlinked", False)):
        flat = changes.get(name, [])
        found.links |= dict.fromkeys(zip(flat[::3], flat[1::3], flat[2::3], strict=True), there)
    for name, there in (("up", True), ("down", False)):
        found.up |= dict.fromkeys(changes.get(name, []), there)
    found.reached = {progress[0]: progress[1] for progress in changes.get("spread", [])}
    return found
