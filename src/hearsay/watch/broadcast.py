"""Frames of one source for many browsers, at a bounded rate, and answers to requests of browsers.

A source is a simulation, a run folder or nodes: it adds trace rows to the picture. A frame is a server-sent event
with the changes of the picture since the last frame; a snapshot is an event with the whole picture.

Rules:

* The source owns the picture: its thread adds rows, and calls `add_state`, `add_names`, `is_due`, `wait_until_due`
  and `answer_and_send`. The event loop calls all other methods.
* No frame is made while the previous frame waits for the event loop. The next frame then has all changes since the
  previous one.
* A browser that reads too slowly gets a snapshot in place of its waiting frames.
* Before the first frame, browsers receive the reason why the source has not begun.
* The history has the frames of the whole run in bounded memory, so that a page that opens late can go back. Above
  `MOST_FRAMES` frames or `MOST_CHANGES` changes, every two successive frames become one frame, with the sums of the
  counts and the last state. Frames of the history have no messages.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import zip_longest
from queue import Empty, Full, Queue
from threading import Event
from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.picture import Changes, Layout, Picture

MOST_FRAMES = 600
MOST_CHANGES = 300_000
"""Maximum changes of links, nodes and messages in all frames of the history; above it, frames are merged."""
_LATEST = ("number", "now", "alive", "lost", "refused", "members", "scores", "run")

_KINDS = {"linked": (3, True), "unlinked": (3, False), "up": (1, True), "down": (1, False)}
"""For each list of links or nodes in the changes of a picture: how many numbers identify a link (3) or a node (1),
and the state of the listed links or nodes (True if the links exist or the nodes are up). These numbers are the keys
of `_Frame.states`.
"""


@dataclass(slots=True)
class _Frame:
    """A frame in a form that can be merged: counts, and the last state of each changed link, node and message."""

    latest: Changes = field(default_factory=dict[str, Any])
    rates: list[int] = field(default_factory=list[int])
    latencies: dict[int, int] = field(default_factory=dict[int, int])
    states: dict[tuple[int, ...], bool] = field(default_factory=dict[tuple[int, ...], bool])
    """True for a link that was added or a node that went up; False for a link that was removed or a node that went
    down. A key is a `Link`, or a tuple of the place of a node.
    """
    reached: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def changes(self) -> int:
        return len(self.states) + len(self.reached)

    def add(self, other: _Frame) -> None:
        """Merge `other`, the following frame, into this frame."""
        self.latest |= other.latest
        self.rates = [one + more for one, more in zip_longest(self.rates, other.rates, fillvalue=0)]
        for latency, count in other.latencies.items():
            self.latencies[latency] = self.latencies.get(latency, 0) + count
        self.states |= other.states
        self.reached |= other.reached

    def as_changes(self) -> Changes:
        """Return the frame in the form of a picture's changes."""
        found: Changes = {
            **self.latest,
            "rates": self.rates,
            "latencies": [value for item in sorted(self.latencies.items()) for value in item],
            **{
                name: [value for key, state in self.states.items() if (len(key), state) == kind for value in key]
                for name, kind in _KINDS.items()
            },
            "spread": [[serial, reached] for serial, reached in self.reached.items()],
        }
        return {name: value for name, value in found.items() if value != []}


class History:
    """The frames of the whole run, merged so that there are at most `most` complete frames and one open frame."""

    def __init__(self, most: int = MOST_FRAMES) -> None:
        self._most = most
        self._frames: list[_Frame] = []
        self._changes = 0
        self._stride = 1
        """Number of frames of the source that are merged into one frame of the history."""
        self._open = _Frame()
        """The last frame, into which further frames of the source are merged."""
        self._in_open = 0

    def add(self, changes: Mapping[str, Any]) -> None:
        """Add the changes of a frame, unless nothing has happened since the previous frame."""
        added = _frame_of(changes)
        before = (self._open.latest or (self._frames[-1].latest if self._frames else {})).get("now")
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

    def _thin_out(self) -> None:
        """Merge every two successive frames into one. If the number of frames is odd, merge the last one with the
        open frame.
        """
        if len(self._frames) % 2:
            last = self._frames.pop()
            last.add(self._open)
            self._open, self._in_open = last, self._in_open + self._stride
        for one, other in zip(self._frames[::2], self._frames[1::2], strict=True):
            one.add(other)
        self._frames = self._frames[::2]
        self._stride *= 2
        self._changes = sum(frame.changes for frame in self._frames)


