"""The picture of a network, updated by trace rows: traffic, scores, changes, snapshots, and positions of nodes.

`changes` and `whole` of a picture return dictionaries of the same form. A page that applies a snapshot to an empty
picture has the same picture as one that has applied all changes so far. Rates and latencies are about the time since
the last frame, so only changes have them. Positions are computed from links, on request and by a separate thread. The
place of a drawn node is its index among the drawn nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Thread
from typing import Any

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.graph_layout import force_layout
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.watch.links import NOT_DRAWN, DrawnNodes, Link, Links
from hearsay.watch.spreads import Spread, Spreads, Step

_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
MOST_SCORES = 200_000
"""Maximum stored scores of a sample, for its quantiles."""
RATES = ("published", "delivered", "copies", "control", "bytes", "lost", "refused")
PUBLISHED, DELIVERED, COPIES, CONTROL, BYTES, LOST, REFUSED = range(len(RATES))
_REASONS = tuple(wire_name(reason) for reason in Reason)
MOST_TOPICS = 64
"""Maximum topics whose numbers of members and links are in frames: the first topics of the trace."""
Changes = dict[str, Any]
"""Changes in the form for browsers; see `docs/guide/watch.md`."""
SIDE = 10_000
"""Browsers receive positions as integers from 0 to this."""
_LINKS_PER_NODE = 2
"""Minimum links per drawn node for a layout."""
_MOST_PAIRS = 6_000
"""Maximum pairs of linked nodes that a layout uses."""


class Picture:
    """The nodes, links, messages, traffic and scores of a network, as a page shows them."""

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
        """Update the picture by rows in any order. No row may be earlier than the rows of previous calls."""
        if not len(rows):
            return
        self.drawn.draw_new(rows[:, [Column.PEER, Column.REMOTE]].ravel())
        if len(self.topics) < MOST_TOPICS:
            known = {NONE, *self.topics}
            self.topics += [topic for topic in np.unique(rows[:, Column.TOPIC]).tolist() if topic not in known]
            del self.topics[MOST_TOPICS:]
        self.links.add_rows(rows)
        self.spreads.add_rows(rows)
        self.traffic.add_rows(rows)
        self.scores.add_rows(rows)

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
        """Return a snapshot: the state after the last `changes`, without rates and latencies. Call `changes` first,
        and add no rows between the two calls.
        """
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
        """Return the state of the drawn node with this place."""
        number = self.drawn.numbers[place]
        return {
            "node": number,
            "up": number in self.links.up,
            "topics": [[topic, links] for topic, links in self.links.of_node(number)],
            "traffic": self.traffic.of_node(place),
            "score": self.scores.mean_of(place),
        }

    def _state_news(self) -> Changes:
        """Return the counts of the picture that changed since the last call."""
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
    members = spread.due.count
    return [spread.serial, spread.name, spread.topic, spread.publisher, spread.published_us, members, spread.size]


def _progress(spread: Spread, steps: list[Step]) -> list[int]:
    return [spread.serial, spread.reached, *(value for step in steps for value in step)]


class Traffic:
    """Counts of messages, parts of RPCs and bytes: since the last frame, and totals by reason and by drawn node."""

    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self.rates = np.zeros(len(RATES), dtype=np.int64)
        self.reasons = np.zeros((2, len(_REASONS)), dtype=np.int64)
        """Totals by reason: in row 0 of parts that were lost or not sent, in row 1 of refused parts and messages."""
        self.of_nodes = np.zeros((0, len(RATES)), dtype=np.int64)
        """Totals of each count in `RATES`, by place."""

    def add_rows(self, rows: Rows) -> None:
        events = rows[:, Column.EVENT]
        sent = events == TraceEvent.SEND_RPC
        copies = sent & (rows[:, Column.KIND] == PartKind.PUBLISH)
        lost, refused = events == TraceEvent.DROP_RPC, events == TraceEvent.REJECT
        delivered = (events == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)
        counted = np.maximum(rows[:, Column.COUNT], 1)
        sizes = np.maximum(rows[:, Column.BYTES], 0)
        ones = np.ones(len(rows), dtype=np.int64)
        places = self._drawn.places(rows[:, Column.PEER])
        missing = len(self._drawn.numbers) - len(self.of_nodes)
        if missing > 0:
            self.of_nodes = np.pad(self.of_nodes, ((0, missing), (0, 0)))
        for rate, chosen, weights in (
            (PUBLISHED, events == TraceEvent.PUBLISH, ones),
            (DELIVERED, delivered, ones),
            (COPIES, copies, ones),
            (CONTROL, sent & ~copies, ones),
            (BYTES, sent, sizes),
            (LOST, lost, ones),
            (REFUSED, refused, counted),
        ):
            self.rates[rate] += int(weights[chosen].sum())
            drawn = chosen & (places != NOT_DRAWN)
            np.add.at(self.of_nodes[:, rate], places[drawn], weights[drawn])
        for line, chosen in enumerate((lost, refused)):
            reasons = rows[chosen, Column.REASON]
            known = (reasons >= 0) & (reasons < len(_REASONS))
            np.add.at(self.reasons[line], reasons[known], (counted if line else ones)[chosen][known])

    def changes(self) -> list[int]:
        """Return the counts since the last call, and reset them."""
        counted = self.rates.tolist()
        self.rates[:] = 0
        return counted

    def by_reason(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return totals by reason: of parts that were lost or not sent, and of refused parts and messages."""
        lost, refused = (
            {name: count for name, count in zip(_REASONS, line, strict=True) if count}
            for line in self.reasons.tolist()
        )
        return lost, refused

    def of_node(self, place: int) -> dict[str, int]:
        """Return the totals of a drawn node, by name of the count (`RATES`)."""
        if place >= len(self.of_nodes):
            return dict.fromkeys(RATES, 0)
        return dict(zip(RATES, self.of_nodes[place].tolist(), strict=True))


