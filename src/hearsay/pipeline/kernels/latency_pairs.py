"""Exact latencies on their way to percentiles: arrays of pairs (latency, how often), one word after the other.

A row per latency would cost Spark more than all the rest of the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]

_CHUNK = 1 << 19
"""Pairs in an array."""


def packed(topics: Ints, latencies: Ints, counts: Ints) -> Iterator[tuple[int, Ints]]:
    """(topic, pairs) of lines that are in the order of their topics."""
    changes = np.flatnonzero(topics[1:] != topics[:-1]) + 1
    bounds: list[int] = [0, *changes.tolist(), len(topics)]
    for start, stop in pairwise(bounds):
        for first in range(start, stop, _CHUNK):
            last = min(first + _CHUNK, stop)
            yield int(topics[first]), np.stack([latencies[first:last], counts[first:last]], 1).reshape(-1)


def percentiles_x100(pairs: Ints, percents: Sequence[int]) -> list[int]:
    """Linear interpolation between order statistics, in hundredths, which is exact; at least one pair."""
    order = np.argsort(pairs[0::2], kind="stable")
    latencies = pairs[0::2][order]
    up_to = np.cumsum(pairs[1::2][order])
    found: list[int] = []
    for percent in percents:
        low, rest = divmod((int(up_to[-1]) - 1) * percent, 100)
        below, above = (
            int(latencies[np.searchsorted(up_to, rank, side="right")])
            for rank in (low, min(low + 1, int(up_to[-1]) - 1))
        )
        found.append(below * 100 + (above - below) * rest)
    return found