def _frame_of(changes: Mapping[str, Any]) -> _Frame:
    """Return a picture's changes in a form that can be merged."""
    found = _Frame({name: changes[name] for name in _LATEST if name in changes}, list(changes.get("rates", ())))
    latencies = changes.get("latencies", [])
    found.latencies = dict(zip(latencies[::2], latencies[1::2], strict=True))
    for name, (length, state) in _KINDS.items():
        values = iter(changes.get(name, ()))
        found.states |= dict.fromkeys(zip(*[values] * length, strict=True), state)
    found.reached = {progress[0]: progress[1] for progress in changes.get("spread", [])}
    return found


FRAMES_PER_SECOND = 30
FRAME_S = 1 / FRAMES_PER_SECOND
_SHORTEST_WAIT_S = 0.002
"""Minimum pause of the source's thread, so that the event loop can send a waiting frame."""
MOST_NAMED_PEERS = 2_000
"""Maximum names of peers that are sent to a page."""
MOST_WAITING = 15
"""Maximum frames that wait for a browser."""
MOST_WAITING_BYTES = 4_000_000
MOST_VIEWERS = 16
MOST_ASKED = 64
"""Maximum requests that wait for the source."""


_NORMAL: Changes = {"paused": False, "pace": 1.0, "over": False, "touches": 0}
"""The state of a source that runs at the pace of real time and that no user has changed."""


class Refused(Exception):
    """Raised if a request is refused. The text is the reason."""


