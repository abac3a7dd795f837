"""Random choices for many nodes at once, and integer tables of exponential and log-normal quantiles.

A draw is a hash of 64 bits. Its first 12 bits select one of 4096 equally likely bins. A table has the quantiles at
the bounds of the bins, and further bits interpolate between two of them. For the tails, a draw in the last bin of an
exponential time adds another draw, and each outer bin of a log-normal time has 256 bins of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.mixing import extend, mix
from hearsay.core.shell.randomness import Purpose, Randomness, sample_indices
from hearsay.sim.scenario.network import Network
from hearsay.sim.scenario.values import MILLION, SomeNodes

Words = NDArray[np.uint64]
"""An array of draws, or of numbers that are hashed into draws."""
extend_words = cast("Callable[[Words, Words], Words]", extend)
_FEW = 64


def draw_array(randomness: Randomness, purpose: Purpose, words: Sequence[int], *columns: Words) -> Words:
    """Return `randomness.draw(purpose, *words, *row)` for each row of the columns."""
    states = np.array(randomness.draw(purpose, *words), dtype=np.uint64)
    for column in columns:
        states = extend_words(states, column)
    return states


def node_numbers(count: int) -> Words:
    """Return the array of the numbers 0 … count - 1."""
    return np.arange(count, dtype=np.uint64)


def part_of(count: int, millionths: int) -> int:
    """Return the integer nearest to this share of `count`."""
    return (count * millionths + MILLION // 2) // MILLION


def smallest(draws: Words, count: int) -> list[int]:
    """Return the indices of the `count` smallest draws, ascending."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())


def chosen(
    some: SomeNodes, router_of: Sequence[int], randomness: Randomness, purpose: Purpose, entry: int
) -> Container[int]:
    """Return the nodes that an entry of the scenario selects. Its number, `entry`, is part of its draws."""
    if some.listed is not None:
        return frozenset(some.listed)
    if some.population is not None:
        return frozenset(node for node, router in enumerate(router_of) if router == some.population + 1)
    if some.share_millionths is not None:
        draws = draw_array(randomness, purpose, (entry,), node_numbers(len(router_of)))
        return frozenset(smallest(draws, part_of(len(router_of), some.share_millionths)))
    return range(len(router_of))


def natted_nodes(network: Network, randomness: Randomness) -> frozenset[int]:
    """Return the nodes that accept no inbound connection."""
    if not network.nat_millionths:
        return frozenset()
    draws = draw_array(randomness, Purpose.NAT, (), node_numbers(network.nodes))
    return frozenset(smallest(draws, part_of(network.nodes, network.nat_millionths)))


def is_few(count: int, available: int) -> bool:
    """Return whether drawing `count` distinct numbers one by one is fast: they are few, and rarely repeat."""
    return count <= _FEW and 2 * count <= available


def distinct(
    randomness: Randomness, count: int, bound: int, exclude: int, purpose: Purpose, *words: int
) -> list[int]:
    """Return `count` distinct random numbers below `bound` except `exclude`, or all if there are no more than that.

    It is fast even if `count` is close to `bound`.
    """
    available = bound - (0 <= exclude < bound)
    count = min(count, available)
    if is_few(count, available):
        return randomness.distinct(count, bound, exclude, purpose, *words)
    if count == available:
        return [index for index in range(bound) if index != exclude]
    indices = sample_indices(randomness.draw(purpose, *words), available, count)
    return [index + (0 <= exclude <= index) for index in indices]


_BINS = 4096
TAIL_BINS = 256
_SPAN = _BINS * TAIL_BINS
LAST_BIN = _BINS - 1
_UNIT_BITS = 40
_LOW_32 = 0xFFFFFFFF

_PRECISE = Context(prec=28, rounding=ROUND_HALF_EVEN)
_MILLION = Decimal(1_000_000)


def exponential_us(draw: int, mean_us: Micros) -> Micros:
    """Return the exponentially distributed time of a draw, with the given mean."""
    table = _exponential_table()
    total = 0
    while (bin_ := draw >> 52) == LAST_BIN:
        total += table[LAST_BIN]
        draw = mix(draw)
    total += _between(table[bin_], table[bin_ + 1], draw >> 20)
    return (total * mean_us) >> _UNIT_BITS


def log_normal_us(draw: int, median_us: Micros, sigma_millionths: int, cap_us: Micros) -> Micros:
    """Return the log-normal time of a draw: median × e^(sigma × z) with z standard normal, at most the cap."""
    body, low_tail, high_tail = log_normal_tables(median_us, sigma_millionths, cap_us)
    bin_ = draw >> 52
    if bin_ not in (0, LAST_BIN):
        return _between(body[bin_ - 1], body[bin_], draw >> 20)
    tail = high_tail if bin_ else low_tail
    place = (draw >> 44) & (TAIL_BINS - 1)
    return _between(tail[place], tail[place + 1], draw >> 12)


