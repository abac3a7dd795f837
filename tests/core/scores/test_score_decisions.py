"""Decisions of scores: their thresholds, and equal bits when they are compiled for kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import FunctionType

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearsay.core.language.actions import Reason
from hearsay.core.rules import deliveries, gater, score_parts


@pytest.mark.parametrize(
    ("decision", "limit", "below", "at"),
    [
        (score_parts.may_gossip, -10.0, False, True),
        (score_parts.gets_published, -50.0, False, True),
        (score_parts.is_graylisted, -80.0, True, False),
        (score_parts.exchange_is_accepted, 10.0, False, True),
        (score_parts.mesh_is_poor, 20.0, True, False),
    ],
)
def test_decisions_at_and_below_their_thresholds(decision, limit, below, at):
    """Rules: THRESHOLD-2, THRESHOLD-3, THRESHOLD-4, THRESHOLD-5, THRESHOLD-6."""
    assert [decision(limit - 0.5, limit), decision(limit, limit)] == [below, at]


def test_only_peers_without_negative_scores_may_be_in_a_mesh():
    """Rules: THRESHOLD-1."""
    assert [score_parts.may_be_in_mesh(score) for score in (-1e-9, 0.0, 1.0)] == [False, True, True]


@pytest.mark.parametrize(
    ("reason", "record", "gated"),
    [
        (Reason.REJECTED, deliveries.INVALID, gater.REJECTED),
        (Reason.IGNORED, deliveries.IGNORED, gater.IGNORED),
        (Reason.THROTTLED, deliveries.THROTTLED, gater.TURNED_AWAY),
        (Reason.QUEUE_FULL, deliveries.UNBLAMED, gater.TURNED_AWAY),
        (Reason.BAD_SIGNATURE, deliveries.BLAMED_AT_ONCE, gater.REJECTED),
        (Reason.SELF_ORIGIN, deliveries.BLAMED_AT_ONCE, gater.REJECTED),
        (Reason.NOT_SUBSCRIBED, deliveries.UNBLAMED, gater.UNCOUNTED),
    ],
)
def test_the_reason_of_a_rejection_decides_on_blame(reason, record, gated):
    """Rules: DELIVERY-4, DELIVERY-5, DELIVERY-6, GATER-2."""
    assert [deliveries.rejection(reason), gater.rejection(reason)] == [record, gated]


def test_parts_at_their_thresholds():
    """Rules: SCORE-3, SCORE-8, SCORE-9, SCORE-10."""
    assert [score_parts.deficit_square(count, 2.0) for count in (0.0, 1.5, 2.0, 3.0)] == [4.0, 0.25, 0.0, 0.0]
    assert [score_parts.excess_square(count, 2.0) for count in (1.0, 2.0, 2.5, 4.0)] == [0.0, 0.0, 0.25, 4.0]
    assert [score_parts.excess(count, 2.0) for count in (1.0, 2.0, 4.0)] == [0.0, 0.0, 2.0]


def test_a_counter_is_kept_at_zero_and_forgotten_below():
    """Rules: COUNTER-2."""
    assert [score_parts.decayed(counter, 0.5, 0.25) for counter in (0.5, 0.49)] == [0.25, 0.0]


NUMBER = st.floats(0, 1e9)
TIME = st.integers(0, 2**52)
COMPILED: dict[Callable[..., object], tuple[st.SearchStrategy[object], ...]] = {
    score_parts.time_in_mesh: (TIME, TIME, NUMBER, st.booleans()),
    score_parts.deficit_square: (NUMBER, NUMBER),
    score_parts.excess_square: (NUMBER, NUMBER),
    score_parts.square: (NUMBER,),
    score_parts.topic_sum: (NUMBER,) * 6,
    score_parts.capped_topics: (NUMBER, NUMBER),
    score_parts.total: (NUMBER,) * 5,
    score_parts.counted: (NUMBER, NUMBER, NUMBER),
    score_parts.decayed: (NUMBER, st.floats(0, 1), NUMBER),
    score_parts.counts_as_failure: (st.booleans(), st.booleans(), st.booleans()),
    deliveries.rejection: (st.sampled_from([int(reason) for reason in Reason]),),
    deliveries.copy_answer: (st.integers(0, 4), st.booleans()),
    score_parts.is_kept: (NUMBER, st.booleans(), TIME),
    deliveries.rejection_keeps: (st.sampled_from([int(reason) for reason in Reason]),),
    gater.is_open: (TIME, TIME, NUMBER, NUMBER, NUMBER),
    gater.is_let_in: (st.integers(0, 2**64 - 1).map(np.uint64), NUMBER, NUMBER),
}


def compiled(function: FunctionType) -> Callable[..., object]:
    """Return a function compiled by numba, together with the functions of the core that it calls."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if isinstance(scope.get(name), FunctionType):
            scope[name] = compiled(scope[name])
    return numba.njit(error_model="numpy")(FunctionType(function.__code__, scope))


def bits(value: object) -> object:
    return struct.pack("<d", value) if isinstance(value, float) else int(value)


@pytest.mark.parametrize("decision", COMPILED, ids=lambda decision: f"{decision.__module__}.{decision.__name__}")
def test_kernels_get_the_same_bits(decision):
    """Rules: SCORE-1, SCORE-6, SCORE-11, COUNTER-1, COUNTER-2, GATER-4."""
    kernel = compiled(decision)

    @settings(max_examples=100, deadline=None)
    @given(st.tuples(*COMPILED[decision]))
    def same(values):
        assert bits(kernel(*values)) == bits(decision(*values))

    same()
