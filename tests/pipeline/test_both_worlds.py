"""Simulator and real nodes agree on the same scenario, by the pipeline, within tolerances named beforehand."""

from __future__ import annotations

import pytest

from both_worlds import NETWORKS, SCENARIO, SEEDS, TOLERANCES, compare

pytestmark = pytest.mark.xdist_group("spark")


def test_twenty_real_nodes_behave_as_the_simulated_ones(spark, tmp_path):
    comparison = compare(spark, tmp_path)
    assert (len(comparison.simulated), len(comparison.real)) == (len(SEEDS), NETWORKS)
    everybody = SCENARIO["workload.messages"] * (SCENARIO["network.nodes"] - 1)
    assert {run.deliveries for runs in comparison for run in runs} == {everybody}
    simulated, real = comparison.means()
    for figure, tolerance in TOLERANCES.items():
        assert getattr(real, figure) == pytest.approx(getattr(simulated, figure), rel=tolerance), figure
