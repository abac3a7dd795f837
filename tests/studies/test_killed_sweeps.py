"""SIGKILL of the driver, the JVM and a worker: the sweep that goes on has the table of one that nobody disturbed."""

from __future__ import annotations

import pytest
from kills import WORKER
from small_study import assert_equal_tables, swept, table, write_study
from sweep_kills import RUNS, STUDY, seeded_kills, sweep, sweep_and_kill

pytestmark = pytest.mark.xdist_group("spark")


def test_a_sweep_goes_on_where_it_was_killed(spark, tmp_path):
    """All victims, one after the other, on one folder; `bench/kill_sweeps.py` does it at more points."""
    study = write_study(tmp_path, STUDY)
    out = tmp_path / "out"
    for kill in seeded_kills(seed=2, count=3):
        outcome = sweep_and_kill(kill, study, out)
        assert "Traceback" not in outcome.errors
        if kill.victim == WORKER or not outcome.hit:
            assert outcome.code == 0, outcome.errors
        else:
            assert outcome.code in (1, -9)
    done = sweep(study, out)
    assert done.returncode == 0, done.stderr
    swept(spark, study, tmp_path / "undisturbed")
    assert len(table(out, "runs")) == RUNS
    assert_equal_tables(out, tmp_path / "undisturbed")
