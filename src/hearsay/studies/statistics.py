"""What the figures of runs with different seeds say: intervals, differences, and how small a one could be seen.

Rules:

* A run with a seed is one observation of each figure, whatever the figure is made of: a ratio, a percentile, a mean.
  Seeds are independent of each other; deliveries within a run are not. So intervals are Student's t over seeds.
* Paired: both sides ran with the same seeds, so they had the same network, latencies and times, and what is looked at
  is the difference seed by seed. Unpaired: different seeds, Welch's interval.
* Each interval by itself holds in 95 of 100 cases. Verdicts over several figures go by Holm's method, so that of 100
  comparisons of equals at most 5 call any figure different.
* The least detectable difference is what would be called different in 80 of 100 cases, at the level that Holm's
  method asks of the first of all figures.
* Sums are exact (`fsum`), so the order of runs never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from hearsay.studies.students_t import half_width, quantile, standard_error, two_sided_p

LEVEL = 0.95
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds; no interval with fewer than two of them."""

    seeds: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the second side's mean is above the first's."""

    seeds: int
    paired: bool
    mean_a: float
    mean_b: float
    low: float
    high: float
    p: float
    """The probability of a difference at least as large if there were none."""
    error: float
    freedom: float
    constant: bool
    """All observations (paired: all differences) are equal, so chance shows in none."""

    @property
    def estimate(self) -> float:
        return self.mean_b - self.mean_a

    def relative(self, amount: float) -> float | None:
        """An amount as a share of the first side's mean."""
        return amount / abs(self.mean_a) if self.mean_a else None

    def detectable(self, figures: int = 1) -> float:
        """The least difference that would be called one in 80 of 100 cases, among so many figures."""
        if self.error <= 0:
            return 0.0
        strict = 1 - (1 - LEVEL) / figures
        return half_width(self.error, self.freedom, strict) + quantile(POWER, self.freedom) * self.error


def mean_of(values: Sequence[float], level: float = LEVEL) -> Mean | None:
    """The mean and its interval; None without values."""
    if not values:
        return None
    mean = _mean(values)
    if len(values) < 2:
        return Mean(1, mean, None, None)
    reach = half_width(standard_error(_variance(values, mean), len(values)), len(values) - 1, level)
    return Mean(len(values), mean, mean - reach, mean + reach)


def paired(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Difference:
    """Seed by seed; both sides in the order of their seeds, at least two."""
    if len(a) != len(b) or len(a) < 2:
        raise ValueError("pairs need two or more observations, as many on either side")
    differences = [after - before for before, after in zip(a, b, strict=True)]
    mean = _mean(differences)
    error = standard_error(_variance(differences, mean), len(a))
    mean_a = _mean(a)
    return _difference(len(a), True, mean_a, mean_a + mean, error, len(a) - 1, level)


def unpaired(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Difference:
    """Welch's: the sides may differ in how much they scatter."""
    if min(len(a), len(b)) < 2:
        raise ValueError("each side needs two or more observations")
    mean_a, mean_b = _mean(a), _mean(b)
    share_a, share_b = _variance(a, mean_a) / len(a), _variance(b, mean_b) / len(b)
    both = share_a + share_b
    freedom = both**2 / (share_a**2 / (len(a) - 1) + share_b**2 / (len(b) - 1)) if both else 1.0
    return _difference(min(len(a), len(b)), False, mean_a, mean_b, both**0.5, freedom, level)


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of several differences are ones, so that with probability `level` none is called so wrongly."""
    called = [False] * len(p_values)
    for place, number in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        if p_values[number] > (1 - level) / (len(p_values) - place):
            break
        called[number] = True
    return called


def _difference(
    seeds: int, is_paired: bool, mean_a: float, mean_b: float, error: float, freedom: float, level: float
) -> Difference:
    estimate = mean_b - mean_a
    reach = half_width(error, freedom, level)
    certain = 0.0 if estimate else 1.0
    p = two_sided_p(estimate / error, freedom) if error > 0 else certain
    low, high = estimate - reach, estimate + reach
    return Difference(seeds, is_paired, mean_a, mean_b, low, high, p, error, freedom, error <= 0)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _variance(values: Sequence[float], mean: float) -> float:
    """Rounding must not make scatter out of equal values."""
    if min(values) == max(values):
        return 0.0
    return fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
