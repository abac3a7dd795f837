"""Decays made from times, correctly rounded.

A counter of 1 that is multiplied by `zero ** (1 / ticks)` once a tick is at `zero` after so many ticks. That root is
the one number of a score which + - * / do not give, and the libraries of machines differ in its last bit; a run would
too. So it is resolved when parameters are made, to the double that is nearest to the exact root of `zero` (as the
double that it is).

Theory: `ln` and `exp` of `decimal` are correctly rounded. With a precision of p digits each step has a relative
error of at most 10^(1-p), and what `exp` takes is below 746 in size, so the result is within 10^(5-p) of the root.
When both ends of that interval round to one double, it is the nearest (Ziv's strategy); otherwise the precision is
doubled. This ends: for two ticks and more the root cannot lie in the middle between two doubles, since a power of a
number with 54 significant bits has more than the 53 of `zero`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache

_FIRST_PRECISION = 32


@lru_cache(maxsize=4096)
def decay_over(ticks: int, zero: float) -> float:
    """The decay that takes a counter from 1 to `zero` in so many ticks; 0 < zero < 1."""
    if ticks <= 1:
        return zero
    precision = _FIRST_PRECISION
    while True:
        low, high = _root_within(ticks, Decimal(zero), precision)
        if float(low) == float(high):
            return float(low)
        precision *= 2


def _root_within(ticks: int, zero: Decimal, precision: int) -> tuple[Decimal, Decimal]:
    """Two numbers around the root, the closer the higher the precision."""
    context = Context(prec=precision, rounding=ROUND_HALF_EVEN)
    root = context.exp(context.divide(context.ln(zero), Decimal(ticks)))
    margin = context.multiply(root, context.scaleb(Decimal(1), 5 - precision))
    return context.subtract(root, margin), context.add(root, margin)
