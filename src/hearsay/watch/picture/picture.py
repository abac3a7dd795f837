"""The picture of a network: it processes trace rows, and returns changes, a snapshot, and positions of the drawn
nodes.

`changes` and `whole` have the same form: a snapshot and all changes so far, applied to an empty picture, are equal.
Rates and latencies describe the time since the last frame, so only changes contain them. Positions follow from links;
a thread of their own computes them on request. The place of a drawn node is its index among the drawn nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Thread
from typing import Any

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.graph_layout import force_layout
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column
from hearsay.watch.picture.links import DrawnNodes, Link, Links
from hearsay.watch.picture.spreads import Spread, Spreads, Step
from hearsay.watch.picture.traffic import ScoreSample, Traffic

MOST_TOPICS = 64
"""Maximum topics whose members and links are in every frame: the first ones of the trace."""

Changes = dict[str, Any]
"""Changes in the form for browsers; see `docs/guide/watch.md`."""


class Picture:
    def __init__(self, drawn: DrawnNodes) -> None:
        self.drawn = drawn
        self.links = Links(drawn)
        self.spreads = Spreads(drawn, self.links.members_at)
        self.traffic = Traffic(drawn)
        self.scores = ScoreSample(drawn)
        self.topics: list[int] = []
        self._sent_nodes = 0
        self._sent_topics = 0
        self._sent_state: Changes = {}

    def add_rows(self, rows: Rows) -> None:
        """Update the picture by rows, which may be in any order. Rows of a later call must not be earlier."""
        if not len(rows):
            return
        self.drawn.draw_new(rows[:, [Column.PEER, Column.REMOTE]].ravel())
        if len(self.topics) < MOST_TOPICS:
            known = {NONE, *self.topics}
            self.topics += [topic for topic in np.unique(rows[:, Column.TOPIC]).tolist() if topic not in known]
            del self.topics[MOST_TOPICS:]
        self.links.add_rows(rows)
        self.spreads.add_rows(rows)
        self.traffic.take(rows)
        self.scores.take(rows)

    def changes(self, now_us: Micros) -> Changes:
        """Return the changes since the last call."""
        moved, added, removed = self.links.changes()
        latencies = self.spreads.latencies
        classes = np.flatnonzero(latencies)
        changes: Changes = {"latencies": np.stack([classes, latencies[classes]], axis=1).ravel().tolist()}
        new, progress = self.spreads.changes()
        changes["now"] = now_us
        changes |= self._state_news()
        changes["nodes"] = self.drawn.numbers[self._sent_nodes :]
        changes["topics"] = self.topics[self._sent_topics :]
        self._sent_nodes, self._sent_topics = len(self.drawn.numbers), len(self.topics)
        changes["up"] = [place for place, up in moved if up]
        changes["down"] = [place for place, up in moved if not up]
        changes["linked"], changes["unlinked"] = _flat(added), _flat(removed)
        changes["messages"] = [_message(spread) for spread in new]
        changes["spread"] = [_progress(spread, steps) for spread, steps in progress]
        changes["rates"] = self.traffic.changes()
        changes["scores"] = self.scores.changes()
        return {name: value for name, value in changes.items() if value not in ([], {})}

    def whole(self, now_us: Micros) -> Changes:
        """Return a snapshot: all that `changes` has returned so far."""
        spreads = self.spreads.by_number.values()
        return {
            "now": now_us,
            **self._sent_state,
            "nodes": self.drawn.numbers[: self._sent_nodes],
            "topics": self.topics[: self._sent_topics],
            "up": [place for place, node in enumerate(self.drawn.numbers) if node in self.links.up],
            "linked": _flat(self.links.links),
            "messages": [_message(spread) for spread in spreads],
            "spread": [_progress(spread, spread.steps[: spread.sent_steps]) for spread in spreads],
            "scores": self.scores.whole(),
        }

    def node(self, place: int) -> Changes:
        """Return the state of one drawn node."""
        number = self.drawn.numbers[place]
        return {
            "node": number,
            "up": number in self.links.up,
            "topics": [[topic, links] for topic, links in self.links.of_node(number)],
            "traffic": self.traffic.of_node(place),
            "score": self.scores.mean_of(place),
        }

    def density(self, serial: int, late_us: Micros) -> Changes | None:
        """Return for each cell how many nodes a message had reached `late_us` after its publication, and how many it
        is due to reach; None if unknown.
        """
        found = self.spreads.density(serial, late_us)
        return None if found is None else {"arrived": found[0], "due": found[1]}

    def degrees(self, topic: int) -> list[int]:
        return self.links.degrees(topic)

    def _state_news(self) -> Changes:
        """Return the totals that changed since the last call."""
        lost, refused = self.traffic.by_reason()
        counted = [
            [len(members), sum(members.values())]
            for members in (self.links.members.get(topic, {}) for topic in self.topics)
        ]
        state: Changes = {"alive": len(self.links.up), "lost": lost, "refused": refused, "members": counted}
        state["run"] = self.spreads.run()
        news = {name: value for name, value in state.items() if value != self._sent_state.get(name)}
        self._sent_state = state
        return news


def _flat(links: Iterable[Link]) -> list[int]:
    return [value for link in links for value in link]


def _message(spread: Spread) -> list[int | str]:
    members = spread.awaited.count
    return [spread.serial, spread.name, spread.topic, spread.publisher, spread.published_us, members, spread.size]


def _progress(spread: Spread, steps: list[Step]) -> list[int]:
    return [spread.serial, spread.reached, *(value for step in steps for value in step)]


SIDE = 10_000
"""Browsers receive positions as integers from 0 to this."""
_LINKS_PER_NODE = 2
_MOST_PULLING = 6_000


class Layout:
    """The positions of the drawn nodes, by their links."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._thread: Thread | None = None
        self._found: list[int] | None = None
        self._wanted = False

    def request(self) -> None:
        """Request new positions, by the present links."""
        self._wanted = True

    def new_positions(self) -> list[int] | None:
        """Return x and y of each drawn node in turn if new positions are ready, otherwise None. Start the thread if
        positions were requested.
        """
        found, self._found = self._found, None
        if self._wanted and self._thread is None and self._is_linked:
            self._wanted = False
            self._thread = Thread(target=self._lay_out, args=self._graph(), daemon=True)
            self._thread.start()
        elif self._thread is not None and not self._thread.is_alive():
            self._thread = None
        return found

    @property
    def _is_linked(self) -> bool:
        """Return True if there are enough links for a layout."""
        nodes = len(self._picture.drawn.numbers)
        return nodes > 1 and len(self._picture.links.links) >= _LINKS_PER_NODE * nodes

    def _graph(self) -> tuple[int, np.ndarray]:
        """Return the number of nodes, and links: those of topics before connections, which are less informative."""
        links = sorted(self._picture.links.links, key=lambda link: link[0] < 0)
        pairs = {(min(node, peer), max(node, peer)): None for _, node, peer in links}
        return len(self._picture.drawn.numbers), np.array(list(pairs)[:_MOST_PULLING], dtype=np.int64)

    def _lay_out(self, nodes: int, links: np.ndarray) -> None:
        self._found = (force_layout(nodes, links) * SIDE).round().astype(np.int64).ravel().tolist()
