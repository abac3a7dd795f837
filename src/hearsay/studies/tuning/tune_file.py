"""The declaration of a tuning, as a file or as options: base scenario, axes, a metric to optimise and bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import ConfigDict, Field, PlainValidator, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.metrics import Metric
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import find_scenario, preset_names
from hearsay.sim.scenario.tables import read_text
from hearsay.sim.scenario.toml_text import Document, parse_value
from hearsay.sim.scenario.values import broken, integer_in
from hearsay.studies.axes import Axes, Axis, AxisTable, Base, BaseTable, Setting, Texts
from hearsay.studies.budgets import BoundsOfFigures, Budget
from hearsay.studies.checked_file import KeyLines, StudyError, checked, read_checked
from hearsay.studies.comparison import LAST_FIRST_SEED
from hearsay.studies.packs import BY_NAME
from hearsay.studies.study_file import RunsFile, Seeds, Study
from hearsay.text.escape import shown_value

MOST_FRESH_SEEDS = 10_000
MOST_RUNS = 1_000_000
MOST_FINAL_SEEDS = 1_000_000
LAST_SEED = LAST_FIRST_SEED - 2 * MOST_FRESH_SEEDS - MOST_FINAL_SEEDS
FINALISTS = 5
"""Number of best points that may get more seeds."""
_TIMES_SEEDS = 4
"""Default of `final_seeds`, as a multiple of `seeds`."""
CONFIRMATIONS = 3
"""Number of best points that may run with fresh seeds."""
_AIMS = tuple(figure.name for figure in BY_NAME.values() if figure.better)


@dataclass(frozen=True, slots=True)
class Tuning:
    name: str
    title: str
    base: Base
    axes: tuple[Axis, ...]
    conditions: Axis | None
    aim: Metric
    bounds: tuple[Budget, ...]
    seeds: tuple[int, ...]
    fresh_seeds: tuple[int, ...]
    """Seeds that measure the answer; the search has not used them."""
    final_seeds: tuple[int, ...]
    """Additional seeds of the best points, used while these do not differ significantly on `seeds`."""
    runs: int
    search_seed: int
    engine: str
    cores_per_task: int

    @property
    def combinations(self) -> int:
        return prod(len(axis.steps) for axis in self.axes)

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the names of the aim and of the bounded metrics, each once."""
        return tuple(dict.fromkeys([self.aim.name, *(bound.figure.name for bound in self.bounds)]))

    @property
    def never_seen_seed(self) -> int:
        """Return the first seed that neither the search nor its confirmation uses."""
        return max(*self.seeds, *self.fresh_seeds, *self.final_seeds) + 1

    @property
    def study(self) -> Study:
        """Return the tuning as a study, whose axes are the conditions, if any, and the searched axes."""
        axes = (*((self.conditions,) if self.conditions else ()), *self.axes)
        return Study(
            self.name, self.title, "", self.base, axes, self.seeds, self.engine, self.cores_per_task
        )  # fmt: skip

    def with_settings(self, settings: Sequence[Setting]) -> Tuning:
        return replace(self, base=self.base.with_settings(settings))

    def better(self, value: float) -> float:
        """Return a value of the aim, negated if more is better: the lowest is always the best."""
        return -value if self.aim.better == "more" else value


def _aim(value: object) -> str:
    if value not in _AIMS:
        raise broken(f"must be one of {', '.join(_AIMS)}")
    return str(value)


AimName = Annotated[str, PlainValidator(_aim, json_schema_input_type=Literal[*_AIMS])]


class TuneFile(RunsFile):
    """A tuning: axes that are searched for the best value of a metric, within bounds on others."""

    model_config = ConfigDict(json_schema_extra={"required": ["aim", "axes"]})

    aim: AimName
    """The metric to optimise: minimised, or maximised if more is better."""
    base: BaseTable = BaseTable()
    """The scenario that all runs start from: a preset or a file, and keys of a scenario."""
    axes: Axes = ()
    """Axes of the search. Combinations that are not a valid scenario are skipped."""
    bounds: BoundsOfFigures = Field(default={})
    """Bounds of metrics, by name."""
    conditions: AxisTable | None = None
    """An axis that you cannot choose, such as churn; each of its steps gets its own answer."""
    seeds: Seeds = tuple(range(1, 13))
    """Maximum seeds of a point: a number of seeds from 1, or an array; points that cannot win get fewer."""
    fresh_seeds: Annotated[int, integer_in(2, MOST_FRESH_SEEDS)] = 20
    """Number of fresh seeds that measure the best point."""
    final_seeds: Annotated[int, integer_in(2, MOST_FINAL_SEEDS)] | None = None
    """Maximum seeds of the best points, while they do not differ significantly; default: four times `seeds`."""
    runs: Annotated[int, integer_in(10, MOST_RUNS)] = 400
    """Maximum runs of the search in each condition, without the finals."""
    search_seed: Annotated[int, integer_in(0, (1 << 32) - 1)] = 1
    """Random seed of the search."""

    @field_validator("seeds")
    @classmethod
    def _several_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(seeds) < 2:
            raise broken("must be two seeds or more: one says nothing about chance")
        if max(seeds) > LAST_SEED:
            raise broken(f"must be up to {LAST_SEED}: fresh seeds come after them")
        return seeds

    def cross_rules(self) -> Iterator[Violation]:
        if self.final_seeds is not None and self.final_seeds < len(self.seeds):
            yield Violation("final_seeds", self.final_seeds, f"must not be below seeds ({len(self.seeds)})")
        if not self.axes:
            yield Violation("", None, "has no [[axes]]: what may change?")
        searched = {key for axis in self.axes for key in axis.own_keys}
        for key in self.conditions.own_keys if self.conditions else ():
            if key in searched:
                yield Violation("conditions", None, f"{key} is on an axis that is searched, too")


