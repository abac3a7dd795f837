"""Decay factors from times: the doubles that are nearest to the exact roots."""

from __future__ import annotations

from fractions import Fraction
from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.scores.declarations import decay_over


def is_nearest(found: float, ticks: int, zero: float) -> bool:
    """Return whether the exact root lies between the middles to both neighbouring doubles, in exact arithmetic."""
    low = (Fraction(found) + Fraction(nextafter(found, 0))) / 2
    high = (Fraction(found) + Fraction(nextafter(found, 1))) / 2
    return low**ticks <= Fraction(zero) <= high**ticks


def test_an_hour_of_seconds():
    """go's test."""
    assert decay_over(3600, 0.01) == 0.9987216039048303


@pytest.mark.parametrize("zero", [0.01, 0.1, 0.5, 1e-9])
def test_decays_are_correctly_rounded(zero):
    for ticks in (*range(1, 130), 600, 3200, 3600):
        assert is_nearest(decay_over(ticks, zero), ticks, zero)


@given(ticks=st.integers(1, 300), zero=st.floats(1e-300, 1, exclude_max=True))
def test_decays_to_any_zero_are_correctly_rounded(ticks, zero):
    assert is_nearest(decay_over(ticks, zero), ticks, zero)


def test_an_exact_root():
    assert [decay_over(2, 0.25), decay_over(4, 0.0625), decay_over(1, 0.3)] == [0.5, 0.5, 0.3]
