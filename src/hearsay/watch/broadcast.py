"""Frames of one source for many browsers, at a bounded rate, and answers to requests of browsers.

A frame is an event with the changes of the picture since the last frame; a snapshot is an event with the whole
picture.

Rules:

* The source owns the picture: its thread adds rows, and calls `add_state`, `is_due`, `wait_until_due` and
  `answer_and_send`. The event loop calls the other methods.
* No frame is made while the previous one waits for the event loop; the next frame contains these changes.
* A browser that reads too slowly gets a snapshot in place of its waiting frames.
* Before the first frame, browsers receive the reason why the source has not begun.
* The history contains the frames of the whole run in bounded memory, so that a page that opens late can go back.
  Above `MOST_FRAMES`, each two frames become one: counts are added, and the last state is kept. Frames of the history
  contain no messages.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from queue import Empty, Full, Queue
from threading import Event
from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.picture.links import Link
from hearsay.watch.picture.picture import Changes, Layout, Picture

MOST_FRAMES = 600
MOST_CHANGES = 300_000
"""Maximum changes of links and nodes in all frames; then frames are merged."""
_LATEST = ("number", "now", "alive", "lost", "refused", "members", "scores", "run")


@dataclass(slots=True)
class _Frame:
    """A frame in a form that can be merged: counts, and the last state of each link, node and message."""

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
        """Merge the next frame into this one."""
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
        """Number of frames that are merged into one."""
        self._open = _Frame()
        self._in_open = 0

    def add(self, changes: Mapping[str, Any]) -> None:
        """Add the changes of a frame."""
        added = _frame_of(changes)
        before = (self._open.latest or self._last.latest).get("now")
        if added.latest["now"] == before and not added.changes and not any(added.rates):
            return  # nothing has happened since the last frame
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
        """Merge each two frames into one. If their number is odd, the last one is open again."""
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
    """Return a picture's changes in a form that can be merged."""
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


FRAMES_PER_SECOND = 30
FRAME_S = 1 / FRAMES_PER_SECOND
_SHORTEST_WAIT_S = 0.002
"""Minimum pause of the source's thread, so that the event loop can send a waiting frame."""
MOST_WAITING = 15
"""Maximum frames that wait for a browser."""
MOST_WAITING_BYTES = 4_000_000
MOST_VIEWERS = 16
MOST_ASKED = 64
"""Maximum requests that wait for the source."""


class Refused(Exception):
    """A refused request of a browser, with the reason."""


class Viewer:
    """The events that wait for one browser. The event loop calls all methods."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._something = asyncio.Event()
        self._closed = False
        self.behind = True
        """True if the browser needs a snapshot."""
        self.is_new = True
        """True if it needs the history, too."""

    async def next(self) -> bytes | None:
        """Wait for the next event, and return it; None after `close`."""
        while not self._waiting:
            if self._closed:
                return None
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()

    def put(self, frame: bytes) -> None:
        """Add a frame. If too many frames or bytes wait, drop all of them; the browser then needs a snapshot."""
        self._waiting.append(frame)
        if len(self._waiting) > MOST_WAITING or sum(map(len, self._waiting)) > MOST_WAITING_BYTES:
            self._waiting.clear()
            self.behind = True
        self._something.set()

    def begin(self, whole: bytes) -> None:
        """Add a snapshot; frames may follow it."""
        self.behind = self.is_new = False
        self._waiting.append(whole)
        self._something.set()

    def close(self) -> None:
        self._closed = True
        self._something.set()


class Broadcast:
    def __init__(
        self, picture: Picture, about: Changes, loop: asyncio.AbstractEventLoop, awaited: str | None = None
    ) -> None:
        """Create the broadcast. `about` describes the source and its controls; snapshots contain it."""
        self.picture = picture
        self.about = about
        self.awaited = awaited
        """The reason why the source has not begun; None once it has."""
        self.woken = Event()
        """Set when a browser sends a request."""
        self.layout = Layout(picture)
        self._history = History()
        self._loop = loop
        self._viewers: set[Viewer] = set()
        self._asked: Queue[tuple[dict[str, Any], Future[Any]]] = Queue(MOST_ASKED)
        self._under_way = Event()
        self._news: Changes = {}
        self._due_s = 0.0
        self._number = 0

    # Called by the source.

    def add_state(self, **news: Any) -> None:
        """Add state that is not in trace rows to the next frame and to all later snapshots."""
        self._news |= news
        self.about |= news

    @property
    def is_due(self) -> bool:
        """Return True if a frame or an answer is due."""
        return monotonic() >= self._due_s or self.woken.is_set()

    def wait_until_due(self) -> None:
        """Wait until the next frame is due, or until a browser sends a request."""
        self.woken.wait(min(max(self._due_s - monotonic(), _SHORTEST_WAIT_S), FRAME_S))

    def answer_and_send(self, now_us: Micros, state: Changes, perform: Callable[[dict[str, Any]], Any]) -> None:
        """Answer requests of browsers by `perform`, and send a frame if one is due."""
        self.awaited = None
        self.woken.clear()
        self._answer(perform)
        if monotonic() < self._due_s or self._under_way.is_set():
            return
        self._due_s = max(self._due_s + FRAME_S, monotonic())
        if (places := self.layout.new_positions()) is not None:
            self.add_state(places=places)
        viewers = list(self._viewers)
        self._number += 1
        changes = {"number": self._number, **self.picture.changes(now_us), "state": state, **self._news}
        self._news = {}
        self._history.add(changes)
        if not viewers:
            return
        frame = _event(changes) if any(not viewer.behind for viewer in viewers) else b""
        whole = b""
        if any(viewer.behind for viewer in viewers):
            snapshot = {"number": self._number, **self.picture.whole(now_us), "state": state, "about": self.about}
            if any(viewer.is_new for viewer in viewers):
                snapshot["past"] = self._history.whole()
            whole = _event(snapshot)
        self._under_way.set()
        self._call(lambda: self._send(frame, whole))

    # Called by the event loop.

    def join(self) -> Viewer:
        if len(self._viewers) >= MOST_VIEWERS:
            raise Refused(f"the page has its maximum of {MOST_VIEWERS} viewers")
        viewer = Viewer()
        self._viewers.add(viewer)
        if (awaited := self.awaited) is not None:
            viewer.put(b"event: awaited\n" + _event(awaited))
        self.woken.set()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def ask(self, request: dict[str, Any]) -> Any:
        """Send a request to the source's thread, and return its answer; raise `Refused` with the reason."""
        answer: Future[Any] = Future()
        try:
            self._asked.put_nowait((request, answer))
        except Full:
            raise Refused(f"more than {MOST_ASKED} requests wait") from None
        self.woken.set()
        return await asyncio.wrap_future(answer)

    def close(self) -> None:
        for viewer in self._viewers:
            viewer.close()

    def _answer(self, perform: Callable[[dict[str, Any]], Any]) -> None:
        for _ in range(MOST_ASKED):
            try:
                request, answer = self._asked.get_nowait()
            except Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(perform(request))
            except Refused as error:
                answer.set_exception(error)

    def _send(self, frame: bytes, whole: bytes) -> None:
        self._under_way.clear()
        for viewer in self._viewers:
            if not viewer.behind:
                if frame:
                    viewer.put(frame)
            elif whole:
                viewer.begin(whole)

    def _call(self, work: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop is closed: there are no viewers
            self._under_way.clear()


def _event(content: Changes | str) -> bytes:
    """Return a server-sent event. JSON has no line breaks."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
