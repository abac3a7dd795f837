"""Facts about runs that an analysis needs before it reads rows."""

from __future__ import annotations

from hearsay.pipeline.run_facts import load_runs
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder


def test_each_run_of_a_call_has_a_name_of_its_own(tmp_path):
    scenario = load_scenario(None, None, [("network.nodes", "5"), ("workload.messages", "1")])
    paths = [tmp_path / name for name in ("a/run", "b/run", "c/run-2", "d/run", "e/other")]
    for path in paths:
        path.parent.mkdir()
        Simulation(scenario, folder=RunFolder.create(path)).run()
    assert [run.name for run in load_runs(paths)] == ["run", "run-2", "run-2-2", "run-3", "other"]
