"""Nodes as sources: a node on the same event loop, a node of another process, and the stream of rows between them.

The stream has lines of JSON with new trace rows and names, for a page that shows several nodes. Rules:

* A new reader receives the present links and topics of the node as rows, and after that each new row with its time.
* Names of peers and topics are sent once, in the order of their numbers; the node itself is number 0.
* A reader that is too slow is disconnected. When it connects again, it is a new reader.
* A line is bounded (`MOST_LINE`, `MOST_ROWS`, `MOST_NAMES`). A number without a name is treated as unknown (`NONE`).
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Event, Thread
from time import time_ns
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import Codes, add_peer_row, graft_row, join_row, node_up_row
from hearsay.trace.language.rows import RowBuffer, Rows, pack_row
from hearsay.trace.language.schema import NONE, WIDTH, Column
from hearsay.user_errors import Failure, InvalidInput
from hearsay.watch.broadcast import FRAME_S, Broadcast, Refused, Viewer, event
from hearsay.watch.links import CONNECTIONS, DrawnNodes
from hearsay.watch.picture import Changes, Picture

MOST_FOLLOWERS = 4
MOST_ROWS = 20_000
"""Maximum rows of a line. The first line, with the present state, may have more."""
MOST_LINE = 16_000_000
"""Maximum bytes of a line. It leaves room for the names of all peers, which the first line has."""
MOST_NAMES = 100_000
"""Maximum number of names of peers. The same limit holds for names of topics. Both hold for each node, and for all
nodes together."""
MOST_LETTERS = 1_000
"""Maximum characters of a name."""
OWN = 0
"""The node's own number."""
MOST_WAITING = 200_000
"""Maximum rows between two frames. Further rows are not shown; the page shows their number."""
STOP_AFTER_S = 0.1
"""Delay in seconds before the node stops, so that the page receives the answer."""
SILENCE_S = 40.0
"""Seconds without data after which a stream is closed. The server of a node sends a comment after 15 s of silence."""
ANSWER_S = 2.0
"""Timeout of a request in seconds."""
RETRY_S = 1.0
"""Seconds after which a lost connection is tried again."""
_DATA = b"data: "


