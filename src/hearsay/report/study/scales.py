"""Values to places on a line: linear, logarithmic, or one place for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from hearsay.text.numbers import Form, apart, count

if TYPE_CHECKING:
    from hearsay.studies.axes import Axis

_LOG_FROM = 30
_MOST_TICKS = 6
_THREE_UP_TO = 300
_MOST_LOG_TICKS = 8


@dataclass(frozen=True, slots=True)
class Scale:
    """`at` gives the share of the way, 0…1; `ticks` are places with their words."""

    at: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def scale_of_axis(axis: Axis) -> tuple[Scale, list[float]]:
    """The scale of a study's axis and the values of its steps on it."""
    numbers = axis.numbers
    steps = len(axis.steps)
    if numbers is None or steps < 2:
        places = [float(step) for step in range(steps)]
        ticks = tuple(((place + 0.5) / steps, label) for place, label in zip(places, axis.labels, strict=True))
        return Scale(lambda value: (value + 0.5) / steps, ticks), places
    low, high = numbers[0], numbers[-1]
    logarithmic = low > 0 and high / low >= _LOG_FROM
    at = _log(low, high) if logarithmic else _linear(low, high)
    shown = range(steps) if steps <= _MOST_TICKS else range(0, steps, ceil(steps / _MOST_TICKS))
    ticks = tuple((at(numbers[step]), _short(numbers[step], axis.labels[step])) for step in shown)
    return Scale(at, ticks), list(numbers)


def scale_of_values(values: Sequence[float], form: Form) -> Scale:
    """A scale for figures: from 0 unless all are far from it; shares end at 1. Over a wide range logarithmic."""
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
    """Round numbers, three in a factor of ten where there is room, else one."""
    digits = (1, 2, 5) if high / low <= _THREE_UP_TO else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    rounds = [digit * 10.0**power for power in powers for digit in digits]
    bottom = max(amount for amount in rounds if amount <= low)
    top = min(amount for amount in rounds if amount >= high)
    at = _log(bottom, top)
    shown = [amount for amount in rounds if bottom <= amount <= top]
    every = ceil(len(shown) / _MOST_LOG_TICKS)
    kept = shown[::every]
    return Scale(at, tuple(zip(map(at, kept), apart(kept, form), strict=True)))


def _linear(low: float, high: float) -> Callable[[float], float]:
    return lambda value: (value - low) / (high - low)


def _log(low: float, high: float) -> Callable[[float], float]:
    return lambda value: log10(value / low) / log10(high / low)


def round_step(rough: float) -> float:
    """The round number that is at least so large."""
    power = 10.0 ** floor(log10(rough))
    return next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999)


def _clean(amount: float, step: float) -> float:
    """Without what adding steps left at the end."""
    return round(amount, max(0, 2 - floor(log10(step))))


def _short(number: float, label: str) -> str:
    return count(number) if number >= 1000 and number == int(number) else label
