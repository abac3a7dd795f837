"""Runs in processes of this machine: their results, processes that die, and that no process is left."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from kills import LOOK_AGAIN_S, descendants, ends_within, require_end
from local_runs import run_locally
from small_study import STUDY, sweep_in_processes, table, write_study

from hearsay.studies.points import points_of
from hearsay.studies.results import TABLES, tables_of
from hearsay.studies.study_file import load_study
from hearsay.trace.compare_runs import verify

ROUTER = """
import os, signal
from hearsay.core.mesh.meshsub import Meshsub, MeshsubParameters
from hearsay.core.registry import RouterKind

def deadly(parameters):
    print("a router that prints")
    if parameters.degree == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return Meshsub(parameters)

KIND = RouterKind("deadly", MeshsubParameters, deadly, {})
"""
DEADLY = """
seeds = 1
[base]
network.nodes = 20
workload.messages = 2
router.kind = "deadly_in_processes:KIND"
[[axes]]
keys = ["router.degree", "router.degree_low"]
values = [[5, 3], [6, 3], [7, 3]]
"""
OWNER = """
import sys
from pathlib import Path
from hearsay.studies.points import points_of
from hearsay.studies.processes import Processes
from hearsay.studies.runner import tasks_of
from hearsay.studies.study_file import load_study

study = load_study(Path(sys.argv[1]))
with Processes(1) as made:
    list(made.run(tasks_of(study, points_of(study))))
"""


def test_tables_equal_those_of_runs_in_this_process(tmp_path):
    path = write_study(tmp_path)
    done = sweep_in_processes(path, tmp_path / "out")
    assert (done.made, done.failures) == (12, [])
    study = load_study(path)
    points = points_of(study)
    expected = tables_of(study, points, run_locally(study, points))
    for name in set(TABLES) - {"resources"}:
        assert table(tmp_path / "out", name).equals(expected[name]), name
    assert sweep_in_processes(path, tmp_path / "out").made == 0


def test_progress_counts_a_run_for_each_process(tmp_path):
    reports = []
    sweep_in_processes(write_study(tmp_path), tmp_path / "out", reports.append)
    assert {progress.running for progress in reports} <= {0, 1, 2}
    assert (reports[0].total, reports[-1].done) == (12, 12)


def test_traces_come_back_whole(tmp_path):
    text = STUDY.replace("seeds = 3", "seeds = [2]").replace("[base]", "traces = true\n[base]")
    done = sweep_in_processes(write_study(tmp_path, text), tmp_path / "out")
    assert len(done.results) == 4
    for run in done.results:
        assert verify(tmp_path / "out" / "traces" / run) == []


def test_a_run_that_kills_its_process_is_reported_and_stops_no_other(tmp_path, monkeypatch):
    (tmp_path / "deadly_in_processes.py").write_text(ROUTER)
    monkeypatch.syspath_prepend(tmp_path)
    done = sweep_in_processes(write_study(tmp_path, DEADLY), tmp_path / "out")
    errors = [row["error"] for row in table(tmp_path / "out", "runs").to_pylist()]
    assert errors == ["its process was killed (out of memory?), 3 times", None, None]
    assert len(done.failures) == 1


def test_a_sweep_that_is_stopped_leaves_no_process(tmp_path):
    before = set(descendants(os.getpid()))

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep_in_processes(write_study(tmp_path), tmp_path / "out", stop)
    assert set(descendants(os.getpid())) <= before


def test_processes_end_when_their_owner_is_killed(tmp_path):
    text = "seeds = 1\nengine = 'reference'\n[base]\nnetwork.nodes = 5000\nworkload.messages = 1000"
    command = [sys.executable, "-c", OWNER, str(write_study(tmp_path, text))]
    with subprocess.Popen(command) as owner:
        while not (family := descendants(owner.pid)):
            assert not ends_within(owner.pid, LOOK_AGAIN_S)
        owner.kill()
    for pid in family:
        require_end(pid)
