"""Simulator and real nodes agree on the same scenario, by the pipeline, within tolerances named beforehand."""

from __future__ import annotations

import pytest

from both_worlds import NETWORKS, SCENARIO, SEEDS, TOLERANCES, compare

pytestmark = pytest.mark.thorough

LATE_MS = 60
"""A tenth of the mean line. Lines that are later are other lines than the simulated ones."""


def test_twenty_real_nodes_behave_as_the_simulated_ones(spark, tmp_path):
    comparison = compare(spark, tmp_path)
    assert (len(comparison.simulated), len(comparison.real)) == (len(SEEDS), NETWORKS)
    everybody = SCENARIO["workload.messages"] * (SCENARIO["network.nodes"] - 1)
    assert {run.deliveries for run in (*comparison.simulated, *comparison.real)} == {everybody}
    simulated, real = comparison.means()
    for figure, tolerance in TOLERANCES.items():
        if figure == "p50_ms" and comparison.late_ms > LATE_MS:
            pytest.skip(
                f"the machine is too busy: a tenth of the data on the lines was over {comparison.late_ms:.0f} ms late"
            )
        assert getattr(real, figure) == pytest.approx(getattr(simulated, figure), rel=tolerance), figure
