"""Statistics of studies: their values equal scipy's, and 95 of 100 intervals contain a known true value."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from hearsay.studies import statistics
from hearsay.studies.statistics import holm, mean_of, paired, unpaired

TIMES = 1500


@pytest.mark.parametrize("freedom", [1, 2, 4, 7.3, 19, 200, 5000])
def test_students_t_equals_scipys(freedom):
    for share in (0.6, 0.8, 0.95, 0.975, 0.999, 0.99999):
        assert statistics.quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-9)
    for t in (0.01, 0.7, 2.1, 9.0, 60.0):
        assert statistics.two_sided_p(-t, freedom) == pytest.approx(2 * scipy.stats.t.sf(t, freedom), rel=1e-8)


def test_differences_equal_scipys():
    chance = np.random.default_rng(1)
    a, b = chance.normal(5, 2, 12), chance.normal(6, 4, 12)
    theirs = scipy.stats.ttest_rel(b, a)
    ours = paired(a.tolist(), b.tolist())
    assert ours.p == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval()))
    theirs = scipy.stats.ttest_ind(b, a, equal_var=False)
    ours = unpaired(a.tolist(), b.tolist())
    assert ours.p == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval()))


def percentiles(chance: np.random.Generator, seeds: int, shift: float) -> np.ndarray:
    """Return the p99 of 200 latencies for each seed. As in simulations, the mean latency differs between seeds."""
    network = chance.normal(0, 0.1, (seeds, 1))
    return np.percentile(np.exp(network + chance.normal(4 + shift, 0.4, (seeds, 200))), 99, axis=1)


def ratios(chance: np.random.Generator, seeds: int, share: float) -> np.ndarray:
    return chance.binomial(2000, np.clip(chance.normal(share, 0.02, seeds), 0, 1)) / 2000


# A pair of samples and the true difference of their means; n is the number of seeds.
CASES = {
    "normal": lambda chance, n: (chance.normal(10, 1, n), chance.normal(10.4, 1, n), 0.4),
    "unequal scatter": lambda chance, n: (chance.normal(10, 0.5, n), chance.normal(10, 3, n), 0.0),
    "delivery ratio": lambda chance, n: (ratios(chance, n, 0.90), ratios(chance, n, 0.85), -0.05),
    "p99 of equals": lambda chance, n: (percentiles(chance, n, 0), percentiles(chance, n, 0), 0.0),
}


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [6, 20])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", [paired, unpaired])
def test_95_of_100_intervals_contain_the_true_difference(case, method, seeds):
    chance = np.random.default_rng([*case.encode(), seeds])
    held = 0
    for _ in range(TIMES):
        a, b, truth = CASES[case](chance, seeds)
        found = method(a.tolist(), b.tolist())
        held += found.low <= truth <= found.high
    assert 0.93 <= held / TIMES <= 0.97


@pytest.mark.parametrize("seeds", [3, 10])
def test_95_of_100_intervals_contain_the_true_mean(seeds):
    chance = np.random.default_rng(seeds)
    found = [mean_of(chance.normal(7, 2, seeds).tolist()) for _ in range(TIMES)]
    held = sum(each.low <= 7 <= each.high for each in found if each is not None)
    assert 0.93 <= held / TIMES <= 0.97


def test_pairing_detects_differences_that_unpaired_runs_do_not():
    """Networks differ by far more than the two sides. With the same networks on both sides, that does not matter."""
    chance = np.random.default_rng(5)
    seen = {paired: 0, unpaired: 0}
    width = {paired: 0.0, unpaired: 0.0}
    for _ in range(500):
        network = chance.normal(100, 20, 20)
        a, b = network + chance.normal(0, 1, 20), network + 2 + chance.normal(0, 1, 20)
        for method in seen:
            found = method(a.tolist(), b.tolist())
            seen[method] += found.p < 0.05
            width[method] += found.high - found.low
    assert seen[paired] > 490
    assert seen[unpaired] < 50
    assert width[unpaired] > 10 * width[paired]


@pytest.mark.thorough
def test_at_most_5_of_100_comparisons_of_equals_find_a_difference():
    """Six metrics of the same runs are correlated: three of them are the others with noise."""
    chance = np.random.default_rng(6)
    wrong = 0
    for _ in range(1000):
        sides = []
        for _ in range(2):
            base = chance.normal(0, 1, (3, 20))
            sides.append([*base, *(base + chance.normal(0, 0.5, (3, 20)))])
        p_values = [unpaired(a.tolist(), b.tolist()).p for a, b in zip(*sides, strict=True)]
        wrong += any(holm(p_values))
    assert wrong / 1000 <= 0.05 + 0.015
    assert wrong > 0


@pytest.mark.thorough
def test_the_detectable_difference_is_detected_in_80_of_100_cases():
    chance = np.random.default_rng(7)
    sizes = [
        paired(chance.normal(0, 1, 20).tolist(), chance.normal(0, 1, 20).tolist()).detectable() for _ in range(400)
    ]
    size = float(np.mean(sizes))
    seen = sum(
        paired(chance.normal(0, 1, 20).tolist(), chance.normal(size, 1, 20).tolist()).p < 0.05 for _ in range(2000)
    )
    assert 0.76 <= seen / 2000 <= 0.86


def test_holm_is_strictest_with_the_smallest_p():
    assert holm([0.04, 0.001, 0.03]) == [False, True, False]
    assert holm([0.02, 0.01, 0.03]) == [True, True, True]
    assert holm([0.02, 0.03]) == [True, True]
    assert holm([]) == []


def test_samples_without_scatter():
    assert paired([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).p == 1
    same = paired([1.0, 2.0, 3.0], [1.5, 2.5, 3.5])
    assert (same.p, same.low, same.high, same.constant) == (0, 0.5, 0.5, True)
    assert unpaired([0.1] * 3, [0.1] * 3).constant
    assert mean_of([]) is None
    alone = mean_of([4.0])
    assert alone is not None
    assert (alone.mean, alone.low) == (4, None)
    with pytest.raises(ValueError, match="two or more"):
        paired([1.0], [2.0])
