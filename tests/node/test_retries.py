"""Waits between attempts."""

from __future__ import annotations

from hearsay.node.meeting.dial_queue import LAST_RETRY_S, Retries


def test_waits_double_up_to_a_minute_with_half_of_it_at_random_and_begin_again():
    retries = Retries(1.0)
    for wanted in (1, 2, 4, 8, 16, 32, LAST_RETRY_S, LAST_RETRY_S):
        assert wanted <= retries.wait_s() < 1.5 * wanted
    retries.succeeded()
    assert 1 <= retries.wait_s() < 1.5


def test_the_longest_wait_can_be_chosen():
    retries = Retries(30.0, 3600.0)
    waits = [retries.wait_s() for _ in range(20)]
    assert max(waits[:3]) > 60
    assert 3600 <= waits[-1] < 1.5 * 3600