class Viewer:
    """The events that wait for one browser. The event loop calls all methods."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._something = asyncio.Event()
        self._closed = False
        self.behind = True
        """True if the browser needs a snapshot."""
        self.is_new = True
        """True if the browser also needs the history."""

    async def next(self) -> bytes | None:
        """Wait for the next event, and return it; return None if the viewer is closed and no event waits."""
        while not self._waiting:
            if self._closed:
                return None
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()

    def put(self, frame: bytes) -> None:
        """Add a frame. If too many frames or bytes wait, drop all of them, so that the browser needs a snapshot."""
        self._waiting.append(frame)
        if len(self._waiting) > MOST_WAITING or sum(map(len, self._waiting)) > MOST_WAITING_BYTES:
            self._waiting.clear()
            self.behind = True
        self._something.set()

    def begin(self, whole: bytes) -> None:
        """Add a snapshot, after which the viewer can receive frames."""
        self.behind = self.is_new = False
        self._waiting.append(whole)
        self._something.set()

    def close(self) -> None:
        self._closed = True
        self._something.set()


class Broadcast:
    """The viewers of one source, the frames for the viewers, and the requests of the viewers."""

    def __init__(
        self, picture: Picture, about: Changes, loop: asyncio.AbstractEventLoop, awaited: str | None = None
    ) -> None:
        """Create the broadcast. `about` describes the source and its controls, and is part of each snapshot."""
        self.picture = picture
        self.about = about
        self.awaited = awaited
        """The reason why the source has not begun; None after it has begun."""
        self.woken = Event()
        """Set when a browser connects or sends a request, or when a simulation is closed."""
        self.layout = Layout(picture)
        self._history = History()
        self._loop = loop
        self._viewers: set[Viewer] = set()
        self._asked: Queue[tuple[dict[str, Any], Future[Any]]] = Queue(MOST_ASKED)
        self._under_way = Event()
        self._news: Changes = {}
        self._due_s = 0.0
        self._number = 0
        self._named = 0, 0

    # Called by the source.

    def add_state(self, **news: Any) -> None:
        """Add state that is not in trace rows to the next frame and to all later snapshots."""
        self._news |= news
        self.about |= news

    def add_names(self, peers: Sequence[str], topics: Sequence[str]) -> None:
        """Add the names of topics and of the first `MOST_NAMED_PEERS` peers, by number, to the state.

        Do nothing if there are as many peers and topics as in the last call.
        """
        if (len(peers), len(topics)) != self._named:
            self._named = len(peers), len(topics)
            self.add_state(names=dict(enumerate(topics)), peers=dict(enumerate(peers[:MOST_NAMED_PEERS])))

    @property
    def is_due(self) -> bool:
        """Return True if a frame is due, or if a browser has connected or sent a request."""
        return monotonic() >= self._due_s or self.woken.is_set()

    def wait_until_due(self) -> None:
        """Wait until the next frame is due, or until a browser connects or sends a request."""
        self.woken.wait(min(max(self._due_s - monotonic(), _SHORTEST_WAIT_S), FRAME_S))

    def answer_and_send(self, now_us: Micros, state: Changes, perform: Callable[[dict[str, Any]], Any]) -> None:
        """Answer requests of browsers, and send a frame if one is due.

        `perform` returns the answer to a request that the source itself answers, otherwise None. It may raise
        `Refused`. A place in a request is always that of a drawn node. `state` has the keys whose values differ from
        `_NORMAL`, and further keys of the source.
        """
        state = {**_NORMAL, **state}
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
        frame = event(changes) if any(not viewer.behind for viewer in viewers) else b""
        whole = b""
        if any(viewer.behind for viewer in viewers):
            snapshot = {"number": self._number, **self.picture.whole(now_us), "state": state, "about": self.about}
            if any(viewer.is_new for viewer in viewers):
                snapshot["past"] = self._history.whole()
            whole = event(snapshot)
        self._under_way.set()
        try:
            self._loop.call_soon_threadsafe(self._send, frame, whole)
        except RuntimeError:  # the loop is closed: there are no viewers
            self._under_way.clear()

    # Called by the event loop.

    def join(self) -> Viewer:
        if len(self._viewers) >= MOST_VIEWERS:
            raise Refused(f"the page has its maximum of {MOST_VIEWERS} viewers")
        viewer = Viewer()
        self._viewers.add(viewer)
        if (awaited := self.awaited) is not None:
            viewer.put(b"event: awaited\n" + event(awaited))
        self.woken.set()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def ask(self, request: dict[str, Any]) -> Any:
        """Queue a request for the source's thread, and return the answer.

        Raise `Refused` if the request is refused, or if too many requests wait.
        """
        answer: Future[Any] = Future()
        try:
            self._asked.put_nowait((request, answer))
        except Full:
            raise Refused(f"more than {MOST_ASKED} requests wait; try again later") from None
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
                answer.set_result(self._answer_to(request, perform))
            except Refused as error:
                answer.set_exception(error)

    def _answer_to(self, request: dict[str, Any], perform: Callable[[dict[str, Any]], Any]) -> Any:
        """Return the answer of the source to a request or, if the source returns None, the answer of the picture."""
        refused = Refused("not a request that this source answers")
        place = request.get("place")
        if "place" in request and not (type(place) is int and 0 <= place < len(self.picture.drawn.numbers)):
            raise refused
        if (found := perform(request)) is not None:
            return found
        match request:
            case {"do": "places"}:
                self.layout.request()
                return {}
            case {"do": "node", "place": place}:
                return self.picture.node(place)
            case {"do": "density", "message": int(serial), "late": int(late_us)}:
                return self.picture.spreads.density(serial, late_us) or {}
            case {"do": "degrees", "topic": int(topic)}:
                return self.picture.links.degrees(topic)
            case _:
                raise refused

    def _send(self, frame: bytes, whole: bytes) -> None:
        self._under_way.clear()
        for viewer in self._viewers:
            if not viewer.behind:
                if frame:
                    viewer.put(frame)
            elif whole:
                viewer.begin(whole)


def event(content: Changes | str) -> bytes:
    """Return a server-sent event with this content as JSON, which has no line breaks."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
