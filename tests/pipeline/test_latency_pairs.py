"""Percentiles from packed pairs are those of the values laid out one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hearsay.pipeline.kernels.latency_pairs import packed, percentiles_x100

LINES = st.lists(st.tuples(st.integers(0, 3), st.integers(-1000, 1 << 40), st.integers(1, 4)), max_size=40)


@given(LINES)
def test_packing_loses_nothing(lines):
    lines.sort()
    topics, latencies, counts = (np.array([line[place] for line in lines], dtype=np.int64) for place in range(3))
    found: Counter[tuple[int, int]] = Counter()
    for topic, pairs in packed(topics, latencies, counts):
        for latency, count in pairs.reshape(-1, 2).tolist():
            found[topic, latency] += count
    expected: Counter[tuple[int, int]] = Counter()
    for topic, latency, count in lines:
        expected[topic, latency] += count
    assert found == expected


@given(LINES.filter(bool), st.integers(0, 100))
def test_percentiles_interpolate_between_order_statistics(lines, percent):
    values = sorted(latency for _, latency, count in lines for _ in range(count))
    place = Fraction((len(values) - 1) * percent, 100)
    low = int(place)
    above = values[min(low + 1, len(values) - 1)]
    pairs = np.array([(latency, count) for _, latency, count in lines], dtype=np.int64).reshape(-1)
    assert percentiles_x100(pairs, [percent]) == [100 * (values[low] + (above - values[low]) * (place - low))]
