"""Scales from values to places on an axis: linear, logarithmic, or one place for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, copysign, floor, log10
from typing import TYPE_CHECKING

from hearsay.text.numbers import Form, apart, count, figure

if TYPE_CHECKING:
    from hearsay.studies.axes import Axis

_LOG_FROM = 30
_MAX_TICKS = 6
_MAX_DENSE_RATIO = 300
_MAX_LOG_TICKS = 8
_WIDE = 100.0
_MAX_SIGNED_TICKS = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """`at` returns the place of a value, from 0 to 1; `ticks` are places with labels."""

    at: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def scale_of_axis(axis: Axis) -> tuple[Scale, list[float]]:
    """Return the scale of an axis of a study, and the values of its steps on it."""
    numbers = axis.numbers
    steps = len(axis.steps)
    if numbers is None or steps < 2:
        places = [float(step) for step in range(steps)]
        ticks = tuple(((place + 0.5) / steps, label) for place, label in zip(places, axis.labels, strict=True))
        return Scale(lambda value: (value + 0.5) / steps, ticks), places
    low, high = numbers[0], numbers[-1]
    logarithmic = low > 0 and high / low >= _LOG_FROM
    at = _log(low, high) if logarithmic else _linear(low, high)
    shown = range(steps) if steps <= _MAX_TICKS else range(0, steps, ceil(steps / _MAX_TICKS))
    ticks = tuple((at(numbers[step]), _short(numbers[step], axis.labels[step])) for step in shown)
    return Scale(at, ticks), list(numbers)


def scale_of_values(values: Sequence[float], form: Form) -> Scale:
    """Return a scale for values: from 0 unless all are far from it, shares to 1, logarithmic over a wide range."""
    low, high = min(values), max(values)
    if form != "percent" and low > 0 and high / low >= _LOG_FROM:
        return _logarithmic(low, high, form)
    if form == "percent":
        high = 1.0 if high > 0.5 else high
    if low >= 0 and low < 0.6 * high:
        low = 0.0
    if high <= low:
        pad = abs(high) * 0.05 or 1.0
        low, high = (low - pad, high) if form == "percent" else (low - pad, high + pad)
    step = round_step((high - low) / 4)
    bottom = floor(low / step + 1e-9) * step
    top = high if form == "percent" and high == 1 else ceil(high / step - 1e-9) * step
    at = _linear(bottom, top)
    amounts = [bottom + number * step for number in range(int((top - bottom) / step + 1e-6) + 1)]
    words = apart([_clean(amount, step) for amount in amounts], form)
    return Scale(at, tuple(zip(map(at, amounts), words, strict=True)))


def _logarithmic(low: float, high: float, form: Form) -> Scale:
    """Return a logarithmic scale with round ticks: three in each decade, or one if there are many decades."""
    digits = (1, 2, 5) if high / low <= _MAX_DENSE_RATIO else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    rounds = [digit * 10.0**power for power in powers for digit in digits]
    bottom = max(amount for amount in rounds if amount <= low)
    top = min(amount for amount in rounds if amount >= high)
    at = _log(bottom, top)
    shown = [amount for amount in rounds if bottom <= amount <= top]
    every = ceil(len(shown) / _MAX_LOG_TICKS)
    kept = shown[::every]
    return Scale(at, tuple(zip(map(at, kept), apart(kept, form), strict=True)))


def _linear(low: float, high: float) -> Callable[[float], float]:
    return lambda value: (value - low) / (high - low)


def _log(low: float, high: float) -> Callable[[float], float]:
    return lambda value: log10(value / low) / log10(high / low)


def round_step(rough: float) -> float:
    """Return the next round number."""
    power = 10.0 ** floor(log10(rough))
    return next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999)


def _clean(amount: float, step: float) -> float:
    """Round away the error of adding steps."""
    return round(amount, max(0, 2 - floor(log10(step))))


def _short(number: float, label: str) -> str:
    return count(number) if number >= 1000 and number == int(number) else label


def signed_scale(values: Sequence[float]) -> Scale:
    """Return a scale for scores that includes 0: linear, or logarithmic on both sides if values differ by 100.

    Honest peers have scores of tens, and thresholds may lie at minus tens of thousands.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low == 0:
        low, high = -1.0, 1.0
    sides = [abs(end) for end in (low, high) if end]
    if max(sides) < _WIDE and (len(sides) == 1 or max(sides) < _WIDE * min(sides)):
        return scale_of_values([low, high], "number")
    bottom, top = -_power(-low), _power(high)
    start, end = _folded(bottom), _folded(top)
    places = [*(-each for each in reversed(_powers(-bottom))), 0.0, *_powers(top)]
    every = ceil(len(places) / _MAX_SIGNED_TICKS)
    zero = places.index(0.0)
    shown = [place for number, place in enumerate(places) if (number - zero) % every == 0]

    def at(value: float) -> float:
        return (_folded(value) - start) / (end - start)

    return Scale(at, tuple((at(place), figure(place)) for place in shown))


def _folded(value: float) -> float:
    return copysign(log10(1.0 + abs(value)), value)


def _power(amount: float) -> float:
    """Return the next power of ten; 0 stays 0."""
    return 10.0 ** ceil(log10(max(1.0, amount))) if amount else 0.0


def _powers(most: float) -> list[float]:
    return [10.0**power for power in range(1, round(log10(most)) + 1)] if most else []
