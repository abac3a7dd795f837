"""Runs for tests of explanations: random scenarios, and some with churn, queues and scores, as folders and rows."""

from __future__ import annotations

import tomllib
from itertools import count
from pathlib import Path

from brute_force import Rows

from engines_agree import even_plan
from hearsay.sim.plan.engines import unsupported
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import TraceRow
from hearsay.trace.reader import read_rows

MOST_EVENTS = 20_000
SMALL = [("network.nodes", "50"), ("workload.messages", "8"), ("workload.interval_s", "0.5"), ("linger_s", "6")]
KINDS = {
    name: (kind["preset"], [*SMALL, *kind["set"].items()])
    for name, kind in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def load_kind(kind: str) -> Scenario:
    preset, overrides = KINDS[kind]
    return load_scenario(None, preset, overrides)


def simulate(scenario: Scenario, path: Path, engine: str = "reference") -> Path | None:
    """Simulate a scenario and return the run folder. Return None if the run has more than `MOST_EVENTS` events, or if
    the array engine does not support the scenario.
    """
    if engine == "array" and unsupported(scenario):
        return None
    simulation = Simulation(
        scenario, folder=RunFolder.create(path), engine="array" if engine == "array" else "reference"
    )

    def stop_large_runs(_now: int) -> None:
        simulation.engine.stop_requested = simulation.recorder.events > MOST_EVENTS

    return path if simulation.run(stop_large_runs).summary.complete else None


def simulate_random(number: int, folder: Path, most_nodes: int = 1_000_000) -> tuple[Path, Scenario]:
    """Return a run of a random scenario and the scenario. Try the numbers `number`, `number` + 1,000 and so on, until
    the network has at most `most_nodes` nodes and the run at most `MOST_EVENTS` events.
    """
    for each in count(number, 1000):
        scenario = even_plan(each)[1].scenario
        if scenario.network.nodes <= most_nodes:
            run = simulate(scenario, folder / f"run-{each}")
            if run is not None:
                return run, scenario
    raise AssertionError


def read_all_rows(path: Path, scenario: Scenario, end_us: int) -> Rows:
    return Rows([TraceRow.from_codes(codes) for codes in read_rows(path).tolist()], scenario, end_us)
