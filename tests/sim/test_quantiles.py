"""The quantile tables against the mathematics library, and their fixed bits."""

import math
from hashlib import blake2b
from statistics import NormalDist, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.rules.randomness import GOLDEN, MASK, mix
from hearsay.sim.plan.draws import exponential_us, log_normal_tables, log_normal_us

DRAWS = [mix(number * GOLDEN + 99) for number in range(100_000)]
WORDS = st.integers(0, MASK)


def draw_at(probability: float) -> int:
    return int(probability * 2**64)


def test_exponential_mean_and_spread():
    values = [exponential_us(draw, 60_000_000) for draw in DRAWS]
    assert fmean(values) == pytest.approx(60_000_000, rel=0.01)
    assert fmean(value**2 for value in values) == pytest.approx(2 * 60_000_000**2, rel=0.03)


@pytest.mark.parametrize("probability", [0.0001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999])
def test_exponential_quantiles(probability: float):
    assert exponential_us(draw_at(probability), 10**9) == pytest.approx(-math.log1p(-probability) * 10**9, rel=0.01)


def test_the_exponential_tail_has_no_end():
    last_bin = [(4095 << 52) + (draw >> 12) for draw in DRAWS]
    values = [exponential_us(draw, 1_000_000) for draw in last_bin]
    beyond = math.log(4096) * 1_000_000
    assert min(values) == pytest.approx(beyond, rel=0.001)
    assert fmean(values) == pytest.approx(beyond + 1_000_000, rel=0.01)


def test_mean_zero_gives_zero():
    assert {exponential_us(draw, 0) for draw in DRAWS[:1000]} == {0}


def test_exponential_bits_are_fixed():
    values = b"".join(exponential_us(draw, 10**9).to_bytes(8, "little") for draw in DRAWS[:5000])
    assert blake2b(values, digest_size=8).hexdigest() == "d848128132906c85"


def test_log_normal_bits_are_fixed():
    values = b"".join(log_normal_us(draw, 60_000, 500_000, 2_000_000).to_bytes(8, "little") for draw in DRAWS[:5000])
    assert blake2b(values, digest_size=8).hexdigest() == "40137c0690319a6b"


@pytest.mark.parametrize("probability", [2**-19, 0.0001, 0.001, 0.1, 0.5, 0.75, 0.999, 0.99995, 1 - 2**-19])
@pytest.mark.parametrize("sigma", [0.0, 0.5, 3.0])
def test_log_normal_quantiles(probability: float, sigma: float):
    expected = 10**8 * math.exp(sigma * NormalDist().inv_cdf(probability))
    found = log_normal_us(draw_at(probability), 10**8, round(sigma * 10**6), 10**18)
    assert found == pytest.approx(expected, rel=0.1 if sigma == 3 else 0.02)


def test_log_normal_mean():
    values = [log_normal_us(draw, 60_000, 500_000, 2_000_000) for draw in DRAWS]
    assert fmean(values) == pytest.approx(60_000 * math.exp(0.125), rel=0.01)


def test_log_normal_is_capped():
    values = [log_normal_us(draw, 60_000, 500_000, 80_000) for draw in DRAWS]
    assert max(values) == 80_000
    share = sum(value == 80_000 for value in values) / len(values)
    assert share == pytest.approx(1 - NormalDist().cdf(math.log(80 / 60) / 0.5), abs=0.01)


@given(WORDS, WORDS)
def test_a_larger_draw_never_gives_less(one: int, other: int):
    low, high = sorted((one, other))
    assert log_normal_us(low, 60_000, 500_000, 300_000) <= log_normal_us(high, 60_000, 500_000, 300_000)
    if high >> 52 != 4095:
        assert exponential_us(low, 10**6) <= exponential_us(high, 10**6)


@given(WORDS)
def test_the_minimum_is_a_lower_bound(draw: int):
    assert log_normal_us(draw, 60_000, 700_000, 300_000) >= log_normal_tables(60_000, 700_000, 300_000)[1][0]


def test_the_minimum_is_reached():
    assert log_normal_us(0, 60_000, 700_000, 300_000) == log_normal_tables(60_000, 700_000, 300_000)[1][0]
