"""A node that runs in this process: rows come from it as they happen, on its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.rows import RowBuffer, pack_row
from hearsay.trace.language.schema import Column
from hearsay.watch.broadcast import FRAME_S, Broadcast, Refused
from hearsay.watch.picture.drawn_nodes import DrawnNodes
from hearsay.watch.picture.picture import Changes, Picture
from hearsay.watch.row_stream import OWN, RowStream
from hearsay.watch.sources.questions import answer, is_place

MOST_WAITING = 200_000
"""Rows between two frames; what comes beyond that is not shown, and counted."""
MOST_NAMES = 2_000
STOP_AFTER_S = 0.1
"""So that whoever stopped it is told."""


class NodeSource:
    def __init__(self, publish: Callable[[str], None], stop: Callable[[], None] | None = None) -> None:
        """When the page says so, `publish` publishes something to a topic, and `stop` ends the node, if it may."""
        self.picture = Picture(DrawnNodes())
        self._publish = publish
        self._stop = stop
        self._can = ["publish"] if stop is None else ["publish", "stop"]
        self.row_stream = RowStream(self.picture, self._can)
        self._rows = RowBuffer()
        self._unseen = 0
        self._named = (0, 0)
        self._origin_us: Micros = time_ns() // 1000

    def put(self, codes: Codes) -> None:
        """A row of the node's trace."""
        if len(self._rows) >= MOST_WAITING:
            self._unseen += 1
            return
        self._rows.values.frombytes(pack_row(*codes))

    def about(self) -> Changes:
        return {"source": "node", "names": {}, "can": self._can}

    async def run(self, broadcast: Broadcast, names: Callable[[], tuple[Sequence[str], Sequence[str]]]) -> None:
        """Until it is cancelled. `names` are those of peers and of topics, by number."""
        while True:
            rows = self._rows.to_numpy()
            self._rows.clear()
            shown = rows.copy()
            shown[:, Column.TIME_US] -= self._origin_us
            self.picture.take(shown)
            peers, topics = names()
            self.row_stream.tell(rows, (peers, topics), time_ns() // 1000)
            if (len(peers), len(topics)) != self._named:
                self._named = len(peers), len(topics)
                broadcast.tell(names=dict(enumerate(topics)), peers=dict(enumerate(peers[:MOST_NAMES])))
            now_us = time_ns() // 1000 - self._origin_us
            state: Changes = {"paused": False, "pace": 1.0, "over": False, "touches": 0, "unseen": self._unseen}
            broadcast.beat(now_us, state, partial(self._perform, broadcast, topics))
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
                    raise Refused("another's node: only its own application publishes there")
                if not 0 <= topic < len(topics):
                    raise Refused("no such topic")
                self._publish(topics[topic])
                return {"node": OWN, "at": time_ns() // 1000 - self._origin_us}
            case {"do": "stop", "place": int(place)} if is_place(broadcast, place):
                if self._stop is None:
                    raise Refused("the page may not stop this node (hearsay node --watch --watch-stop)")
                if self.picture.drawn.numbers[place] != OWN:
                    raise Refused("another's node: its own page stops it")
                asyncio.get_running_loop().call_later(STOP_AFTER_S, self._stop)
                return {"node": OWN, "at": time_ns() // 1000 - self._origin_us}
            case _:
                raise Refused("nothing that a node does")
