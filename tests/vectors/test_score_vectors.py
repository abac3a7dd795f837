"""A vector of scores holds only if each score, and each named part of a score, is as expected after each step."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from fuzz_seeds import seeds

from hearsay.vectors.score_run import run_scores

VALID: dict[str, Any] = json.loads(seeds("vectors")[0])["vectors"][0]


def fault(implementation: str = "spec", tolerance: float = 1e-9, **expect: Any) -> str | None:
    vector = deepcopy(VALID)
    vector["steps"][1] |= expect
    return run_scores(vector, implementation, tolerance)


def test_the_unchanged_vector_holds():
    assert fault() is None


def test_a_wrong_score_is_reported():
    assert fault(expect={"A": {"score": -2}}) == "step 1, reject at 5 us: the score of A is -1, not -2"


def test_a_change_of_a_score_without_an_expectation_is_reported():
    assert fault(expect={}) == "step 1, reject at 5 us: the score of A is -1, not 0"


@pytest.mark.parametrize(
    ("parts", "expected_text"),
    [
        ({}, "topics.news.P4 of A is -1, not 0"),
        ({"topics": {"news": {"P4": -1, "P2": 3}}}, "topics.news.P2 of A is 0, not 3"),
        ({"P7": -1}, "P7 of A is 0, not -1"),
    ],
)
def test_a_wrong_part_is_reported(parts, expected_text):
    message = fault(expect={"A": {"score": -1, "parts": parts}})
    assert message is not None
    assert message.endswith(expected_text)


def test_expectations_for_an_implementation_hold_for_it_alone():
    assert fault("go") == "step 1, reject at 5 us: the score of A is -1, not 0"


@pytest.mark.parametrize(("off", "held"), [(0.9e-3, True), (1.1e-3, False)])
def test_numbers_agree_within_the_tolerance(off, held):
    assert (fault(tolerance=1e-3, expect={"A": {"score": -1 + off}}) is None) == held
