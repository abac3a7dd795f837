"""The stream of a node's trace rows, for a picture of several nodes: a line of JSON for each frame.

Rules:

* A new reader receives the present state as rows, and then each new row with its time.
* Names of peers and topics are sent once, in the order of their numbers; the node itself is number 0.
* Slow readers are disconnected; on reconnect they receive the present state.
* A line is bounded (`MOST_LINE`, `MOST_ROWS`, `MOST_NAMES`), and a number without a name is an error.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import add_peer_row, graft_row, join_row, node_up_row
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import NONE, WIDTH, Column
from hearsay.watch.broadcast import Refused, Viewer
from hearsay.watch.picture.links import CONNECTIONS
from hearsay.watch.picture.picture import Picture

MOST_FOLLOWERS = 4
MOST_ROWS = 20_000
"""Maximum rows of a line."""
MOST_LINE = 16_000_000
"""Maximum bytes of a line. The first line may have the names of all peers."""
MOST_NAMES = 100_000
"""Maximum peers of one node, and maximum topics."""
MOST_LETTERS = 1_000
OWN = 0
"""The node's own number."""


class MalformedLine(Exception):
    """A line that is malformed, or larger than a node may send."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of a line: rows, and the names of peers and topics that earlier lines do not have."""

    peers: tuple[str, ...]
    topics: tuple[str, ...]
    rows: Rows
    can: tuple[str, ...] = ()
    """The requests that the node accepts, such as `publish`; only in the first line."""

    def line(self) -> bytes:
        content = {
            "peers": self.peers,
            "topics": self.topics,
            "rows": b64encode(self.rows.astype("<i8").tobytes()).decode(),
            **({"can": self.can} if self.can else {}),
        }
        return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


class RowStream:
    """The stream on the side of the node. The node's event loop calls all methods."""

    def __init__(self, picture: Picture, can: Sequence[str]) -> None:
        self._picture = picture
        self._can = tuple(can)
        self._followers: dict[Viewer, tuple[int, int]] = {}
        """Readers, with the number of peer and topic names that each has received."""

    def join(self) -> Viewer:
        if len(self._followers) >= MOST_FOLLOWERS:
            raise Refused(f"the stream has its maximum of {MOST_FOLLOWERS} readers")
        viewer = Viewer()
        self._followers[viewer] = 0, 0
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._followers.pop(viewer, None)

    def send_rows(self, rows: Rows, names: tuple[Sequence[str], Sequence[str]], now_us: Micros) -> None:
        """Send new rows to all readers; the picture already contains them. `names` are all peers and all topics."""
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


def piece_of(line: bytes) -> Piece:
    """Return the content of a line. Raise `NoRows` if it is malformed or too large."""
    try:
        content: Any = json.loads(line)
        peers, topics, packed, can = content["peers"], content["topics"], content["rows"], content.get("can", [])
        values = np.frombuffer(b64decode(packed, validate=True), dtype="<i8").astype(np.int64)
        rows = values.reshape(-1, WIDTH)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedLine("not a line of a node's rows") from None
    if len(rows) > MOST_ROWS and peers == []:
        raise MalformedLine(f"more than {MOST_ROWS:,} rows")
    return Piece(_texts(peers), _texts(topics), rows, _texts(can))


def _texts(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or len(cast("list[Any]", found)) > MOST_NAMES:
        raise MalformedLine(f"the names are not a list of at most {MOST_NAMES:,}")
    texts = cast("list[Any]", found)
    if not all(isinstance(text, str) and len(text) <= MOST_LETTERS for text in texts):
        raise MalformedLine(f"a name is not a text of at most {MOST_LETTERS} characters")
    return tuple(texts)


def _present_state(picture: Picture, now_us: Micros) -> Rows:
    """Return rows that describe the node's present links and topics."""
    found = [node_up_row(now_us, OWN)]
    numbers = picture.drawn.numbers
    links = [(layer, numbers[peer]) for layer, place, peer in picture.links.links if numbers[place] == OWN]
    found += [add_peer_row(now_us, OWN, peer) for layer, peer in links if layer == CONNECTIONS]
    found += [join_row(now_us, OWN, topic) for topic, members in picture.links.members.items() if OWN in members]
    found += [graft_row(now_us, OWN, peer, layer) for layer, peer in links if layer != CONNECTIONS]
    return np.array(found, dtype=np.int64) if found else no_rows()


class Numbers:
    """Numbers of names, the same for all nodes: 0, 1, … in the order of `of`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Return the number of a name, which may be new; `NONE` if there are too many names."""
        found = self._numbers.get(name)
        if found is None:
            if len(self.names) >= MOST_NAMES:
                return NONE
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


class SharedNames:
    """The mapping from one node's numbers of peers and topics to the shared numbers."""

    def __init__(self, peers: Numbers, topics: Numbers) -> None:
        self._of_all = peers, topics
        self.peers: list[int] = []
        self.topics: list[int] = []

    def translated(self, piece: Piece) -> Rows:
        """Return the rows with shared numbers. Raise `NoRows` if there are too many names."""
        peers, topics = self._of_all
        self.peers += map(peers.of, piece.peers)
        self.topics += map(topics.of, piece.topics)
        if max(len(self.peers), len(self.topics)) > MOST_NAMES:
            raise MalformedLine(f"more than {MOST_NAMES:,} names")
        rows = piece.rows.copy()
        for column, numbers in ((Column.PEER, self.peers), (Column.REMOTE, self.peers), (Column.TOPIC, self.topics)):
            known = np.array([*numbers, NONE], dtype=np.int64)
            own = rows[:, column]
            rows[:, column] = known[np.where((own >= 0) & (own < len(numbers)), own, len(numbers))]
        return rows
