"""What routers think of their peers: of the latest sample of scores, what each drawn node is worth to the others."""

from __future__ import annotations

import numpy as np

from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.watch.picture.drawn_nodes import NOT_DRAWN, DrawnNodes

_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
MOST_SCORES = 200_000
"""Scores of a sample that are looked at for its quantiles."""


class Standing:
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
        """The sample, if it is new or has grown; else nothing."""
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
        """A sample may come in pieces, all of one time."""
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
