"""Frames of one source for many browsers, at a bounded rate, and answers to requests of browsers.

Rules:

* The source owns the picture: it feeds it and calls `beat` from its own thread; all else is called from the loop.
* A frame is dropped while the previous one waits; the next frame contains its changes.
* A browser that reads too slowly loses its waiting frames, and receives a snapshot instead.
* Before the first frame, browsers receive the reason for which the source waits.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, Full, Queue
from threading import Event
from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.watch.history import History
from hearsay.watch.picture.picture import Changes, Picture
from hearsay.watch.places import Places

FRAMES_PER_SECOND = 30
FRAME_S = 1 / FRAMES_PER_SECOND
_HAND_OVER_S = 0.002
"""So long at least the source leaves the loop alone, which may have a frame to hand over."""
MOST_WAITING = 15
"""Frames that wait for a browser."""
MOST_WAITING_BYTES = 4_000_000
MOST_VIEWERS = 16
MOST_ASKED = 64
"""Requests that wait for the source."""


class Refused(Exception):
    """A refused request of a browser, with the reason."""


class Viewer:
    """One browser, on the side of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._something = asyncio.Event()
        self._closed = False
        self.behind = True
        """It needs the whole picture."""
        self.is_new = True
        """It needs to know how it came to that, too."""

    async def next(self) -> bytes | None:
        """The next frame; nothing when there will be none."""
        while not self._waiting:
            if self._closed:
                return None
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()

    def put(self, frame: bytes) -> None:
        self._waiting.append(frame)
        if len(self._waiting) > MOST_WAITING or sum(map(len, self._waiting)) > MOST_WAITING_BYTES:
            self._waiting.clear()
            self.behind = True
        self._something.set()

    def begin(self, whole: bytes) -> None:
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
        """`about` describes the source and its controls; it is the first thing that browsers receive."""
        self.picture = picture
        self.about = about
        self.awaited = awaited
        """The reason for which the source waits; empty once it has begun."""
        self.woken = Event()
        """Set when a browser asks for something."""
        self.places = Places(picture)
        self._history = History()
        self._loop = loop
        self._viewers: set[Viewer] = set()
        self._asked: Queue[tuple[dict[str, Any], Future[Any]]] = Queue(MOST_ASKED)
        self._under_way = Event()
        self._news: Changes = {}
        self._due_s = 0.0
        self._number = 0

    # Called by the source.

    def tell(self, **news: Any) -> None:
        """Add state that no row has to the next frame, and to the snapshot of new browsers."""
        self._news |= news
        self.about |= news

    @property
    def is_due(self) -> bool:
        """Return True if a frame or an answer is due."""
        return monotonic() >= self._due_s or self.woken.is_set()

    def rest(self) -> None:
        """Until the next frame, or until a browser asks for something."""
        self.woken.wait(min(max(self._due_s - monotonic(), _HAND_OVER_S), FRAME_S))

    def beat(self, now_us: Micros, state: Changes, perform: Callable[[dict[str, Any]], Any]) -> None:
        """Answer what browsers ask, by `perform`, and send a frame if it is time."""
        self.awaited = None
        self.woken.clear()
        self._answer(perform)
        if monotonic() < self._due_s or self._under_way.is_set():
            return
        self._due_s = max(self._due_s + FRAME_S, monotonic())
        if (places := self.places.news()) is not None:
            self.tell(places=places)
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
        self._call(lambda: self._hand_over(frame, whole))

    # Called by the event loop.

    def join(self) -> Viewer:
        if len(self._viewers) >= MOST_VIEWERS:
            raise Refused(f"{MOST_VIEWERS} browsers look already")
        viewer = Viewer()
        self._viewers.add(viewer)
        if (awaited := self.awaited) is not None:
            viewer.put(b"event: awaited\n" + _event(awaited))
        self.woken.set()
        return viewer

    def part(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def ask(self, request: dict[str, Any]) -> Any:
        """Return the answer of the source, made on its own thread; raise `Refused` with the reason."""
        answer: Future[Any] = Future()
        try:
            self._asked.put_nowait((request, answer))
        except Full:
            raise Refused("too much is asked at a time") from None
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

    def _hand_over(self, frame: bytes, whole: bytes) -> None:
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
    """A server-sent event: JSON has no line breaks."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
