"""SIGKILL of the JVM, the driver and a worker: a sweep that continues has the tables of a sweep without kills."""

from __future__ import annotations

import pytest
from kills import DRIVER, JVM, WORKER
from small_study import assert_tables_of_local_runs, table, write_study
from sweep_kills import Kill, study, sweep_and_kill

pytestmark = pytest.mark.thorough


def test_a_killed_sweep_continues_with_the_same_tables(tmp_path):
    """Three sweeps of one folder lose a process each, after the first pack that they store. The kill of a worker does
    not end a sweep. `bench/kill_sweeps.py` kills at seeded points.
    """
    text, runs = study(seeds=14)
    path = write_study(tmp_path, text)
    out = tmp_path / "out"
    for victim, codes in ((JVM, {1}), (DRIVER, {-9}), (WORKER, {0})):
        outcome = sweep_and_kill(Kill(victim, 1, 0), path, out)
        assert outcome.hit, victim
        assert outcome.code in codes, outcome.errors
        assert "Traceback" not in outcome.errors
    assert len(table(out, "runs")) == runs
    assert_tables_of_local_runs(out, path)
