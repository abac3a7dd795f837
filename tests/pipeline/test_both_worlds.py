"""Simulated and real networks of one scenario have equal metrics, within the tolerances of bench/both_worlds.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from both_worlds import NETWORKS, SCENARIO, SEEDS, TOLERANCES, RealRuns, compare, measure_real_networks
from hearsay.libp2p.names.errors import DialError

if TYPE_CHECKING:
    from pathlib import Path

    from hearsay.sim.plan.plan import Plan

pytestmark = pytest.mark.thorough

LATE_MS = 60
"""Maximum of `RealRuns.late_ms`: a tenth of the mean latency. With more, the links differ from those of the plan."""
DIALS_S = 8
"""Maximum of `RealRuns.dials_s`: two seconds before the first heartbeat. A round trip takes at most 1.8 s, so all
peers know all topics by then. Dials take six seconds on a quiet machine."""
TRIES = 4


def run_without_delays(plan: Plan, directory: Path) -> RealRuns:
    """Return the first real runs within `LATE_MS` and `DIALS_S`; skip the test if `TRIES` tries have larger delays.

    A dial that fails because the machine is busy counts as a delay, except in the last try.
    """
    late_ms = dials_s = 0.0
    for number in range(TRIES):
        try:
            runs = measure_real_networks(plan, directory / f"try-{number}")
        except DialError:
            if number + 1 == TRIES:
                raise
            continue
        if runs.late_ms <= LATE_MS and runs.dials_s <= DIALS_S:
            return runs
        late_ms, dials_s = runs.late_ms, runs.dials_s
    pytest.skip(
        f"the machine was too busy in all {TRIES} tries: in the last one, a tenth of all data was {late_ms:.0f} ms "
        f"late or more, and dials took {dials_s:.1f} s"
    )


def test_twenty_real_nodes_behave_as_the_simulated_ones(spark, tmp_path):
    comparison = compare(spark, tmp_path, run_without_delays)
    assert (len(comparison.simulated), len(comparison.real)) == (len(SEEDS), NETWORKS)
    all_deliveries = SCENARIO["workload.messages"] * (SCENARIO["network.nodes"] - 1)
    assert {run.deliveries for run in (*comparison.simulated, *comparison.real)} == {all_deliveries}
    simulated, real = comparison.means()
    for figure, tolerance in TOLERANCES.items():
        assert getattr(real, figure) == pytest.approx(getattr(simulated, figure), rel=tolerance), figure
