"""The picture of a network: rows in, changes out, and the whole of it for who comes later.

`changes` and `whole` have the same shape: applied to an empty picture, the whole gives what all changes so far give.
What only says how it was since the last frame (rates, latencies) is in changes alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column
from hearsay.watch.picture.links import DrawnNodes, Link, Links
from hearsay.watch.picture.spreads import Spread, Spreads, Step
from hearsay.watch.picture.traffic import Standing, Traffic

MOST_TOPICS = 64
"""Topics whose members and links are told with every frame; those that are met first."""

Changes = dict[str, Any]
"""As browsers get them; see `docs/guide/watch.md`."""


class Picture:
    def __init__(self, drawn: DrawnNodes) -> None:
        self.drawn = drawn
        self.links = Links(drawn)
        self.spreads = Spreads(drawn, self.links.members_at)
        self.traffic = Traffic(drawn)
        self.standing = Standing(drawn)
        self.topics: list[int] = []
        self._told_nodes = 0
        self._told_topics = 0
        self._told_state: Changes = {}

    def take(self, rows: Rows) -> None:
        """Rows that come later are not earlier; rows of one call may be in any order of time."""
        if not len(rows):
            return
        self.drawn.meet(rows[:, [Column.PEER, Column.REMOTE]].ravel())
        self._meet_topics(rows[:, Column.TOPIC])
        self.links.take(rows)
        self.spreads.take(rows)
        self.traffic.take(rows)
        self.standing.take(rows)

    def changes(self, now_us: Micros) -> Changes:
        """What is to be told since the last call."""
        moved, added, removed = self.links.changes()
        latencies = self.spreads.latencies
        classes = np.flatnonzero(latencies)
        told: Changes = {"latencies": np.stack([classes, latencies[classes]], axis=1).ravel().tolist()}
        new, progress = self.spreads.changes()
        told["now"] = now_us
        told |= self._state_news()
        told["nodes"] = self.drawn.numbers[self._told_nodes :]
        told["topics"] = self.topics[self._told_topics :]
        self._told_nodes, self._told_topics = len(self.drawn.numbers), len(self.topics)
        told["up"] = [place for place, up in moved if up]
        told["down"] = [place for place, up in moved if not up]
        told["linked"], told["unlinked"] = _flat(added), _flat(removed)
        told["messages"] = [_message(spread) for spread in new]
        told["spread"] = [_progress(spread, steps) for spread, steps in progress]
        told["rates"] = self.traffic.changes()
        told["scores"] = self.standing.changes()
        return {name: value for name, value in told.items() if value not in ([], {})}

    def whole(self, now_us: Micros) -> Changes:
        spreads = self.spreads.by_number.values()
        return {
            "now": now_us,
            **self._told_state,
            "nodes": self.drawn.numbers[: self._told_nodes],
            "topics": self.topics[: self._told_topics],
            "up": [place for place, node in enumerate(self.drawn.numbers) if node in self.links.up],
            "linked": _flat(self.links.links),
            "messages": [_message(spread) for spread in spreads],
            "spread": [_progress(spread, spread.steps[: spread.told]) for spread in spreads],
            "scores": self.standing.whole(),
        }

    def node(self, place: int) -> Changes:
        """What is known of one node that is drawn."""
        number = self.drawn.numbers[place]
        return {
            "node": number,
            "up": number in self.links.up,
            "topics": [[topic, links] for topic, links in self.links.of_node(number)],
            "traffic": self.traffic.of_node(place),
            "score": self.standing.mean_of(place),
        }

    def density(self, serial: int, late_us: Micros) -> Changes | None:
        """Where in a large network a message was, so long after it was published; none if that is not known."""
        found = self.spreads.density(serial, late_us)
        return None if found is None else {"arrived": found[0], "due": found[1]}

    def degrees(self, topic: int) -> list[int]:
        return self.links.degrees(topic)

    def _state_news(self) -> Changes:
        """Of the sums those that are others than at the last call."""
        lost, refused = self.traffic.by_reason()
        counted = [
            [len(members), sum(members.values())]
            for members in (self.links.members.get(topic, {}) for topic in self.topics)
        ]
        state: Changes = {"alive": len(self.links.up), "lost": lost, "refused": refused, "members": counted}
        news = {name: value for name, value in state.items() if value != self._told_state.get(name)}
        self._told_state = state
        return news

    def _meet_topics(self, topics: np.ndarray) -> None:
        if len(self.topics) < MOST_TOPICS:
            known = {NONE, *self.topics}
            self.topics += [topic for topic in np.unique(topics).tolist() if topic not in known]
            del self.topics[MOST_TOPICS:]


def _flat(links: Iterable[Link]) -> list[int]:
    return [value for link in links for value in link]


def _message(spread: Spread) -> list[int | str]:
    members = spread.awaited.count
    return [spread.serial, spread.name, spread.topic, spread.publisher, spread.published_us, members, spread.size]


def _progress(spread: Spread, steps: list[Step]) -> list[int]:
    return [spread.serial, spread.reached, *(value for step in steps for value in step)]
