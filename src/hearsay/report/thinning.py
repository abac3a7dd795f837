"""Reduce curves of millions of values to a few hundred points that look the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CURVE_POINTS = 400
LOAD_POINTS = 201
BUCKETS = 240


def cdf(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the share of all weight at or below each value, in at most `CURVE_POINTS` points with both ends.

    Half of the points are evenly spread over the values and half over the shares, so body and tail stay fine.
    """
    if not len(values) or not weights.sum():
        return np.empty(0), np.empty(0)
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    shares = np.cumsum(np.add.reduceat(weights[order], first))
    shares /= shares[-1]
    if len(distinct) > CURVE_POINTS:
        half = CURVE_POINTS // 2
        by_value = np.searchsorted(distinct, _spaced(distinct[0], distinct[-1], half))
        by_share = np.searchsorted(shares, _spaced(shares[0], 1, half))
        kept = np.unique(np.concatenate((by_value, by_share)).clip(0, len(distinct) - 1))
        distinct, shares = distinct[kept], shares[kept]
    return distinct, shares


def sorted_load(values: Floats, nodes: int) -> tuple[Floats, Floats]:
    """Return the load at evenly spaced ranks from 0 to 1, the smallest first; nodes without a value have no load."""
    loads = np.sort(np.concatenate((np.zeros(max(0, nodes - len(values))), values)))
    if not len(loads):
        return np.empty(0), np.empty(0)
    ranks = np.unique(np.linspace(0, len(loads) - 1, min(LOAD_POINTS, len(loads))).round().astype(np.int64))
    return ranks / max(1, len(loads) - 1), loads[ranks]


def buckets(times: Floats) -> list[NDArray[np.int64]]:
    """Return the places of values in groups of adjacent times: at most `BUCKETS`, in order of time."""
    if not len(times):
        return []
    order = np.argsort(times, kind="stable")
    if len(order) <= BUCKETS:
        return [order[place : place + 1] for place in range(len(order))]
    in_order = times[order]
    edges = _spaced(in_order[0], in_order[-1], BUCKETS + 1)[1:-1]
    return [group for group in np.split(order, np.searchsorted(in_order, edges)) if len(group)]


def evenly(length: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of `length` places, evenly spread, with the first and last."""
    if length <= most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))


def _spaced(low: float, high: float, points: int) -> Floats:
    return np.linspace(float(low), float(high), points, dtype=np.float64)
