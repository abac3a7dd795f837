"""`load_scenario`, `simulate` and `check_scores`: load a scenario, run it, and check its score parameters.

`check_scores` does what `hearsay score` does. It also checks files with score parameters alone, and named sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hearsay.core.scores.named_sets import NAMES
from hearsay.core.shell.parameters import ParameterError
from hearsay.score_check.check import (
    FINDING_HEAD,
    IDS,
    Checked,
    check_subject,
    check_text,
    chosen,
    finding_cells,
    summary,
)
from hearsay.score_check.findings import ScoreFinding
from hearsay.score_check.subject import Subject
from hearsay.score_check.subjects import read_subject, subject_of_scenario, subject_of_set
from hearsay.sim.scenario import scenario_file
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.simulate import InvariantViolation, run_on_fitting_engine
from hearsay.sim.summary import Summary
from hearsay.text import html_table
from hearsay.trace.language.schema import TraceRow

Engine: TypeAlias = Literal["auto", "reference", "array"]


def load_scenario(
    name: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    router: str | None = None,
    seed: int | None = None,
) -> Scenario:
    """Load a scenario from a file or a preset; without a name, load the scenario with all defaults.

    `overrides` has other values for keys, such as `{"network.nodes": 50}`. `router` replaces the kind of router, and
    `seed` the seed.

    Raise `ScenarioError`, whose `problems` has a line for each mistake.
    """
    path, preset = (None, None) if name is None else scenario_file.find_scenario(name)
    return scenario_file.load_scenario(path, preset, *_changes(overrides, seed), router=router)


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
    """Simulate a scenario (an object, a file, or the name of a preset) and return the summary.

    `overrides`, `router` and `seed` change the scenario as in `load_scenario`. `threads` is the number of threads of
    the array engine. `out` is the folder for the run, which `open_run` can read. With `check`, test the invariants of
    the protocol, and raise `InvariantViolation` after the run if one is broken. `on_row` is called with every row of
    the trace, in order. Only the reference engine can do this, so with `on_row`, "auto" selects the reference engine.
    """
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, overrides, router=router, seed=seed)
    elif overrides or router is not None or seed is not None:
        scenario = scenario_file.change_scenario(scenario, *_changes(overrides, seed), router)
    place = None if out is None else Path(out)
    result = run_on_fitting_engine(scenario, engine, out=place, threads=threads, check=check, listener=on_row)
    if result.problems:
        raise InvariantViolation("\n".join(result.problems))
    return result.summary


def _changes(given: Mapping[str, object] | None, seed: int | None) -> tuple[list[tuple[str, object]], dict[str, str]]:
    """Return pairs of key and value, and by key the parameter that gives the value: `overrides` or `seed`."""
    given, of_seed = given or {}, {} if seed is None else {"seed": seed}
    return [*given.items(), *of_seed.items()], dict.fromkeys(given, "overrides") | dict.fromkeys(of_seed, "seed")


class ScoreCheck:
    """The result of `check_scores`. `findings` are in the order of severity, the most severe first."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    @property
    def findings(self) -> Sequence[ScoreFinding]:
        return self._checked.findings

    def at_least(self, severity: str) -> list[ScoreFinding]:
        """Return the findings with at least this severity: `note`, `warning` or `error`. Raise `ValueError` for
        others.
        """
        return self._checked.at_least(severity)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay score --json` prints."""
        return self._checked.to_json()

    def __str__(self) -> str:
        return check_text(self._checked)

    def _repr_html_(self) -> str:
        return html_table(FINDING_HEAD, finding_cells(self._checked), summary(self._checked), left=4)


def check_scores(
    what: Scenario | str | Path,
    *,
    validators: int | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> ScoreCheck:
    """Check the score parameters of a scenario, of a file, or of a named set such as `lighthouse`.

    `validators` is the number of validators of Ethereum (default: a million). Named sets that do not depend on it do
    not accept it; scenarios and files ignore it. `only` has the ids of the checks to run (default: all), and `ignore`
    has the ids of checks to skip. Raise `ScenarioError`, whose `problems` has a line for each mistake.
    """
    unknown = [name for name in (*only, *ignore) if name not in IDS]
    if unknown:
        raise ScenarioError([f"{name}: no such check; there are {', '.join(IDS)}" for name in unknown])
    return ScoreCheck(check_subject(_subject(what, validators), chosen(only, ignore)))


def _subject(what: Scenario | str | Path, validators: int | None) -> Subject:
    if isinstance(what, Scenario):
        return subject_of_scenario(what, "scenario", {})
    if str(what) not in NAMES or Path(what).is_file():
        return read_subject(Path(what))
    try:
        return subject_of_set(str(what), validators)
    except ParameterError as error:
        raise ScenarioError([str(each) for each in error.violations]) from None
