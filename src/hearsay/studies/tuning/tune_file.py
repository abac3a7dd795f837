"""The declaration of a tuning, as a file or as options: base scenario, axes, a metric to optimise, and bounds.

`search.py` defines the terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Annotated

import tomli_w
from pydantic import ConfigDict, Field, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.metrics import Metric
from hearsay.sim.scenario.reading import Document, ScenarioError, parse_value, read_text
from hearsay.sim.scenario.scenario_file import find_scenario, preset_names
from hearsay.sim.scenario.values import broken, integer_in, one_of
from hearsay.studies import LAST_FIRST_SEED
from hearsay.studies.axes import Axes, Axis, AxisTable, Base, BaseTable, Texts
from hearsay.studies.budgets import BoundsOfFigures, Budget
from hearsay.studies.checked_file import KeyLines, StudyError, checked, read_checked
from hearsay.studies.packs import BY_NAME
from hearsay.studies.study_file import RunsFile, Seeds, Study
from hearsay.text import shown_value

MOST_FRESH_SEEDS = 10_000
MOST_RUNS = 1_000_000
MOST_FINAL_SEEDS = 1_000_000
LAST_SEED = LAST_FIRST_SEED - 2 * MOST_FRESH_SEEDS - MOST_FINAL_SEEDS
"""Largest seed in a file. Fresh seeds, final seeds and `Tuning.never_seen_seed` follow the seeds of the file."""
FINALISTS = 5
"""Maximum number of points in the finals."""
_TIMES_SEEDS = 4
"""The default of the key `final_seeds` is this number times the number of `seeds`."""
CONFIRMATIONS = 3
"""Maximum number of best points that run with fresh seeds."""
_AIMS = tuple(figure.name for figure in BY_NAME.values() if figure.better)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(Study):
    """A study whose axes are searched in each condition for the best value of a metric within bounds."""

    conditions: Axis | None
    """An axis that is not searched; each of its steps is a condition."""
    aim: Metric
    """The metric to optimise."""
    bounds: tuple[Budget, ...]
    fresh_seeds: tuple[int, ...]
    """Seeds that only the base and the best points get, at the end."""
    final_seeds: tuple[int, ...]
    """Seeds of the finals, in addition to `seeds`."""
    runs: int
    """Maximum runs of the races in each condition. Runs of the base, of the finals and with fresh seeds are not
    counted.
    """
    search_seed: int
    """Random seed of the choice of combinations."""

    @property
    def combinations(self) -> int:
        """Return the number of combinations, including invalid ones."""
        return prod(len(axis.steps) for axis in self.axes)

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the names of the aim and of the bounded metrics, each once."""
        return tuple(dict.fromkeys([self.aim.name, *(bound.figure.name for bound in self.bounds)]))

    @property
    def never_seen_seed(self) -> int:
        """Return the number after the largest seed that the tuning uses."""
        return max(*self.seeds, *self.fresh_seeds, *self.final_seeds) + 1

    @property
    def study(self) -> Study:
        """Return the tuning as a study of the axis of conditions, if there is one, and the searched axes."""
        return self if self.conditions is None else replace(self, axes=(self.conditions, *self.axes))

    def better(self, value: float) -> float:
        """Return a value of the aim so that less is always better: change the sign of the value if more is better."""
        return -value if self.aim.better == "more" else value


