"""A scale for scores: linear, or logarithmic on both sides of 0 where some are a hundred times others.

Honest peers have tens and thresholds lie at tens of thousands below 0; on one linear scale either is a flat line.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, copysign, log10

from hearsay.report.study.scales import Scale, scale_of_values
from hearsay.text.numbers import figure

_WIDE = 100.0
_MOST_TICKS = 7


def signed_scale(values: Sequence[float]) -> Scale:
    """From the least to the greatest of the values, with 0 among them."""
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low == 0:
        low, high = -1.0, 1.0
    sides = [abs(end) for end in (low, high) if end]
    if max(sides) < _WIDE and (len(sides) == 1 or max(sides) < _WIDE * min(sides)):
        return scale_of_values([low, high], "number")
    bottom, top = -_power(-low), _power(high)
    start, end = _folded(bottom), _folded(top)
    places = [*(-each for each in reversed(_powers(-bottom))), 0.0, *_powers(top)]
    every = ceil(len(places) / _MOST_TICKS)
    zero = places.index(0.0)
    shown = [place for number, place in enumerate(places) if (number - zero) % every == 0]

    def at(value: float) -> float:
        return (_folded(value) - start) / (end - start)

    return Scale(at, tuple((at(place), figure(place)) for place in shown))


def _folded(value: float) -> float:
    return copysign(log10(1.0 + abs(value)), value)


def _power(amount: float) -> float:
    """The power of ten that is at least so much; 0 stays 0."""
    return 10.0 ** ceil(log10(max(1.0, amount))) if amount else 0.0


def _powers(most: float) -> list[float]:
    return [10.0**power for power in range(1, round(log10(most)) + 1)] if most else []