class ScoreSample:
    """The last sample of scores: the mean of the scores that each drawn node got from its peers, and quantiles over
    at most `MOST_SCORES` scores of all nodes.
    """

    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self._time_us = -1
        self._sums = np.zeros(0)
        self._counts = np.zeros(0, dtype=np.int64)
        self._scores: list[np.ndarray] = []
        self._kept = 0
        self._changed = False

    def add_rows(self, rows: Rows) -> None:
        scores = rows[rows[:, Column.EVENT] == TraceEvent.SCORE]
        if not len(scores):
            return
        for time_us in np.unique(scores[:, Column.TIME_US]).tolist():
            self._sample(time_us, scores[scores[:, Column.TIME_US] == time_us])

    def changes(self) -> dict[str, list[float]]:
        """Return the sample if it is new, or has grown since the last call; otherwise return an empty dictionary."""
        if not self._changed:
            return {}
        self._changed = False
        return self.whole()

    def whole(self) -> dict[str, list[float]]:
        """Return the sample in the form for browsers; an empty dictionary if no drawn node has a score."""
        scored = np.flatnonzero(self._counts)
        if not len(scored):
            return {}
        means = self._sums[scored] / self._counts[scored]
        every = np.concatenate(self._scores)
        flat = np.stack([scored.astype(np.float64), means.round(2)], axis=1).ravel()
        return {
            "means": flat.tolist(),
            "quantiles": np.quantile(every, _QUANTILES).round(2).tolist(),
            "below": [float(np.count_nonzero(every < 0)), float(len(every))],
        }

    def mean_of(self, place: int) -> float | None:
        """Return the mean of the scores of a drawn node; None if the node has no score."""
        if place >= len(self._counts) or not self._counts[place]:
            return None
        return float(self._sums[place] / self._counts[place])

    def _sample(self, time_us: int, scores: Rows) -> None:
        """Add scores to the sample. A sample may arrive in several calls, all with the same time. A later time begins
        a new sample; scores of an earlier time are ignored.
        """
        values = scores[:, Column.BYTES].copy().view(np.float64)
        finite = np.isfinite(values)
        places, values = self._drawn.places(scores[finite, Column.REMOTE]), values[finite]
        if time_us > self._time_us:
            self._time_us, self._scores, self._kept = time_us, [], 0
            size = len(self._drawn.numbers)
            self._sums, self._counts = np.zeros(size), np.zeros(size, dtype=np.int64)
        if time_us < self._time_us or not len(values):
            return
        drawn = (places != NOT_DRAWN) & (places < len(self._counts))
        self._sums += np.bincount(places[drawn], values[drawn], minlength=len(self._sums))
        self._counts += np.bincount(places[drawn], minlength=len(self._counts))
        kept = values[: max(MOST_SCORES - self._kept, 0)]
        self._kept += len(kept)
        self._scores.append(kept)
        self._changed = True


class Layout:
    """The positions of the drawn nodes, computed from their links."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._thread: Thread | None = None
        self._found: list[int] | None = None
        self._wanted = False

    def request(self) -> None:
        """Request new positions. `new_positions` starts the computation from the links at its next call."""
        self._wanted = True

    def new_positions(self) -> list[int] | None:
        """Return x and y of each drawn node in one list, in the order of places, if new positions are ready;
        otherwise None. Start the thread if positions were requested and there are enough links.
        """
        found, self._found = self._found, None
        nodes, links = len(self._picture.drawn.numbers), self._picture.links.links
        if self._wanted and self._thread is None and nodes > 1 and len(links) >= _LINKS_PER_NODE * nodes:
            self._wanted = False
            # Links of topics come before connections, which are less informative.
            in_order = sorted(links, key=lambda link: link[0] < 0)
            pairs = list({(min(node, peer), max(node, peer)): None for _, node, peer in in_order})[:_MOST_PAIRS]

            def lay_out() -> None:
                places = force_layout(nodes, np.array(pairs, dtype=np.int64)) * SIDE
                self._found = places.round().astype(np.int64).ravel().tolist()

            self._thread = Thread(target=lay_out, daemon=True)
            self._thread.start()
        elif self._thread is not None and not self._thread.is_alive():
            self._thread = None
        return found
