"""Statistics of metrics over seeds: 95 % intervals, differences and Student's t distribution.

`freedom` is the number of degrees of freedom of the t distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, hypot, lgamma, log, log1p, sqrt

_FEWEST_TERMS, _TERMS_PER_ROOT = 50, 5
"""The number of terms of `_fraction` is the first number, plus the second number times the square root of the larger
of `a` and `b`.
"""


def two_sided_p(t: float, freedom: float) -> float:
    """Return the probability that a value of the t distribution is at least as far from 0 as `t`."""
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(maxsize=4096)
def quantile(share: float, freedom: float) -> float:
    """Return the value below which this share of the t distribution lies; 0 for a share up to 0.5."""
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
    """Return the regularised incomplete beta function of `x`, from the continued fraction that converges faster."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front / (a * _fraction(x, a, b))
    return 1 - front / (b * _fraction(1 - x, b, a))


def _fraction(x: float, a: float, b: float) -> float:
    """Return the denominator of the continued fraction of the incomplete beta function, from the last term to the
    first.
    """
    value = 1.0
    for m in range(_FEWEST_TERMS + int(_TERMS_PER_ROOT * sqrt(max(a, b))), 0, -1):
        value = 1 + m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) / value
        value = 1 - (a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1)) / value
    return value


def half_width(error: float, freedom: float, level: float) -> float:
    """Return half the width of the interval that contains the true value with probability `level`. `error` is the
    standard error of the estimate; if it is 0, the width is 0.
    """
    return quantile((1 + level) / 2, freedom) * error if error > 0 else 0.0


LEVEL = 0.95
"""Probability that an interval contains the true value."""
POWER = 0.8
"""Share of comparisons that find a true difference of the size `Difference.detectable`."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a metric over seeds, and its 95 % interval from `low` to `high`, which are None with one seed."""

    seeds: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of side B minus the mean of side A, and its 95 % interval from `low` to `high`."""

    seeds: int
    """Number of values of each side; unpaired, the smaller of both numbers."""
    paired: bool
    mean_a: float
    mean_b: float
    low: float
    high: float
    p: float
    """The probability that sides with equal true means differ at least this much by chance."""
    error: float
    """Standard error of the difference."""
    freedom: float
    constant: bool
    """True if the standard error is 0. In a paired comparison, the differences of all seeds are then equal. In an
    unpaired comparison, all values of side A are equal to each other, and so are those of side B."""

    @property
    def estimate(self) -> float:
        return self.mean_b - self.mean_a

    def relative(self, amount: float) -> float | None:
        """Return an amount as a share of the absolute mean of side A; None if that mean is 0."""
        return amount / abs(self.mean_a) if self.mean_a else None

    def detectable(self, figures: int = 1) -> float:
        """Return the smallest true difference that 80 of 100 comparisons of `figures` metrics find. If `error` is 0,
        return 0.
        """
        if self.error <= 0:
            return 0.0
        strict = 1 - (1 - LEVEL) / figures
        return half_width(self.error, self.freedom, strict) + quantile(POWER, self.freedom) * self.error


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean of these values with its interval; None without values."""
    if len(values) < 2:
        return Mean(1, values[0], None, None) if values else None
    mean, error = _mean_and_error(values)
    reach = half_width(error, len(values) - 1, LEVEL)
    return Mean(len(values), mean, mean - reach, mean + reach)


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the difference from the differences of each seed. `a` and `b` have values of the same seeds in the same
    order. Raise `ValueError` for fewer than two seeds or different lengths.
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError("pairs need two or more observations, as many on either side")
    return of_differences([after - before for before, after in zip(a, b, strict=True)], fsum(a) / len(a))


def of_differences(differences: Sequence[float], mean_a: float) -> Difference:
    """Return the difference from values of B minus A, one for each of at least two seeds. `mean_a` is the mean of
    side A.
    """
    mean, error = _mean_and_error(differences)
    return _difference(len(differences), True, mean_a, mean_a + mean, error, len(differences) - 1)


def unpaired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the difference by Welch's test, in which the sides may have different variances. Raise `ValueError` if a
    side has fewer than two values.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError("each side needs two or more observations")
    (mean_a, error_a), (mean_b, error_b) = _mean_and_error(a), _mean_and_error(b)
    error = hypot(error_a, error_b)
    freedom = error**4 / (error_a**4 / (len(a) - 1) + error_b**4 / (len(b) - 1)) if error else 1.0
    return _difference(min(len(a), len(b)), False, mean_a, mean_b, error, freedom)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return for each p-value True if its difference is significant by Holm's method.

    With a probability of at least `LEVEL`, no difference is significant by chance alone.
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
    """Return True if some pair of `others` is not equal to `own`, and neither of its numbers is above that
    of `own`.
    """
    return any(first <= own[0] and second <= own[1] and (first, second) != own for first, second in others)


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of two or more values, and the standard error of the mean, which is exactly 0 for
    equal values.
    """
    mean = fsum(values) / len(values)
    if min(values) == max(values):
        return mean, 0.0
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
