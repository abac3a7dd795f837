"""Student's t distribution, from the incomplete beta function (Abramowitz and Stegun, 26.5.8 and 26.7)."""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

_TINY = 1e-300
_CLOSE = 1e-14
_MOST_STEPS = 200
_MOST_TERMS = 10_000


def two_sided_p(t: float, freedom: float) -> float:
    """The probability of a value at least as far from 0 as t."""
    if t == 0:
        return 1.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(maxsize=4096)
def quantile(share: float, freedom: float) -> float:
    """The value that a share of the distribution lies below; `share` in 0.5…1."""
    if share <= 0.5:
        return 0.0
    outside = 2 * (1 - share)
    low, high = 0.0, max(1.0, NormalDist().inv_cdf(share))
    while two_sided_p(high, freedom) > outside:
        low, high = high, high * 2
    # Newton's steps, and a halving where one would leave the bracket.
    value = high
    for _ in range(_MOST_STEPS):
        surplus = two_sided_p(value, freedom) - outside
        low, high = (value, high) if surplus > 0 else (low, value)
        step = surplus / (2 * _density(value, freedom))
        after = value + step if low < value + step < high else (low + high) / 2
        if abs(after - value) <= _CLOSE * value:
            return after
        value = after
    return value


def _density(t: float, freedom: float) -> float:
    logarithm = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(freedom * pi) / 2
    return exp(logarithm - (freedom + 1) / 2 * log1p(t * t / freedom))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by the fraction that converges fast on this side of its mean."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction."""
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = inf
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + term / c
            c = c if abs(c) > _TINY else _TINY
            change = c * d
            value *= change
        if abs(change - 1) < _CLOSE / 10:
            break
    return value


def half_width(error: float, freedom: float, level: float) -> float:
    """How far an interval that holds with probability `level` reaches to each side of an estimate."""
    return quantile((1 + level) / 2, freedom) * error if error > 0 else 0.0


def standard_error(variance: float, count: int) -> float:
    return sqrt(variance / count)
