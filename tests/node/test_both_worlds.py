"""The simulator and real nodes agree on the same scenario, within tolerances named beforehand."""

from __future__ import annotations

from both_worlds import compare

GRAFTS, COPIES, P50 = 0.10, 0.10, 0.20


def test_twenty_real_nodes_behave_as_the_simulated_ones(tmp_path):
    simulated, real = compare(tmp_path)
    assert real.deliveries == simulated.deliveries == 40 * 19
    assert abs(real.grafts / simulated.grafts - 1) <= GRAFTS
    assert abs(real.copies_per_delivery / simulated.copies_per_delivery - 1) <= COPIES
    assert abs(real.p50_ms / simulated.p50_ms - 1) <= P50
