"""Several running nodes in one picture. Their rows are sorted by time, except those that arrive too late.

Rules:

* A row is shown `HOLD_US` after its time, so that rows of other nodes with earlier times are shown first. If the
  clock of its node is ahead, the row is shown `HOLD_US` after its arrival. A row that arrives too late is shown at
  once, with the time of the last shown row; the page shows the number of such rows.
* Clocks are not corrected: if the clocks of two machines differ, latencies between them are wrong by the difference.
* A disconnected node is down. When it is connected again, it sends its state again.
* The number of waiting rows is bounded: further rows are counted and dropped. The row that shows a disconnected node
  as down is never dropped, since no other row shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from threading import Event
from time import time_ns
from typing import Any

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import node_down_row
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import NONE, Column
from hearsay.watch.broadcast import Broadcast, Refused
from hearsay.watch.links import DrawnNodes
from hearsay.watch.node import OWN, MalformedLine, Numbers, Piece, RemoteNode, SharedNames
from hearsay.watch.picture import Changes, Picture

HOLD_US: Micros = 300_000
MOST_WAITING = 200_000
"""Maximum rows that wait."""
MOST_PIECES = 1_000
"""Maximum pieces that threads have read and the source has not processed."""
MOST_NODES = 64


@dataclass(slots=True)
class _Joined:
    """One of the nodes. `names` is None while the node is disconnected; `can` has the requests that the node
    accepts.
    """

    remote: RemoteNode
    names: SharedNames | None = None
    can: tuple[str, ...] = field(default=())

    @property
    def own(self) -> int:
        """Return the node's number in the picture; `NONE` while the number is unknown."""
        return self.names.peers[OWN] if self.names is not None and self.names.peers else NONE


class JoinedNodesSource:
    """Several running nodes as one source."""

    def __init__(self, nodes: Sequence[RemoteNode]) -> None:
        """Create the source. The caller must have connected each node (`RemoteNode.connect`)."""
        self.picture = Picture(DrawnNodes())
        self._nodes = [_Joined(node) for node in nodes]
        self._peers, self._topics = Numbers(), Numbers()
        self._pieces: Queue[tuple[_Joined, Piece | None]] = Queue(MOST_PIECES)
        self._waiting = no_rows()
        self._arrived = np.zeros(0, dtype=np.int64)
        self._origin_us: Micros = time_ns() // 1000
        self._shown_us: Micros = 0
        self._unseen = 0
        self._late = 0
        self._closed = Event()

    def about(self) -> Changes:
        return {"source": f"{len(self._nodes)} nodes", "names": {}, "can": []}

    def run(self, broadcast: Broadcast, *, until_complete: bool) -> None:
        """Show rows until `close`; with `until_complete`, at most until a row has been shown, no node is connected
        and no row waits.
        """
        for joined in self._nodes:
            joined.remote.follow(lambda piece, joined=joined: self._queue_piece(joined, piece))
        while not self._closed.is_set() and not (until_complete and self._is_over):
            self.step(broadcast)
            broadcast.wait_until_due()
        for joined in self._nodes:
            joined.remote.close()

    def step(self, broadcast: Broadcast) -> None:
        now_us = time_ns() // 1000 - self._origin_us
        self._process_pieces(broadcast, now_us)
        self._show(now_us)
        broadcast.add_names(list(self._peers), list(self._topics))
        gone = sum(joined.names is None for joined in self._nodes)
        state: Changes = {"unseen": self._unseen, "late": self._late, "gone": gone}
        broadcast.answer_and_send(max(now_us - HOLD_US, 0), state, self._perform)

    def close(self) -> None:
        """End `run`; any thread may call this."""
        self._closed.set()

    @property
    def _is_over(self) -> bool:
        return self._shown_us > 0 and all(joined.names is None for joined in self._nodes) and not len(self._waiting)

    def _queue_piece(self, joined: _Joined, piece: Piece | None) -> None:
        """Queue a piece. The thread that read the piece calls this method, and waits while the queue is full.
        Meanwhile the node may disconnect this slow reader.
        """
        while not self._closed.is_set():
            try:
                self._pieces.put((joined, piece), timeout=1)
            except Full:
                continue
            return

    def _process_pieces(self, broadcast: Broadcast, now_us: Micros) -> None:
        for _ in range(MOST_PIECES):
            try:
                joined, piece = self._pieces.get_nowait()
            except Empty:
                return
            if piece is None:
                self._set_down(joined, now_us)
                continue
            if joined.names is None:
                joined.names, joined.can = SharedNames(self._peers, self._topics), piece.can
                can = {action for each in self._nodes for action in each.can}
                broadcast.add_state(can=sorted(can))
            try:
                rows = joined.names.translated(piece)
            except MalformedLine:
                self._set_down(joined, now_us)
                joined.remote.close()
                continue
            rows[:, Column.TIME_US] -= self._origin_us
            self._add_waiting(rows, now_us)

    def _set_down(self, joined: _Joined, now_us: Micros) -> None:
        if joined.own != NONE:
            self._append(np.array([node_down_row(now_us, joined.own, NONE)], dtype=np.int64), now_us)
        joined.names = None

    def _add_waiting(self, rows: Rows, now_us: Micros) -> None:
        room = MOST_WAITING - len(self._waiting)
        self._unseen += max(len(rows) - room, 0)
        self._append(rows[:room], now_us)

    def _append(self, rows: Rows, now_us: Micros) -> None:
        self._waiting = np.concatenate([self._waiting, rows])
        self._arrived = np.concatenate([self._arrived, np.full(len(rows), now_us)])

    def _show(self, now_us: Micros) -> None:
        due = (self._waiting[:, Column.TIME_US] <= now_us - HOLD_US) | (self._arrived <= now_us - HOLD_US)
        rows = self._waiting[due]
        if not len(rows):
            return
        self._waiting, self._arrived = self._waiting[~due], self._arrived[~due]
        late = rows[:, Column.TIME_US] < self._shown_us
        self._late += int(np.count_nonzero(late))
        rows[late, Column.TIME_US] = self._shown_us
        rows = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
        self._shown_us = int(rows[-1, Column.TIME_US])
        self.picture.add_rows(rows)

    def _perform(self, request: dict[str, Any]) -> Changes | None:
        action = request.get("do")
        if action not in ("node", "publish", "stop") or "place" not in request:
            return None
        node = self.picture.drawn.numbers[int(request["place"])]
        joined = next((joined for joined in self._nodes if joined.own == node), None)
        if action == "node":
            return {**self.picture.node(request["place"]), "can": [] if joined is None else joined.can}
        if joined is None or joined.names is None:
            raise Refused("this page is not connected to the node")
        asked: dict[str, Any] = {"do": action, "place": OWN}
        if action == "publish":
            if request.get("topic") not in joined.names.topics:
                raise Refused("the node does not know that topic")
            asked["topic"] = joined.names.topics.index(request["topic"])
        joined.remote.ask(asked)
        return {"node": node, "at": time_ns() // 1000 - self._origin_us}