class TuneFile(RunsFile):
    """A tuning: axes that are searched for the best value of a metric, within bounds of metrics."""

    model_config = ConfigDict(json_schema_extra={"required": ["aim", "axes"]})

    aim: Annotated[str, one_of(_AIMS)]
    """Name of the metric to optimise. It is maximised if more is better, otherwise minimised."""
    base: BaseTable = BaseTable()
    """The scenario that all runs share: a preset or a file, and keys of a scenario with other values."""
    axes: Axes = ()
    """Axes of the search. Combinations of steps that do not make a valid scenario are skipped."""
    bounds: BoundsOfFigures = Field(default={})
    """The bounds of each metric, by the name of the metric."""
    conditions: AxisTable | None = None
    """An axis whose values you cannot choose, such as churn. The search finds an answer for each value."""
    seeds: Seeds = tuple(range(1, 13))
    """Seeds of a point: a number N for the seeds 1 to N, or an array. A point that cannot be the best gets fewer."""
    fresh_seeds: Annotated[int, integer_in(2, MOST_FRESH_SEEDS)] = 20
    """Number of fresh seeds, with which the base and the best point are compared at the end."""
    final_seeds: Annotated[int, integer_in(2, MOST_FINAL_SEEDS)] | None = None
    """Maximum number of seeds of the best points, if they do not differ significantly; default: four times the number
    of `seeds`.
    """
    runs: Annotated[int, integer_in(10, MOST_RUNS)] = 400
    """Maximum runs of the search in each condition. Runs of the base, and runs with `final_seeds` or `fresh_seeds`,
    are not counted.
    """
    search_seed: Annotated[int, integer_in(0, (1 << 32) - 1)] = 1
    """Random seed of the choice of combinations."""

    @field_validator("seeds")
    @classmethod
    def _several_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(seeds) < 2:
            raise broken("must be two seeds or more")
        if max(seeds) > LAST_SEED:
            raise broken(f"must be up to {LAST_SEED}: fresh seeds come after them")
        return seeds

    def cross_rules(self) -> Iterator[Violation]:
        if self.final_seeds is not None and self.final_seeds < len(self.seeds):
            yield Violation("final_seeds", self.final_seeds, f"must not be below seeds ({len(self.seeds)})")
        if not self.axes:
            yield Violation("", None, "needs [[axes]]: keys whose values are searched")
        searched = {key for axis in self.axes for key in axis.own_keys}
        for key in self.conditions.own_keys if self.conditions else ():
            if key in searched:
                yield Violation("conditions", None, f"{key} is on an axis that is searched, too")


def load_tuning(path: Path, changes: Document | None = None) -> Tuning:
    """Return the tuning that a file declares. Raise `StudyError` with a line for each mistake.

    `changes` replace top-level keys of the file.
    """
    file, key_lines = read_checked(path, TuneFile, changes)
    return _tuning(file, key_lines, path.parent, path.stem)


def _tuning(file: TuneFile, key_lines: KeyLines, folder: Path, name: str) -> Tuning:
    fresh = tuple(range(max(file.seeds) + 1, max(file.seeds) + 1 + file.fresh_seeds))
    finals = _TIMES_SEEDS * len(file.seeds) if file.final_seeds is None else file.final_seeds
    return file.study(
        Tuning,
        name,
        Base.of(file.base, folder, key_lines, "base"),
        (axis.axis(key_lines, "axes", number) for number, axis in enumerate(file.axes)),
        file.seeds,
        conditions=None if file.conditions is None else file.conditions.axis(key_lines, "conditions"),
        aim=BY_NAME[file.aim],
        bounds=tuple(table.budget("", figure) for figure, table in file.bounds.items()),
        fresh_seeds=fresh,
        final_seeds=tuple(range(max(fresh) + 1, max(fresh) + 1 + finals - len(file.seeds))),
        runs=file.runs,
        search_seed=file.search_seed,
    )


_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?")
_BOUND = re.compile(rf"(\w+)\s*(<=|>=)\s*({_NUMBER})(?:\s+(\w+))?")


def asked_tuning(
    what: str, vary: Texts, aim: str | None, bounds: Sequence[str], conditions: Texts, changes: Document,
    settings: Texts, prefix: str = "--",
) -> tuple[Tuning, str]:  # fmt: skip
    """Return a tuning and the text of its tune file.

    Without `vary`, `what` is the path of the tune file. With `vary`, `what` is a scenario file or preset, and the
    other options declare the tuning. `changes` replace top-level keys of the tune file; `settings` change the base
    scenario. Raise `StudyError` with all mistakes. Messages name an option with `prefix` before its name.
    """
    path = Path(what)
    if vary:
        return _declared(what, vary, aim, bounds, conditions, changes, settings, prefix)
    given = {f"{prefix}aim": aim, _bounds_option(prefix): bounds, f"{prefix}condition": conditions}
    rule = f"needs {prefix}vary; without it, write this into the tune file"
    alone = [f"{name} {rule}" for name, each in given.items() if each]
    if str(path) in preset_names() and not path.exists():
        both = f"{prefix}vary SECTION.KEY=VALUES and {prefix}aim FIGURE"
        alone.append(f"{path}: is a preset; add what to search: {both}")
    if alone:
        raise StudyError(alone)
    return load_tuning(path, changes).changed((), settings, None, None, _names(prefix)), read_text(path)