def log_normal_minimum_us(median_us: Micros, sigma_millionths: int, cap_us: Micros) -> Micros:
    """Return the shortest time of `log_normal_us`."""
    return log_normal_tables(median_us, sigma_millionths, cap_us)[1][0]


def _between(low: int, high: int, bits: int) -> int:
    return low + (((high - low) * (bits & _LOW_32)) >> 32)


@lru_cache(maxsize=1)
def _exponential_table() -> tuple[int, ...]:
    """Return -ln(1 - i/4096) in units of 2^-40, for i below 4096."""
    unit = Decimal(1 << _UNIT_BITS)
    whole = _PRECISE.ln(Decimal(_BINS))
    return tuple(
        int(_PRECISE.to_integral_value(_PRECISE.multiply(_PRECISE.subtract(whole, _PRECISE.ln(Decimal(left))), unit)))
        for left in range(_BINS, 0, -1)
    )


@lru_cache(maxsize=16)
def log_normal_tables(
    median_us: Micros, sigma_millionths: int, cap_us: Micros
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the quantiles at 1/4096 … 4095/4096, and those within the first and the last bin."""
    scale = Decimal(median_us)
    sigma = _PRECISE.divide(Decimal(sigma_millionths), _MILLION)

    def quantile(deviations: Decimal) -> int:
        factor = _PRECISE.exp(_PRECISE.multiply(sigma, deviations))
        return min(cap_us, int(_PRECISE.to_integral_value(_PRECISE.multiply(scale, factor))))

    body, tail = _normal_quantiles()
    return (
        tuple(quantile(z) for z in body),
        tuple(quantile(z) for z in tail),
        tuple(quantile(z.copy_negate()) for z in reversed(tail)),
    )


@lru_cache(maxsize=1)
def _normal_quantiles() -> tuple[tuple[Decimal, ...], tuple[Decimal, ...]]:
    """Return the standard normal's quantiles at i/4096, and at j/(4096 × 256) for j = 0.5, 1, 2 … 256."""
    lower = [_normal_quantile(_PRECISE.divide(Decimal(i), Decimal(_BINS))) for i in range(1, _BINS // 2)]
    body = (*lower, Decimal(0), *(z.copy_negate() for z in reversed(lower)))
    ends = [Decimal("0.5"), *map(Decimal, range(1, TAIL_BINS + 1))]
    tail = tuple(_normal_quantile(_PRECISE.divide(end, Decimal(_SPAN))) for end in ends)
    return body, tail


def _coefficients(text: str) -> tuple[Decimal, ...]:
    return tuple(Decimal(word) for word in reversed(text.split()))


# AS 241, PPND16: numerator and denominator for the centre and for r <= 5, highest power first.
_CENTRE = (
    _coefficients(
        "3.3871328727963666080e0 1.3314166789178437745e+2 1.9715909503065514427e+3 1.3731693765509461125e+4 "
        "4.5921953931549871457e+4 6.7265770927008700853e+4 3.3430575583588128105e+4 2.5090809287301226727e+3"
    ),
    _coefficients(
        "1 4.2313330701600911252e+1 6.8718700749205790830e+2 5.3941960214247511077e+3 "
        "2.1213794301586595867e+4 3.9307895800092710610e+4 2.8729085735721942674e+4 5.2264952788528545610e+3"
    ),
)
_MIDDLE = (
    _coefficients(
        "1.42343711074968357734e0 4.63033784615654529590e0 5.76949722146069140550e0 3.64784832476320460504e0 "
        "1.27045825245236838258e0 2.41780725177450611770e-1 2.27238449892691845833e-2 7.74545014278341407640e-4"
    ),
    _coefficients(
        "1 2.05319162663775882187e0 1.67638483018380384940e0 6.89767334985100004550e-1 "
        "1.48103976427480074590e-1 1.51986665636164571966e-2 5.47593808499534494600e-4 1.05075007164441684324e-9"
    ),
)


def _normal_quantile(probability: Decimal) -> Decimal:
    """Return the quantile for 2^-21 <= probability <= 1/2, the first two regions of AS 241 (sqrt(-ln p) < 5)."""
    centred = _PRECISE.subtract(probability, Decimal("0.5"))
    if abs(centred) <= Decimal("0.425"):
        r = _PRECISE.subtract(Decimal("0.180625"), _PRECISE.multiply(centred, centred))
        return _PRECISE.multiply(centred, _ratio(_CENTRE, r))
    r = _PRECISE.subtract(_PRECISE.sqrt(_PRECISE.minus(_PRECISE.ln(probability))), Decimal("1.6"))
    return _PRECISE.minus(_ratio(_MIDDLE, r))


def _ratio(polynomials: tuple[tuple[Decimal, ...], tuple[Decimal, ...]], r: Decimal) -> Decimal:
    numerator, denominator = polynomials
    return _PRECISE.divide(_horner(numerator, r), _horner(denominator, r))


def _horner(coefficients: tuple[Decimal, ...], r: Decimal) -> Decimal:
    value = Decimal(0)
    for coefficient in coefficients:
        value = _PRECISE.fma(value, r, coefficient)
    return value
