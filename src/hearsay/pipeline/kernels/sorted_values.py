"""Values of every message in ascending order, looked up by rank: all percentiles from one sort."""

from __future__ import annotations

import numpy as np

from hearsay.pipeline.kernels.sums import (
    Ints,
)

UNKNOWN = -(1 << 62)
"""Of a time or count that there is not; null in the tables. No clock is so wrong that it would be measured."""


class SortedValues:
    """Values of every message in ascending order, looked up by rank."""

    def __init__(self, owner: Ints, values: Ints, count: int) -> None:
        self.sizes = np.bincount(owner, minlength=count)
        self._first = np.concatenate(([0], np.cumsum(self.sizes)))[:count]
        lowest = int(values.min()) if len(values) else 0
        width = max(int(values.max()) - lowest, 1).bit_length() if len(values) else 1
        if count.bit_length() + width < 63:
            keys = (owner.astype(np.int64) << width) | (values - lowest)
            keys.sort()
            self._values = (keys & ((1 << width) - 1)) + lowest
        else:
            self._values = values[np.lexsort((values, owner))]

    def at_rank(self, ranks: Ints) -> Ints:
        """The value of each message at its rank from 1; unknown where there is none."""
        there = (ranks >= 1) & (ranks <= self.sizes)
        result = np.full(len(ranks), UNKNOWN, dtype=np.int64)
        result[there] = self._values[(self._first + ranks - 1)[there]]
        return result

    def percentile_x100(self, percent: int) -> Ints:
        """Linear interpolation between order statistics, in hundredths, which is exact."""
        result = np.full(len(self.sizes), UNKNOWN, dtype=np.int64)
        there = self.sizes > 0
        position = (self.sizes[there] - 1) * percent
        low, rest = position // 100, position % 100
        first = self._first[there]
        below = self._values[first + low]
        above = self._values[first + np.minimum(low + 1, self.sizes[there] - 1)]
        result[there] = below * 100 + (above - below) * rest
        return result


def rank_of_share(eligible: Ints, percent: int) -> Ints:
    """The rank at which that share of the eligible is reached; 0 without eligible."""
    return np.where(eligible > 0, -(-eligible * percent // 100), 0)
