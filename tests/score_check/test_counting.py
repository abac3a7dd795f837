"""Closed forms of counters after many refreshes agree with the core's rule, applied refresh by refresh."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.rules.score_parts import counted, decayed
from hearsay.score_check.worth import first_that, left, refreshes_to_reach, refreshes_until, settles_at

DECAYS = st.floats(0.05, 0.995)
ZERO = 0.01


@given(st.floats(0.1, 1000), DECAYS, st.integers(0, 200))
def test_what_is_left(counter, decay, refreshes):
    here = counter
    for _ in range(refreshes):
        here = decayed(here, decay, ZERO)
    assert left(counter, decay, refreshes, ZERO) == pytest.approx(here, abs=1.01 * ZERO)
    if abs(here - ZERO) > 1e-9:
        assert left(counter, decay, refreshes, ZERO) == pytest.approx(here, rel=1e-9)


@given(st.floats(0.1, 50), st.floats(0.5, 0.98), st.floats(1, 1000))
def test_where_a_counter_settles(by, decay, cap):
    here = 0.0
    for _ in range(2000):
        here = decayed(counted(here, by, cap), decay, ZERO)
    assert settles_at(by, decay, cap, ZERO) == pytest.approx(here, rel=1e-6, abs=1.01 * ZERO)


@given(st.floats(0.1, 1000), st.floats(0.1, 0.99), st.floats(0.011, 1000))
def test_how_long_until_below(counter, decay, below):
    here, refreshes = counter, 0
    while here >= below:
        here = decayed(here, decay, 0.0)
        refreshes += 1
    assert abs(refreshes_until(counter, decay, below) - refreshes) <= (1 if abs(here - below) < 1e-9 else 0) + (
        1 if abs(here / decay - below) < 1e-9 else 0
    )


@pytest.mark.parametrize(("level", "by", "decay"), [(1.5, 0.125, 0.97), (10, 15, 0.997), (279, 130, 0.93)])
def test_how_long_until_reached(level, by, decay):
    here, refreshes = 0.0, 0
    while here < level:
        here = decayed(here + by, decay, ZERO)
        refreshes += 1
    assert refreshes_to_reach(level, by, decay) == refreshes


def test_what_is_never_reached():
    assert refreshes_to_reach(10, 0.1, 0.9) is None
    assert first_that(lambda number: False) is None


@given(st.integers(0, 5000))
def test_the_first_number_that_does(number):
    assert first_that(lambda each: each >= number) == number