def load_tuning(path: Path, changes: Document | None = None) -> Tuning:
    """Read a tuning. Raise `StudyError` with a line for each mistake.

    `changes` replace top-level keys of the file.
    """
    file, key_lines = read_checked(path, TuneFile, changes)
    return _tuning(file, key_lines, path.parent, path.stem)


def _tuning(file: TuneFile, key_lines: KeyLines, folder: Path, name: str) -> Tuning:
    fresh = tuple(range(max(file.seeds) + 1, max(file.seeds) + 1 + file.fresh_seeds))
    finals = _TIMES_SEEDS * len(file.seeds) if file.final_seeds is None else file.final_seeds
    return Tuning(
        name=name,
        title=name if file.title is None else file.title,
        base=Base.of(file.base, folder, key_lines, "base"),
        axes=tuple(axis.axis(key_lines, "axes", number) for number, axis in enumerate(file.axes)),
        conditions=None if file.conditions is None else file.conditions.axis(key_lines, "conditions"),
        aim=BY_NAME[file.aim],
        bounds=tuple(table.budget("", figure) for figure, table in file.bounds.items()),
        seeds=file.seeds,
        fresh_seeds=fresh,
        final_seeds=tuple(range(max(fresh) + 1, max(fresh) + 1 + finals - len(file.seeds))),
        runs=file.runs,
        search_seed=file.search_seed,
        engine=file.engine,
        cores_per_task=file.cores_per_task,
    )


_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?")
_BOUND = re.compile(rf"(\w+)\s*(<=|>=)\s*({_NUMBER})(?:\s+(\w+))?")


@dataclass(frozen=True, slots=True)
class DeclarationNames:
    """Names that error messages use for the parts of a declaration, such as options."""

    vary: str
    aim: str
    bound: str
    condition: str


OPTIONS = DeclarationNames("--vary", "--aim", "--bound", "--condition")


def asked_tuning(
    what: str, vary: Texts, aim: str | None, bounds: Sequence[str], conditions: Texts, changes: Document,
    settings: Texts, said: DeclarationNames = OPTIONS,
) -> tuple[Tuning, str]:  # fmt: skip
    """Return a tuning and the text of its file: `what` is a tune file, or with `vary` a scenario.

    `changes` replace top-level keys of the file, `settings` keys of the base scenario. Raise `StudyError` with all
    mistakes.
    """
    path = Path(what)
    if vary:
        return _declared(what, vary, aim, bounds, conditions, changes, settings, said)
    given = {said.aim: aim, said.bound: bounds, said.condition: conditions}
    rule = f"needs {said.vary}: a tune file has it already"
    alone = [f"{name} {rule}" for name, each in given.items() if each]
    if str(path) in preset_names() and not path.exists():
        both = f"{said.vary} SECTION.KEY=VALUES and {said.aim} FIGURE"
        alone.append(f"{path}: is a preset; add what to search: {both}")
    if alone:
        raise StudyError(alone)
    return load_tuning(path, changes).with_settings(settings), read_text(path)


def _declared(
    scenario: str, vary: Texts, aim: str | None, bounds: Sequence[str], conditions: Texts, changes: Document,
    settings: Texts, said: DeclarationNames,
) -> tuple[Tuning, str]:  # fmt: skip
    """Return a tuning, named after scenario and request, and the text of its file."""
    problems: list[str] = []
    document: Document = {**changes}
    if aim is None:
        problems.append(f"{said.vary} needs {said.aim} FIGURE: what is to be best?")
    else:
        document["aim"] = aim
    try:
        file, preset = find_scenario(scenario)
        document["base"] = {"preset": preset} if file is None else {"file": str(file.absolute())}
    except ScenarioError as error:
        problems += error.problems
    document["axes"] = [_axis(said.vary, key, values, problems) for key, values in vary]
    if len(conditions) > 1:
        problems.append(f"{said.condition}: must be one key, not {len(conditions)}")
    for key, values in conditions:
        document["conditions"] = _axis(said.condition, key, values, problems)
    bounded: dict[str, dict[str, object]] = {}
    for text in bounds:
        found = _BOUND.fullmatch(text)
        if found is None:
            problems.append(
                f"{said.bound} {_on_one_line(text)}: "
                "write it as FIGURE<=NUMBER or FIGURE>=NUMBER, perhaps with a judge: worst"
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
    key_lines = KeyLines("what is asked", {})
    table = checked(document, key_lines, TuneFile, Path())
    return _tuning(table, key_lines, Path(), name).with_settings(settings), text


def _axis(option: str, key: str, values: str, problems: list[str]) -> Document:
    said = f"{option} {_on_one_line(f'{key}={values}')}"
    found = _RANGE.fullmatch(values)
    if found is not None:
        first, last, step = (_number(number or "1") for number in found.groups())
        if first >= last or step <= 0:
            problems.append(f"{said}: write a range from the least to the most, 4..12 or 0..1..0.1")
        return {"key": key, "from": first, "to": last, "step": step}
    listed = parse_value(values)
    if not isinstance(listed, list) or not listed:
        problems.append(f"{said}: write the values as an array, [1, 2], or as a range, 4..12 or 0..1..0.1")
    return {"key": key, "values": listed}


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else shown_value(text)


def _number(text: str) -> int | Decimal:
    return Decimal(text) if "." in text else int(text)
