"""Simulator and real nodes agree on the same scenario, by the pipeline, within tolerances named beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from both_worlds import NETWORKS, SCENARIO, SEEDS, TOLERANCES, RealRuns, compare, run_in_reality
from hearsay.libp2p.names.errors import DialError

if TYPE_CHECKING:
    from pathlib import Path

    from hearsay.sim.plan.plan import Plan

pytestmark = pytest.mark.thorough

LATE_MS = 60
"""A tenth of the mean line. Lines that are later are other lines than the simulated ones."""
TRIES = 4


def while_the_machine_is_free(plan: Plan, directory: Path) -> RealRuns:
    """The first real runs that were not held up; they count as they are. A handshake that takes ten seconds on this
    machine is held up, too; the last try may not fail so."""
    late_ms = 0.0
    for number in range(TRIES):
        try:
            runs = run_in_reality(plan, directory / f"try-{number}")
        except DialError:
            if number + 1 == TRIES:
                raise
            continue
        if runs.late_ms <= LATE_MS:
            return runs
        late_ms = runs.late_ms
    pytest.skip(f"the machine is too busy: {TRIES} times, in the end {late_ms:.0f} ms, a tenth of all data was late")


def test_twenty_real_nodes_behave_as_the_simulated_ones(spark, tmp_path):
    comparison = compare(spark, tmp_path, while_the_machine_is_free)
    assert (len(comparison.simulated), len(comparison.real)) == (len(SEEDS), NETWORKS)
    everybody = SCENARIO["workload.messages"] * (SCENARIO["network.nodes"] - 1)
    assert {run.deliveries for run in (*comparison.simulated, *comparison.real)} == {everybody}
    simulated, real = comparison.means()
    for figure, tolerance in TOLERANCES.items():
        assert getattr(real, figure) == pytest.approx(getattr(simulated, figure), rel=tolerance), figure
