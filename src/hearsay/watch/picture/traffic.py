"""The traffic since the last frame and in all, and the last sample of scores.

The place of a drawn node is its index among the drawn nodes.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.watch.picture.links import NOT_DRAWN, DrawnNodes, Ints

_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
MOST_SCORES = 200_000
"""Maximum scores of a sample that count for its quantiles."""


class ScoreSample:
    """The last sample of scores: the mean for each drawn node, and quantiles over all nodes."""

    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self._time_us = -1
        self._sums = np.zeros(0)
        self._counts = np.zeros(0, dtype=np.int64)
        self._scores: list[np.ndarray] = []
        self._kept = 0
        self._changed = False

    def take(self, rows: Rows) -> None:
        scores = rows[rows[:, Column.EVENT] == TraceEvent.SCORE]
        if not len(scores):
            return
        for time_us in np.unique(scores[:, Column.TIME_US]).tolist():
            self._sample(time_us, scores[scores[:, Column.TIME_US] == time_us])

    def changes(self) -> dict[str, list[float]]:
        """Return the sample if it is new or has grown since the last call, otherwise an empty dictionary."""
        if not self._changed:
            return {}
        self._changed = False
        return self.whole()

    def whole(self) -> dict[str, list[float]]:
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
        if place >= len(self._counts) or not self._counts[place]:
            return None
        return float(self._sums[place] / self._counts[place])

    def _sample(self, time_us: int, scores: Rows) -> None:
        """Add scores to the sample. A sample may arrive in several calls, all with the same time."""
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


RATES = ("published", "delivered", "copies", "control", "bytes", "lost", "refused")
PUBLISHED, DELIVERED, COPIES, CONTROL, BYTES, LOST, REFUSED = range(len(RATES))
_REASONS = tuple(wire_name(reason) for reason in Reason)


class Traffic:
    def __init__(self, drawn: DrawnNodes) -> None:
        self._drawn = drawn
        self.rates = np.zeros(len(RATES), dtype=np.int64)
        self.reasons = np.zeros((2, len(_REASONS)), dtype=np.int64)
        """Totals by reason: parts that were lost on the way; parts and messages that were refused."""
        self.of_nodes = np.zeros((0, len(RATES)), dtype=np.int64)
        """Totals of each rate, by place."""

    def take(self, rows: Rows) -> None:
        events = rows[:, Column.EVENT]
        sent = events == TraceEvent.SEND_RPC
        copies = sent & (rows[:, Column.KIND] == PartKind.PUBLISH)
        lost, refused = events == TraceEvent.DROP_RPC, events == TraceEvent.REJECT
        delivered = (events == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] != NONE)
        counted = np.maximum(rows[:, Column.COUNT], 1)
        sizes = np.maximum(rows[:, Column.BYTES], 0)
        ones = np.ones(len(rows), dtype=np.int64)
        places = self._drawn.places(rows[:, Column.PEER])
        self._make_room()
        for rate, chosen, weights in (
            (PUBLISHED, events == TraceEvent.PUBLISH, ones),
            (DELIVERED, delivered, ones),
            (COPIES, copies, ones),
            (CONTROL, sent & ~copies, ones),
            (BYTES, sent, sizes),
            (LOST, lost, ones),
            (REFUSED, refused, counted),
        ):
            self._count(rate, places[chosen], weights[chosen])
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
        """Return the totals of lost and of refused parts, by reason."""
        lost, refused = (
            {name: count for name, count in zip(_REASONS, line, strict=True) if count}
            for line in self.reasons.tolist()
        )
        return lost, refused

    def of_node(self, place: int) -> dict[str, int]:
        if place >= len(self.of_nodes):
            return dict.fromkeys(RATES, 0)
        return dict(zip(RATES, self.of_nodes[place].tolist(), strict=True))

    def _count(self, rate: int, places: Ints, weights: Ints) -> None:
        self.rates[rate] += int(weights.sum())
        drawn = places != NOT_DRAWN
        if drawn.any():
            size = len(self.of_nodes)
            self.of_nodes[:, rate] += np.bincount(places[drawn], weights[drawn], minlength=size).astype(np.int64)

    def _make_room(self) -> None:
        missing = len(self._drawn.numbers) - len(self.of_nodes)
        if missing > 0:
            more = np.zeros((missing, len(RATES)), dtype=np.int64)
            self.of_nodes = np.concatenate([self.of_nodes, more])
