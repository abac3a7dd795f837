"""Random choices for many nodes at once, and random times from integer tables of quantiles.

A draw is a hash of 64 bits. To select a time, its first 12 bits select one of 4096 equally likely bins of a
distribution. A table has the quantiles at the bounds of the bins. Other bits of the draw interpolate between the two
bounds of a bin. The tails are more precise. If the draw for an exponential time is in the last bin, the time of
another draw is added. The first and the last bin of a log-normal distribution are divided into 256 bins each.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache, lru_cache, reduce
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.randomness import Purpose, Randomness, extend, mix, sample_indices
from hearsay.sim.scenario.network import Network
from hearsay.sim.scenario.values import MILLION, SomeNodes

Words = NDArray[np.uint64]
"""An array of draws, or of numbers from which draws are computed."""
extend_words = cast("Callable[[Words, Words], Words]", extend)
_FEW = 64


def draw_array(randomness: Randomness, purpose: Purpose, words: Sequence[int], *columns: Words) -> Words:
    """Return an array with `randomness.draw(purpose, *words, *row)` for each row. `columns` are the columns of the
    rows."""
    states = np.array(randomness.draw(purpose, *words), dtype=np.uint64)
    for column in columns:
        states = extend_words(states, column)
    return states


def node_numbers(count: int) -> Words:
    """Return the array of the numbers 0 … count - 1."""
    return np.arange(count, dtype=np.uint64)


def part_of(count: int, millionths: int) -> int:
    """Return the integer nearest to `count` × `millionths` / 1,000,000."""
    return (count * millionths + MILLION // 2) // MILLION


def smallest(draws: Words, count: int) -> list[int]:
    """Return the indices of the `count` smallest draws. The indices are in ascending order."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())


def random_share(
    millionths: int, randomness: Randomness, purpose: Purpose, words: Sequence[int], *columns: Words
) -> list[int]:
    """Return the indices of a random share (`millionths`) of the rows, in ascending order.

    The draw of each row depends on `purpose`, `words` and the row, as in `draw_array`.
    """
    count = part_of(len(columns[0]), millionths)
    return smallest(draw_array(randomness, purpose, words, *columns), count) if count else []


def chosen(
    some: SomeNodes, router_of: Sequence[int], randomness: Randomness, purpose: Purpose, entry: int
) -> Container[int]:
    """Return the nodes that an entry of a scenario selects. `router_of` has the router of each node, 0 or the number
    of its population plus 1. `entry` is the index of the entry in its array; a random share depends on this index."""
    if some.listed is not None:
        return frozenset(some.listed)
    if some.population is not None:
        return frozenset(node for node, router in enumerate(router_of) if router == some.population + 1)
    if some.share_millionths is not None:
        nodes = node_numbers(len(router_of))
        return frozenset(random_share(some.share_millionths, randomness, purpose, (entry,), nodes))
    return range(len(router_of))


def natted_nodes(network: Network, randomness: Randomness) -> frozenset[int]:
    """Return the random share of nodes that accept no inbound connection (`network.nat_share`)."""
    return frozenset(random_share(network.nat_millionths, randomness, Purpose.NAT, (), node_numbers(network.nodes)))


def is_few(count: int, available: int) -> bool:
    """Return whether `count` draws from `available` numbers rarely repeat one, so that drawing one by one is fast."""
    return count <= _FEW and 2 * count <= available