class NodeSource:
    """A source that shows a node on the same event loop."""

    def __init__(self, publish: Callable[[str], None], stop: Callable[[], None] | None = None) -> None:
        """Create the source. On requests of the page, it calls `publish` with a topic, or `stop`. Without `stop`, the
        page cannot stop the node.
        """
        self.picture = Picture(DrawnNodes())
        self._publish = publish
        self._stop = stop
        self._can = ["publish"] if stop is None else ["publish", "stop"]
        self.row_stream = RowStream(self.picture, self._can)
        self._rows = RowBuffer()
        self._unseen = 0
        self._origin_us: Micros = time_ns() // 1000

    def add_row(self, codes: Codes) -> None:
        """Add a row of the node's trace to the next frame. If `MOST_WAITING` rows wait, only count the row."""
        if len(self._rows) >= MOST_WAITING:
            self._unseen += 1
            return
        self._rows.values.frombytes(pack_row(*codes))

    def about(self) -> Changes:
        return {"source": "node", "names": {}, "can": self._can}

    async def run(self, broadcast: Broadcast, names: Callable[[], tuple[Sequence[str], Sequence[str]]]) -> None:
        """Show rows until cancelled. `names` returns the names of peers and the names of topics, in the order of
        their numbers.
        """
        while True:
            rows = self._rows.to_numpy()
            self._rows.clear()
            shown = rows.copy()
            shown[:, Column.TIME_US] -= self._origin_us
            self.picture.add_rows(shown)
            peers, topics = names()
            self.row_stream.send_rows(rows, (peers, topics), time_ns() // 1000)
            broadcast.add_names(peers, topics)
            now_us = time_ns() // 1000 - self._origin_us
            broadcast.answer_and_send(now_us, {"unseen": self._unseen}, partial(self._perform, topics))
            await asyncio.sleep(FRAME_S)

    def _perform(self, topics: Sequence[str], request: dict[str, Any]) -> Changes | None:
        match request:
            case {"do": "node", "place": int(place)}:
                is_own = self.picture.drawn.numbers[place] == OWN
                return {**self.picture.node(place), "can": self._can if is_own else []}
            case {"do": "publish", "place": int(place), "topic": int(topic)}:
                if self.picture.drawn.numbers[place] != OWN:
                    raise Refused("another application's node: only its own page can publish there")
                if not 0 <= topic < len(topics):
                    raise Refused(f"there is no topic {topic}")
                self._publish(topics[topic])
            case {"do": "stop", "place": int(place)}:
                if self._stop is None:
                    raise Refused("the page may not stop this node; start it with --watch-stop to allow that")
                if self.picture.drawn.numbers[place] != OWN:
                    raise Refused("another application's node: only its own page can stop it")
                asyncio.get_running_loop().call_later(STOP_AFTER_S, self._stop)
            case _:
                return None
        return {"node": OWN, "at": time_ns() // 1000 - self._origin_us}


class RowStream:
    """The sending end of the stream. The node's event loop calls all methods."""

    def __init__(self, picture: Picture, can: Sequence[str]) -> None:
        self._picture = picture
        self._can = tuple(can)
        self._followers: dict[Viewer, tuple[int, int]] = {}
        """By reader: how many names of peers, and how many names of topics, the reader has received."""

    def join(self) -> Viewer:
        if len(self._followers) >= MOST_FOLLOWERS:
            raise Refused(f"the stream has its maximum of {MOST_FOLLOWERS} readers")
        viewer = Viewer()
        self._followers[viewer] = 0, 0
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._followers.pop(viewer, None)

    def send_rows(self, rows: Rows, names: tuple[Sequence[str], Sequence[str]], now_us: Micros) -> None:
        """Send new rows, which are already in the picture, to all readers. `names` has the names of all peers and the
        names of all topics so far. Disconnect a reader that is too slow.
        """
        peers, topics = names
        for viewer, (sent_peers, sent_topics) in list(self._followers.items()):
            new = tuple(peers[sent_peers:]), tuple(topics[sent_topics:])
            self._followers[viewer] = len(peers), len(topics)
            if not sent_peers:
                viewer.begin(Piece(*new, _present_state(self._picture, now_us), self._can).line())
            elif len(rows) or any(new):
                viewer.put(Piece(*new, rows[:MOST_ROWS]).line())
                for start in range(MOST_ROWS, len(rows), MOST_ROWS):
                    viewer.put(Piece((), (), rows[start : start + MOST_ROWS]).line())
            if viewer.behind:
                viewer.close()


def _present_state(picture: Picture, now_us: Micros) -> Rows:
    """Return rows that describe the node's present links and topics."""
    found = [node_up_row(now_us, OWN)]
    numbers = picture.drawn.numbers
    links = [(layer, numbers[peer]) for layer, place, peer in picture.links.links if numbers[place] == OWN]
    found += [add_peer_row(now_us, OWN, peer) for layer, peer in links if layer == CONNECTIONS]
    found += [join_row(now_us, OWN, topic) for topic, members in picture.links.members.items() if OWN in members]
    found += [graft_row(now_us, OWN, peer, layer) for layer, peer in links if layer != CONNECTIONS]
    return np.array(found, dtype=np.int64)


class RemoteNode:
    """A node of another process, whose stream of rows is read."""

    def __init__(self, address: str) -> None:
        """Parse the address of a page, `http://HOST:PORT/TOKEN/`; without a port, it is 80. Raise `InvalidInput` if
        the address has another form.
        """
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
        """Connect to the stream of rows. Raise `NoPage` if that fails."""
        connection = HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        try:
            connection.connect()
            stream = connection.sock  # `getresponse` removes it from the connection, which ends with the response
            connection.request("GET", f"{self._path}rows")
            response = connection.getresponse()
            if response.status == HTTPStatus.OK:
                stream.settimeout(SILENCE_S)
                self._connection, self._response = connection, response
                return
            why = response.readline(200).decode("ascii", "replace").strip()
            if response.status == HTTPStatus.NOT_FOUND:
                why = "is no page of a node"
        except (OSError, HTTPException) as error:
            why = f"cannot be reached: {_words(error)}"
        connection.close()
        raise NoPage(f"{self.address}: {why}")

    def follow(self, deliver: Callable[[Piece | None], None]) -> None:
        """Start a thread that calls `deliver` with each piece, and with None whenever the connection ends. After
        that, the thread connects again. Call `connect` before this method.
        """
        Thread(target=self._follow, args=(deliver,), daemon=True).start()

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request to the node and return the answer. Raise `Refused` if it refuses or does not answer."""
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
        """End the stream; any thread may call this. The reading thread ends after the next line or timeout."""
        self._closed.set()

    def _follow(self, deliver: Callable[[Piece | None], None]) -> None:
        while not self._closed.is_set():
            if self._response is not None:
                self._read(self._response, deliver)
                deliver(None)
            self._disconnect()
            if not self._closed.wait(RETRY_S):
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
                    deliver(parse_line(line[len(_DATA) :]))
        except (OSError, HTTPException, MalformedLine):
            return

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        self._response = self._connection = None


class NoPage(Failure):
    """Raised if the stream of rows at an address cannot be opened. The message has the reason."""


class MalformedLine(Exception):
    """A line that is malformed, or that is larger than a node may send."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of a line: rows, and the names of peers and topics that are not in earlier lines."""

    peers: tuple[str, ...]
    topics: tuple[str, ...]
    rows: Rows
    can: tuple[str, ...] = ()
    """The requests that the node accepts: `publish`, `stop`. Only the first line has them."""

    def line(self) -> bytes:
        """Return the piece as a line, which is a server-sent event."""
        content: dict[str, Any] = {
            "peers": self.peers,
            "topics": self.topics,
            "rows": b64encode(self.rows.astype("<i8").tobytes()).decode(),
            **({"can": self.can} if self.can else {}),
        }
        return event(content)


def parse_line(line: bytes) -> Piece:
    """Return the content of a line. Raise `MalformedLine` if it is malformed or too large."""
    try:
        content: Any = json.loads(line)
        peers, topics, packed, can = content["peers"], content["topics"], content["rows"], content.get("can", [])
        values = np.frombuffer(b64decode(packed, validate=True), dtype="<i8").astype(np.int64)
        rows = values.reshape(-1, WIDTH)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedLine("not a line of a node's rows") from None
    if len(rows) > MOST_ROWS and peers == []:
        raise MalformedLine(f"the line has more than {MOST_ROWS:,} rows")
    return Piece(_texts(peers), _texts(topics), rows, _texts(can))


def _texts(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or len(cast("list[Any]", found)) > MOST_NAMES:
        raise MalformedLine(f"the names are not a list of at most {MOST_NAMES:,}")
    texts = cast("list[Any]", found)
    if not all(isinstance(text, str) and len(text) <= MOST_LETTERS for text in texts):
        raise MalformedLine(f"a name is not a text of at most {MOST_LETTERS} characters")
    return tuple(texts)


class Numbers(dict[str, int]):
    """The numbers of names, the same for all nodes: 0, 1, … in the order in which `of` is called with new names."""

    def of(self, name: str) -> int:
        """Return the number of a name. A new name gets the next number, or `NONE` if there are too many names."""
        return self.setdefault(name, len(self)) if len(self) < MOST_NAMES else self.get(name, NONE)


class SharedNames:
    """The shared numbers of one node's peers and topics, in lists by the numbers that the node itself uses."""

    def __init__(self, peers: Numbers, topics: Numbers) -> None:
        self._of_all = peers, topics
        self.peers: list[int] = []
        self.topics: list[int] = []

    def translated(self, piece: Piece) -> Rows:
        """Return the rows of a piece with shared numbers. Raise `MalformedLine` if the node has sent too many
        names.
        """
        peers, topics = self._of_all
        self.peers += map(peers.of, piece.peers)
        self.topics += map(topics.of, piece.topics)
        if max(len(self.peers), len(self.topics)) > MOST_NAMES:
            raise MalformedLine(f"the node has sent more than {MOST_NAMES:,} names")
        rows = piece.rows.copy()
        for column, numbers in ((Column.PEER, self.peers), (Column.REMOTE, self.peers), (Column.TOPIC, self.topics)):
            known = np.array([*numbers, NONE], dtype=np.int64)
            own = rows[:, column]
            rows[:, column] = known[np.where((own >= 0) & (own < len(numbers)), own, len(numbers))]
        return rows


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
