"""Numbers as text: units, significant digits, intervals."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.number_text import (
    FORMS,
    apart,
    figure,
    interval,
    milliseconds,
    percent,
    plain,
    probability,
    relative,
    size,
)

FORM_NAMES = st.sampled_from(sorted(FORMS))


@given(FORM_NAMES, st.floats(0, 1e13))
def test_no_exponent_and_at_most_three_significant_digits(form, value):
    value = min(value, 1.0) if form == "percent" else value
    text = FORMS[form](value)
    assert not re.search(r"\de[+-]?\d", text)
    if form not in ("percent", "count"):
        digits = re.sub(r"\D", "", text).strip("0")
        assert len(digits) <= 3, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (figure(0.00188), "0.002"),
        (figure(0.0001), "under 0.001"),
        (figure(1234.5), "1,230"),
        (size(0.887), "1 B"),
        (size(0.2), "under 1 B"),
        (size(1_234_567), "1.23 MB"),
        (milliseconds(157.642), "158 ms"),
        (milliseconds(999.6), "1.00 s"),
        (percent(0.99987), "99.987 %"),
        (relative(1.0), "100 %"),
        (relative(0.3361), "34 %"),
        (probability(5.1e-05), "<0.001"),
        (probability(0.0312), "0.031"),
    ],
)
def test_single_figures(text, said):
    assert plain(text) == said


@pytest.mark.parametrize(
    ("amounts", "form", "said"),
    [
        ((0.0, 0.0, 0.0), "percent", "the same"),
        ((-3.21, -4.06, -2.31), "ms", "−3.2 ms (−4.1 … −2.3)"),
        ((-3.2, -1200, 2.3), "ms", "0.0 s (−1.2 … 0.0)"),
        ((0.0033, -0.001, 0.0076), "percent", "+0.33 points (−0.10 … +0.76)"),
        ((1_234_567, 1e6, 1.4e6), "bytes", "+1.2 MB (+1.0 … +1.4)"),
        ((2.0, 2.0, 2.0), "number", "+2.0"),
    ],
)
def test_an_interval_has_its_unit_once(amounts, form, said):
    middle, low, high = amounts
    assert plain(interval(middle, low, high, form)) == said


@given(FORM_NAMES, st.lists(st.integers(0, 1000).map(lambda step: 0.5 + step / 2000), min_size=1, max_size=6))
def test_figures_side_by_side_stay_distinct(form, values):
    assert len(set(apart(values, form))) == len(set(values)) or form in ("bytes", "count")
