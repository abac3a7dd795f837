"""A node as a source, which either runs on the same loop or is read from another process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Event, Thread
from time import time_ns
from typing import Any
from urllib.parse import urlsplit

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.rows import RowBuffer, pack_row
from hearsay.trace.language.schema import Column
from hearsay.user_errors import Failure, InvalidInput
from hearsay.watch.broadcast import FRAME_S, Broadcast, Refused
from hearsay.watch.picture.links import DrawnNodes
from hearsay.watch.picture.picture import Changes, Picture
from hearsay.watch.row_stream import MOST_LINE, OWN, MalformedLine, Piece, RowStream, piece_of
from hearsay.watch.sources.pacing import answer, is_place

MOST_WAITING = 200_000
"""Maximum rows between two frames. Further rows are counted and not shown."""
MOST_NAMES = 2_000
STOP_AFTER_S = 0.1
"""Delay before the node stops, so that the page gets the answer."""


class NodeSource:
    def __init__(self, publish: Callable[[str], None], stop: Callable[[], None] | None = None) -> None:
        """Create the source. Requests of the page call `publish` with a topic, and `stop`, if there is one."""
        self.picture = Picture(DrawnNodes())
        self._publish = publish
        self._stop = stop
        self._can = ["publish"] if stop is None else ["publish", "stop"]
        self.row_stream = RowStream(self.picture, self._can)
        self._rows = RowBuffer()
        self._unseen = 0
        self._named = (0, 0)
        self._origin_us: Micros = time_ns() // 1000

    def add_row(self, codes: Codes) -> None:
        """Add a row of the node's trace to the next frame."""
        if len(self._rows) >= MOST_WAITING:
            self._unseen += 1
            return
        self._rows.values.frombytes(pack_row(*codes))

    def about(self) -> Changes:
        return {"source": "node", "names": {}, "can": self._can}

    async def run(self, broadcast: Broadcast, names: Callable[[], tuple[Sequence[str], Sequence[str]]]) -> None:
        """Show rows until cancelled. `names` returns the names of peers and of topics, by number."""
        while True:
            rows = self._rows.to_numpy()
            self._rows.clear()
            shown = rows.copy()
            shown[:, Column.TIME_US] -= self._origin_us
            self.picture.add_rows(shown)
            peers, topics = names()
            self.row_stream.send_rows(rows, (peers, topics), time_ns() // 1000)
            if (len(peers), len(topics)) != self._named:
                self._named = len(peers), len(topics)
                broadcast.add_state(names=dict(enumerate(topics)), peers=dict(enumerate(peers[:MOST_NAMES])))
            now_us = time_ns() // 1000 - self._origin_us
            state: Changes = {"paused": False, "pace": 1.0, "over": False, "touches": 0, "unseen": self._unseen}
            broadcast.answer_and_send(now_us, state, partial(self._perform, broadcast, topics))
            await asyncio.sleep(FRAME_S)

    def _perform(self, broadcast: Broadcast, topics: Sequence[str], request: dict[str, Any]) -> Any:
        found = answer(broadcast, request)
        if found is not None:
            if request["do"] == "node":
                found["can"] = self._can if found["node"] == OWN else []
            return found
        match request:
            case {"do": "publish", "place": int(place), "topic": int(topic)} if is_place(broadcast, place):
                if self.picture.drawn.numbers[place] != OWN:
                    raise Refused("another application's node: only its own page can publish there")
                if not 0 <= topic < len(topics):
                    raise Refused("no such topic")
                self._publish(topics[topic])
                return {"node": OWN, "at": time_ns() // 1000 - self._origin_us}
            case {"do": "stop", "place": int(place)} if is_place(broadcast, place):
                if self._stop is None:
                    raise Refused("the page may not stop this node (hearsay node --watch --watch-stop)")
                if self.picture.drawn.numbers[place] != OWN:
                    raise Refused("another application's node: only its own page can stop it")
                asyncio.get_running_loop().call_later(STOP_AFTER_S, self._stop)
                return {"node": OWN, "at": time_ns() // 1000 - self._origin_us}
            case _:
                raise Refused("not a request that a node answers")


SILENCE_S = 40.0
"""Maximum silence of a page in seconds. A page sends at least a comment every 15 s."""
ANSWER_S = 2.0
AGAIN_S = 1.0
_DATA = b"data: "


class NoPage(Failure):
    """An address without a node's page. The message says why."""


class RemoteNode:
    def __init__(self, address: str) -> None:
        """Parse the address of a page: `http://HOST:PORT/TOKEN/`."""
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        path = parts.path
        if parts.scheme != "http" or not host or not path.isascii() or len(path) < 3 or not path.endswith("/"):
            example = "http://127.0.0.1:8080/TOKEN/"
            raise InvalidInput(f"{address}: write the address that `hearsay node --watch` prints, such as {example}")
        self.address = address
        self._host, self._port, self._path = host, port or 80, path
        self._closed = Event()
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None

    def connect(self) -> None:
        """Connect to the page. Raise `NoPage` if that is impossible."""
        connection = HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        try:
            connection.connect()
            stream = connection.sock  # `getresponse` removes it from the connection, which ends with the response
            connection.request("GET", f"{self._path}rows")
            response = connection.getresponse()
            said = b"" if response.status == HTTPStatus.OK else response.readline(200)
            if response.status == HTTPStatus.OK:
                stream.settimeout(SILENCE_S)
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoPage(f"{self.address}: cannot be reached: {_words(error)}") from None
        if response.status != HTTPStatus.OK:
            connection.close()
            why = (
                "is no page of a node" if response.status == HTTPStatus.NOT_FOUND else said.decode("ascii", "replace")
            )
            raise NoPage(f"{self.address}: {why.strip()}")
        self._connection, self._response = connection, response

    def follow(self, deliver: Callable[[Piece | None], None]) -> None:
        """Call `deliver` from a thread with each piece, and with None when the node is gone. Call `connect` first."""
        Thread(target=self._follow, args=(deliver,), daemon=True).start()

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request to the node's page and return the answer. Raise `Refused` with the reason."""
        connection = HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        name = f"[{self._host}]" if ":" in self._host else self._host
        headers = {
            "Host": f"{name}:{self._port}",
            "Origin": f"http://{name}:{self._port}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", f"{self._path}do", json.dumps(request).encode(), headers)
            response = connection.getresponse()
            answered = response.read(MOST_LINE)
            if response.status != HTTPStatus.OK:
                raise Refused(answered.decode("utf-8", "replace").strip()[:200])
            return json.loads(answered)
        except (OSError, HTTPException, ValueError) as error:
            raise Refused(f"the node does not answer: {_words(error)}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """End the stream; any thread may call this. The reading thread ends when it next receives a line."""
        self._closed.set()

    def _follow(self, deliver: Callable[[Piece | None], None]) -> None:
        while not self._closed.is_set():
            if self._response is not None:
                self._read(self._response, deliver)
                deliver(None)
            self._hang_up()
            if not self._closed.wait(AGAIN_S):
                try:
                    self.connect()
                except NoPage:
                    continue

    def _read(self, response: HTTPResponse, deliver: Callable[[Piece | None], None]) -> None:
        try:
            while not self._closed.is_set():
                line = response.readline(MOST_LINE)
                if not line.endswith(b"\n"):
                    return
                if line.startswith(_DATA):
                    deliver(piece_of(line[len(_DATA) :]))
        except (OSError, HTTPException, MalformedLine):
            return

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        self._response = self._connection = None


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
