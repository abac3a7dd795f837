"""Rates: a burst at once, then a number per second. Tests set the clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.rates import Rate, Rates


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_a_burst_is_allowed_at_once_and_later_uses_one_by_one():
    clock = Clock()
    rates = Rates(clock, Rate(3, 2.0))
    assert [rates.use_or_wait_s("a") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    assert rates.use_or_wait_s("b") == 0
    clock.now += 0.5
    assert [rates.use_or_wait_s("a") for _ in range(2)] == [0, 0.5]
    clock.now += 1000
    assert [rates.use_or_wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]


@given(st.lists(st.floats(0, 2), max_size=200))
def test_no_second_has_more_than_its_rate(pauses):
    clock = Clock()
    rates = Rates(clock, Rate(5, 4.0))
    allowed = []
    for pause in pauses:
        clock.now += pause
        if not rates.use_or_wait_s("a"):
            allowed.append(clock.now)
    for start in allowed:
        assert sum(1 for at in allowed if start <= at <= start + 1) <= 5 + 4


def test_only_keys_with_recent_uses_are_remembered():
    clock = Clock()
    rates = Rates(clock, Rate(2, 1.0), remembered=10)
    for key in range(10):
        rates.use_or_wait_s(key)
    clock.now += 5
    rates.use_or_wait_s("new")
    assert len(rates) == 1
    for key in range(1000):
        rates.use_or_wait_s(key)
    assert len(rates) == 10
