"""`load_scenario` and `simulate`: load scenarios and run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from hearsay.sim.results.summary import Summary
from hearsay.sim.scenario import scenario_file
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.simulate import InvariantViolation, run_on_fitting_engine
from hearsay.trace.language.schema import TraceRow

Engine: TypeAlias = Literal["auto", "reference", "array"]


def load_scenario(
    name: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    router: str | None = None,
    seed: int | None = None,
) -> Scenario:
    """Load the scenario of a file or a preset (default: all defaults), with keys changed: `{"network.nodes": 50}`.

    Raises `ScenarioError`, whose `problems` has a line for each mistake.
    """
    path, preset = (None, None) if name is None else scenario_file.find_scenario(name)
    changes = _changes(overrides, seed)
    return scenario_file.load_scenario(path, preset, changes, router=router)


def simulate(
    scenario: Scenario | str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    router: str | None = None,
    seed: int | None = None,
    engine: Engine = "auto",
    threads: int = 1,
    out: str | Path | None = None,
    check: bool = False,
    on_row: Callable[[TraceRow], None] | None = None,
) -> Summary:
    """Run a scenario: an object, a file, or the name of a preset, with keys changed as in `load_scenario`.

    `out` is a folder for the run, which `open_run` can read. `check` tests the protocol's invariants, and raises
    `InvariantViolation` if one is broken. `on_row` is called with every row of the trace in order; only the reference
    engine can do this, so "auto" chooses it.
    """
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, overrides, router=router, seed=seed)
    elif overrides or router is not None or seed is not None:
        scenario = scenario_file.change_scenario(scenario, _changes(overrides, seed), router=router)
    place = None if out is None else Path(out)
    result = run_on_fitting_engine(scenario, engine, out=place, threads=threads, check=check, listener=on_row)
    if result.problems:
        raise InvariantViolation("\n".join(result.problems))
    return result.summary


def _changes(overrides: Mapping[str, object] | None, seed: int | None) -> list[tuple[str, object]]:
    return [*(overrides or {}).items(), *([] if seed is None else [("seed", seed)])]
