"""Standing: what peers think of each other, over time, and who stands worst at the end.

    observer 1 gives peer 7 a score of -30, observer 2 one of -10   ->   worst_peers: peer 7, median -20, observers 2

A task reads a stretch of the run in the order of time, and holds the rows of a moment and of those row groups that
reach into it: a row for each pair of peers and each part that is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, in_time
from hearsay.pipeline.kernels.score_moments import Moment, quantile_lines, worst_lines
from hearsay.pipeline.output.tables import SCORES, WORST_PEERS, MetricTable
from hearsay.trace.language.schema import Column

_COLUMNS = (Column.TIME_US, Column.EVENT, Column.REMOTE, Column.TOPIC, Column.BYTES)
_ROWS_OF_A_STRETCH = 2_000_000
_MOST_STRETCHES = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """From when until before when, in microseconds."""

    since_us: int
    until_us: int


def stretches_of(run: RunFacts) -> list[Stretch]:
    """How the run's scores are divided; without a row of scores there is none."""
    files = run.files("score")
    if not files:
        return []
    first, last = min(file.min_time_us for file in files), max(file.max_time_us for file in files)
    count = min(-(-sum(file.rows for file in files) // _ROWS_OF_A_STRETCH), _MOST_STRETCHES)
    bounds = [first + (last + 1 - first) * place // count for place in range(count + 1)]
    return [Stretch(since, until) for since, until in pairwise(bounds)]


def score_lines(run: RunFacts, stretch: Stretch) -> Iterator[tuple[MetricTable, list[dict[str, Any]]]]:
    """The tables `scores` and `worst_peers`, as far as the stretch tells them."""
    files = [file for file in run.files("score") if file.min_time_us < stretch.until_us]
    paths = [str(run.path / file.name) for file in files if file.max_time_us >= stretch.since_us]
    lines: list[dict[str, Any]] = []
    end = max(file.max_time_us for file in run.files("score"))
    for rows in in_time(paths, _COLUMNS, stretch.since_us, stretch.until_us):
        for time, moment in _moments(rows):
            lines += ({"time_us": time, **line} for line in quantile_lines(moment, run.thresholds))
            if time == end:
                yield WORST_PEERS, [{"time_us": time, **line} for line in worst_lines(moment, run.thresholds)]
    yield SCORES, lines


def _moments(rows: ColumnArrays) -> Iterator[tuple[int, Moment]]:
    times, starts = np.unique(rows[Column.TIME_US], return_index=True)
    for time, start, end in zip(times.tolist(), starts, [*starts[1:], len(rows[Column.TIME_US])], strict=True):
        event, remote, topic, bits = (rows[column][start:end] for column in _COLUMNS[1:])
        yield time, Moment(event, remote, topic, np.ascontiguousarray(bits).view(np.float64))
