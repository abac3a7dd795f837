"""Sampled scores of chosen nodes, at those that judge them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import Ints, rows_between
from hearsay.trace.language.schema import Column, TraceEvent

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.BYTES)


class ScoreSamples:
    def __init__(self, judge: Ints, judged: Ints, time_us: Ints, bits: Ints) -> None:
        order = np.lexsort((time_us, judge, judged))
        self._judged, self._judge, self._time = judged[order], judge[order], time_us[order]
        self._score = bits[order].astype(np.int64).view(np.float64)

    def latest(self, judge: int, judged: int, until_us: int) -> float | None:
        """The last sample until a time, or else the first after it."""
        first, end = np.searchsorted(self._judged, [judged, judged + 1])
        low, high = first + np.searchsorted(self._judge[first:end], [judge, judge + 1])
        if low == high:
            return None
        place = low + int(np.searchsorted(self._time[low:high], until_us, side="right")) - 1
        return float(self._score[max(place, low)])


def score_samples(run: RunFacts, judged: Collection[int], until_us: int) -> ScoreSamples:
    wanted = np.unique(np.array(list(judged), dtype=np.int64))
    pieces: list[list[Ints]] = [[np.empty(0, dtype=np.int64)] * 4]
    for file in run.files("score"):
        for rows in rows_between(str(run.path / file.name), file.min_time_us, until_us, _COLUMNS):
            mine = (rows[Column.EVENT] == TraceEvent.SCORE) & np.isin(rows[Column.REMOTE], wanted)
            columns = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.BYTES)
            pieces.append([rows[column][mine].astype(np.int64) for column in columns])
    judge, of, time, bits = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return ScoreSamples(judge, of, time, bits)