def distinct(
    randomness: Randomness, count: int, bound: int, exclude: int, purpose: Purpose, *words: int
) -> list[int]:
    """Return `count` distinct random numbers from 0 to `bound` - 1 and different from `exclude`.

    If there are at most `count` such numbers, return all of them, ascending. The function is fast even if `count` is
    close to `bound`.
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


def exponential_us(draw: int, mean_us: Micros) -> Micros:
    """Return the time that a draw selects from the exponential distribution with the mean `mean_us`."""
    table = _exponential_table()
    total = 0
    while (bin_ := draw >> 52) == LAST_BIN:
        total += table[LAST_BIN]
        draw = mix(draw)
    total += _between(table[bin_], table[bin_ + 1], draw >> 20)
    return (total * mean_us) >> _UNIT_BITS


def log_normal_us(draw: int, median_us: Micros, sigma_millionths: int, cap_us: Micros) -> Micros:
    """Return the time that a draw selects from a log-normal distribution, at most `cap_us`.

    The time is median × e^(sigma × z), where z has the standard normal distribution.
    """
    body, low_tail, high_tail = log_normal_tables(median_us, sigma_millionths, cap_us)
    bin_ = draw >> 52
    if bin_ not in (0, LAST_BIN):
        return _between(body[bin_ - 1], body[bin_], draw >> 20)
    tail = high_tail if bin_ else low_tail
    place = (draw >> 44) & (TAIL_BINS - 1)
    return _between(tail[place], tail[place + 1], draw >> 12)


def _between(low: int, high: int, bits: int) -> int:
    return low + (((high - low) * (bits & _LOW_32)) >> 32)


@cache
def _exponential_table() -> tuple[int, ...]:
    """Return -ln(1 - i/4096) in units of 2^-40, for i = 0 … 4095."""
    with localcontext(_PRECISE):
        unit, whole = Decimal(1 << _UNIT_BITS), Decimal(_BINS).ln()
        logarithms = [(whole - Decimal(left).ln()) * unit for left in range(_BINS, 0, -1)]
        return tuple(int(logarithm.to_integral_value()) for logarithm in logarithms)


@lru_cache(maxsize=16)
def log_normal_tables(
    median_us: Micros, sigma_millionths: int, cap_us: Micros
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return three tables for `log_normal_us`: the quantiles at 1/4096 … 4095/4096, the 257 bounds of the bins in the
    first bin, and the 257 bounds of the bins in the last bin.

    The first value of the second table is the shortest possible time.
    """
    sigma = Decimal(sigma_millionths) / MILLION

    def quantiles(deviations: Iterable[Decimal]) -> tuple[int, ...]:
        times = [median_us * (sigma * z).exp() for z in deviations]
        return tuple(min(cap_us, int(time.to_integral_value())) for time in times)

    with localcontext(_PRECISE):
        body, tail = _normal_quantiles()
        return quantiles(body), quantiles(tail), quantiles(-z for z in reversed(tail))


@cache
def _normal_quantiles() -> tuple[list[Decimal], list[Decimal]]:
    """Return the quantiles of the standard normal distribution at i/4096 for i = 1 … 4095, and those at j/(4096 ×
    256) for j = 0.5, 1, 2 … 256."""
    lower = [_normal_quantile(Decimal(i) / _BINS) for i in range(1, _BINS // 2)]
    body = [*lower, Decimal(0), *(-z for z in reversed(lower))]
    ends = [Decimal("0.5"), *map(Decimal, range(1, TAIL_BINS + 1))]
    return body, [_normal_quantile(end / _SPAN) for end in ends]


def _coefficients(text: str) -> tuple[Decimal, ...]:
    return tuple(Decimal(word) for word in reversed(text.split()))


# Algorithm AS 241 (PPND16): the coefficients of numerator and denominator, for the centre and for r <= 5. The text
# has the lowest power first, and the tuples have the highest power first.
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
    """Return the quantile of the standard normal distribution for a probability from 2^-21 to 1/2.

    These are the first two regions of the algorithm AS 241.
    """
    centred = probability - Decimal("0.5")
    if abs(centred) <= Decimal("0.425"):
        return centred * _ratio(_CENTRE, Decimal("0.180625") - centred * centred)
    return -_ratio(_MIDDLE, (-probability.ln()).sqrt() - Decimal("1.6"))


def _ratio(polynomials: tuple[tuple[Decimal, ...], tuple[Decimal, ...]], r: Decimal) -> Decimal:
    """Return the value of the first polynomial at r, divided by the value of the second one (Horner's method)."""
    numerator, denominator = (
        reduce(lambda value, coefficient: value.fma(r, coefficient), coefficients, Decimal(0))
        for coefficients in polynomials
    )
    return numerator / denominator