def _names(prefix: str) -> tuple[str, str]:
    """Return the names for `Study.changed`: options, or parameters of the Python function if `prefix` is empty."""
    return ("--axis", "--set") if prefix else ("axes", "overrides")


def _bounds_option(prefix: str) -> str:
    """Return the name of the option for bounds: `--bound`, or `bounds` of the Python function if `prefix` is
    empty.
    """
    return f"{prefix}bound" if prefix else "bounds"


def _declared(
    scenario: str, vary: Texts, aim: str | None, bounds: Sequence[str], conditions: Texts, changes: Document,
    settings: Texts, prefix: str,
) -> tuple[Tuning, str]:  # fmt: skip
    """Return the tuning that options declare, and the text of its tune file. The tuning's name has the name of the
    scenario and a hash of the options.
    """
    problems: list[str] = []
    document: Document = {**changes}
    if aim is None:
        problems.append(f"{prefix}vary needs {prefix}aim FIGURE, the metric to optimise")
    else:
        document["aim"] = aim
    try:
        file, preset = find_scenario(scenario)
        document["base"] = {"preset": preset} if file is None else {"file": str(file.absolute())}
    except ScenarioError as error:
        problems += error.problems
    document["axes"] = [_axis(f"{prefix}vary", key, values, problems) for key, values in vary]
    if len(conditions) > 1:
        problems.append(f"{prefix}condition: must be one key, not {len(conditions)}")
    for key, values in conditions:
        document["conditions"] = _axis(f"{prefix}condition", key, values, problems)
    bounded: dict[str, dict[str, object]] = {}
    for text in bounds:
        found = _BOUND.fullmatch(text)
        if found is None:
            problems.append(
                f"{_bounds_option(prefix)} {_on_one_line(text)}: "
                "write it as FIGURE<=NUMBER or FIGURE>=NUMBER, optionally with a judge: mean, interval, p90 or worst"
            )
            continue
        figure, relation, number, judge = found.groups()
        bound = bounded.setdefault(figure, {})
        bound["at_most" if relation == "<=" else "at_least"] = _number(number)
        if judge is not None:
            bound["judge"] = judge
    if bounded:
        document["bounds"] = bounded
    if problems:
        raise StudyError(problems)
    text = tomli_w.dumps(document)
    asked = text + "\n".join(f"{key}={value}" for key, value in settings)
    name = f"{Path(scenario).stem}-{sha256(asked.encode()).hexdigest()[:8]}"
    key_lines = KeyLines("the tuning", {})
    table = checked(document, key_lines, TuneFile, Path())
    return _tuning(table, key_lines, Path(), name).changed((), settings, None, None, _names(prefix)), text


def _axis(option: str, key: str, values: str, problems: list[str]) -> Document:
    said = f"{option} {_on_one_line(f'{key}={values}')}"
    found = _RANGE.fullmatch(values)
    if found is not None:
        first, last, step = (_number(number or "1") for number in found.groups())
        if first >= last or step <= 0:
            problems.append(f"{said}: write a range in ascending order, such as 4..12 or 0..1..0.1")
        return {"key": key, "from": first, "to": last, "step": step}
    listed = parse_value(values)
    if not isinstance(listed, list) or not listed:
        problems.append(f"{said}: write the values as an array, [1, 2], or as a range, 4..12 or 0..1..0.1")
    return {"key": key, "values": listed}


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else shown_value(text)


def _number(text: str) -> int | Decimal:
    return Decimal(text) if "." in text else int(text)
