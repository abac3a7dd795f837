"""Statistics of metrics over seeds: intervals, differences and Student's t distribution.

`freedom` is the number of degrees of freedom of the distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, sqrt

_TINY = 1e-300
_CLOSE = 1e-14
_MOST_TERMS = 10_000


def two_sided_p(t: float, freedom: float) -> float:
    """Return the probability that a value of the t distribution is at least as far from 0 as `t`."""
    if t == 0:
        return 1.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(maxsize=4096)
def quantile(share: float, freedom: float) -> float:
    """Return the value below which a share of the t distribution lies; a `share` below 0.5 counts as 0.5."""
    if share <= 0.5:
        return 0.0
    outside = 2 * (1 - share)
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > outside:
        low, high = high, high * 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if two_sided_p(middle, freedom) > outside else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by the continued fraction that converges fast at x."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
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
    """Return half the width of an interval that contains the true value with probability `level`; `error` is the
    standard error.
    """
    return quantile((1 + level) / 2, freedom) * error if error > 0 else 0.0


def standard_error(variance: float, count: int) -> float:
    return sqrt(variance / count)


LEVEL = 0.95
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds. It has no interval if there are fewer than two seeds."""

    seeds: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of the second side's mean from the first's."""

    seeds: int
    paired: bool
    mean_a: float
    mean_b: float
    low: float
    high: float
    p: float
    """The probability of a difference at least as large if both sides were equal."""
    error: float
    """Standard error of the difference."""
    freedom: float
    constant: bool
    """True if all observations (paired: all differences) are equal, so that no randomness is visible."""

    @property
    def estimate(self) -> float:
        return self.mean_b - self.mean_a

    def relative(self, amount: float) -> float | None:
        """Return an amount as a share of the first side's mean; None if that is 0."""
        return amount / abs(self.mean_a) if self.mean_a else None

    def detectable(self, figures: int = 1) -> float:
        """Return the smallest difference that is found in 80 of 100 cases, among `figures` metrics."""
        if self.error <= 0:
            return 0.0
        strict = 1 - (1 - LEVEL) / figures
        return half_width(self.error, self.freedom, strict) + quantile(POWER, self.freedom) * self.error


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean and its interval; None without values."""
    if not values:
        return None
    mean = _mean(values)
    if len(values) < 2:
        return Mean(1, mean, None, None)
    reach = half_width(standard_error(_variance(values, mean), len(values)), len(values) - 1, LEVEL)
    return Mean(len(values), mean, mean - reach, mean + reach)


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Compare seed by seed. `a` and `b` have the values of the same seeds, at least two, in the same order."""
    if len(a) != len(b) or len(a) < 2:
        raise ValueError("pairs need two or more observations, as many on either side")
    return of_differences([after - before for before, after in zip(a, b, strict=True)], _mean(a))


def of_differences(differences: Sequence[float], mean_a: float) -> Difference:
    """Return the difference for at least two values, one per seed; `mean_a` is the first side's mean."""
    mean = _mean(differences)
    error = standard_error(_variance(differences, mean), len(differences))
    return _difference(len(differences), True, mean_a, mean_a + mean, error, len(differences) - 1)


def unpaired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Compare by Welch's test: the sides may have different variances. Each needs at least two values."""
    if min(len(a), len(b)) < 2:
        raise ValueError("each side needs two or more observations")
    mean_a, mean_b = _mean(a), _mean(b)
    share_a, share_b = _variance(a, mean_a) / len(a), _variance(b, mean_b) / len(b)
    both = share_a + share_b
    freedom = both**2 / (share_a**2 / (len(a) - 1) + share_b**2 / (len(b) - 1)) if both else 1.0
    return _difference(min(len(a), len(b)), False, mean_a, mean_b, both**0.5, freedom)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return for each p-value whether its difference is significant, by Holm's method.

    With a probability of at least `LEVEL`, none of the significant differences is due to chance alone.
    """
    called = [False] * len(p_values)
    for place, number in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        if p_values[number] > (1 - LEVEL) / (len(p_values) - place):
            break
        called[number] = True
    return called


def _difference(
    seeds: int, is_paired: bool, mean_a: float, mean_b: float, error: float, freedom: float
) -> Difference:
    estimate = mean_b - mean_a
    reach = half_width(error, freedom, LEVEL)
    certain = 0.0 if estimate else 1.0
    p = two_sided_p(estimate / error, freedom) if error > 0 else certain
    low, high = estimate - reach, estimate + reach
    return Difference(seeds, is_paired, mean_a, mean_b, low, high, p, error, freedom, error <= 0)


def is_dominated(own: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    """Return True if one of the others is at most as high in both numbers, and lower in at least one."""
    return any(first <= own[0] and second <= own[1] and (first, second) != own for first, second in others)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _variance(values: Sequence[float], mean: float) -> float:
    """Return the variance; exactly 0 for equal values, in spite of rounding."""
    if min(values) == max(values):
        return 0.0
    return fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
