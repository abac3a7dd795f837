"""The episub benches measure a small network: views of all nodes, one-sided links, and delivery after a crash."""

from __future__ import annotations

from episub_overlay import measure_crash, measure_overlay, warmed_up


def test_the_overlay_of_a_small_network_is_connected_before_and_after_a_crash():
    run = warmed_up(20, "episub", 0.0, 1)
    before = measure_overlay(run)
    assert before["components"] == 1
    assert before["one_sided"] == 0
    assert 0 < before["least"] <= before["mean"] <= before["most"]
    after = measure_crash(run, 0.3, discovery=True)
    assert after["whole_s"] is not None
    assert after["ratios"][-1] == 100
