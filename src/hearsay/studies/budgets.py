"""Budgets: bounds of metrics, and the text about metrics that keep or break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainValidator, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.metrics import Metric
from hearsay.sim.scenario.values import Number, Text, broken, one_of, violated
from hearsay.studies.axes import Base, BaseTable, axis_of_values
from hearsay.studies.checked_file import FileTable, StudyError, read_checked
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.study_file import RunsFile, Seeds, Study
from hearsay.studies.tables import values_at
from hearsay.text.numbers import DIGITS, apart, between, points, relative, shown

CRITERIA = ("mean", "interval", "p90", "worst")


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of a metric in one case. `judge`, one of `CRITERIA`, selects the value that must be within them."""

    case: str
    figure: Metric
    at_least: float | None
    at_most: float | None
    judge: str

    def excess(self, value: float) -> float:
        """Return how far a value is outside the bounds; 0 within them."""
        below = self.at_least - value if self.at_least is not None else 0.0
        above = value - self.at_most if self.at_most is not None else 0.0
        return max(0.0, below, above)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    base: Base
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A budget and its measured value, which is None if no run has the metric."""

    budget: Budget
    value: float | None
    mean: Mean | None
    failures: int
    """Number of failed runs of the case. The budget counts as broken if a run failed."""

    @property
    def excess(self) -> float:
        """Return how far the value is outside the bounds; 0 within them."""
        return 0.0 if self.value is None else self.budget.excess(self.value)

    @property
    def held(self) -> bool:
        return self.value is not None and self.excess == 0 and not self.failures


def _figure(name: object) -> str:
    if not isinstance(name, str) or name not in BY_NAME:
        raise broken(f"no such figure; there are {', '.join(BY_NAME)}")
    return name


FigureName = Annotated[str, PlainValidator(_figure, json_schema_input_type=Literal[*BY_NAME])]


class BudgetTable(FileTable):
    """The bounds of a figure: at_least, at_most, or both."""

    at_least: Number | None = None
    """The figure must not be below this."""
    at_most: Number | None = None
    """The figure must not be above this."""
    judge: Annotated[str, one_of(CRITERIA)] = "mean"
    """The value to keep within the bounds: mean of all seeds, its 95 % interval, nine of ten seeds, or worst seed."""

    def cross_rules(self) -> Iterator[Violation]:
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            yield Violation("", None, "needs at_least or at_most")
        if low is not None and high is not None:
            if low > high:
                yield Violation("at_least", low, f"must not be above at_most ({high})")
            if self.judge != "mean":
                rule = "needs at_least or at_most, not both: which end is the worst?"
                yield Violation("judge", self.judge, rule)

    def budget(self, case: str, figure: str) -> Budget:
        low, high = (None if bound is None else float(bound) for bound in (self.at_least, self.at_most))
        return Budget(case, BY_NAME[figure], low, high, self.judge)


def _with_meanings(schema: dict[str, Any]) -> None:
    """Add each metric and its meaning to the schema, for editors."""
    budget = schema.pop("additionalProperties")
    del schema["propertyNames"]
    schema["properties"] = {name: {**budget, "description": figure.meaning} for name, figure in BY_NAME.items()}
    schema["additionalProperties"] = False


BoundsOfFigures = Annotated[dict[FigureName, BudgetTable], Field(json_schema_extra=_with_meanings)]


class CaseTable(FileTable):
    """[[cases]] – a scenario, and the bounds of its figures."""

    model_config = ConfigDict(json_schema_extra={"required": ["name", "budgets"]})

    name: Text
    """Name of the case in the output."""
    base: BaseTable = BaseTable()
    """The scenario: a preset or a file, and keys of a scenario."""
    budgets: BoundsOfFigures = Field(default={}, validate_default=True)
    """Bounds of figures, by their names."""

    @field_validator("budgets")
    @classmethod
    def _some_figure(cls, budgets: dict[str, BudgetTable]) -> dict[str, BudgetTable]:
        if not budgets:
            raise broken("needs a figure, such as latency_p99_ms = { at_most = 500 }")
        return budgets


class BudgetFile(RunsFile):
    """Budgets: figures of scenarios that must stay within bounds."""

    seeds: Seeds = tuple(range(1, 11))
    """Number of seeds, from 1, or an array of seeds; each case runs with every seed."""
    cases: tuple[CaseTable, ...] = ()
    """Scenarios with their budgets."""

    @field_validator("cases")
    @classmethod
    def _different_names(cls, cases: tuple[CaseTable, ...]) -> tuple[CaseTable, ...]:
        names = [case.name for case in cases]
        twice = [number for number, name in enumerate(names) if name in names[:number]]
        if twice:
            rule = "another case has this name"
            raise violated(tuple(Violation(f"{number}.name", names[number], rule) for number in twice))
        return cases

    def cross_rules(self) -> Iterator[Violation]:
        if not self.cases:
            yield Violation("", None, "has no [[cases]]")


def load_budgets(path: Path) -> tuple[Study, list[Point], list[Case]]:
    """Return a file's cases, and their runs as a study with a point for each case."""
    file, key_lines = read_checked(path, BudgetFile)
    cases: list[Case] = []
    points: list[Point] = []
    problems: list[str] = []
    for number, table in enumerate(file.cases):
        base = Base.of(table.base, path.parent, key_lines, "cases", number, "base")
        budgets = tuple(budget.budget(table.name, figure) for figure, budget in table.budgets.items())
        cases.append(Case(table.name, base, budgets))
        try:
            points.append(point_of(base.scenario(), file.seeds, (number,)))
        except StudyError as error:
            problems += error.problems
    if problems:
        raise StudyError(problems)
    axis = axis_of_values("case", [case.name for case in cases], "")
    title = path.stem if file.title is None else file.title
    study = Study(path.stem, title, "", Base(), (axis,), file.seeds, file.engine, file.cores_per_task)
    return study, points, cases


def judge(cases: Sequence[Case], points: Sequence[Point], results: Mapping[str, Row]) -> list[Judgement]:
    return [
        judged(budget, point, results)
        for case, point in zip(cases, points, strict=True)
        for budget in case.budgets
    ]  # fmt: skip


def judged(budget: Budget, point: Point, results: Mapping[str, Row]) -> Judgement:
    """Return the judgement of a budget, measured by the finished runs of a point."""
    failures = sum(results[run]["error"] is not None for run in point.runs if run in results)
    values = values_at(point, results, budget.figure.name)
    mean = mean_of(values)
    return Judgement(budget, None if mean is None else _judged_value(budget, values, mean), mean, failures)


def _judged_value(budget: Budget, values: Sequence[float], mean: Mean) -> float:
    falling = budget.at_least is not None
    match budget.judge:
        case "worst":
            return min(values) if falling else max(values)
        case "p90":
            return sorted(values, reverse=falling)[ceil(len(values) * 9 / 10) - 1]
        case "interval" if mean.low is not None and mean.high is not None:
            return mean.low if falling else mean.high
        case _:
            return mean.mean


def judged_words(judged: Judgement) -> str:
    """Return the result in a line: "broken: CASE: p99 latency is 450 ms, 12.5 % above the 400 ms allowed (…)"."""
    budget = judged.budget
    name = f"{budget.case}: {budget.figure.title}"
    if judged.failures:
        return f"broken: {name}: {judged.failures} of its runs failed"
    if judged.value is None or judged.mean is None:
        return f"broken: {name}: not measured, nothing was there to count"
    form = budget.figure.form
    known = [bound for bound in (budget.at_least, budget.at_most) if bound is not None]
    value, *bounds_said = apart([judged.value, *known], form)
    said = dict(zip(known, bounds_said, strict=True))
    if judged.held:
        return f"held: {name} is {value}, allowed {_allowed(budget, said)} ({_basis(judged)})"
    above = budget.at_most is not None and judged.value > budget.at_most
    bound = budget.at_most if above else budget.at_least
    assert bound is not None
    direction = "above" if above else "below"
    excess = f"{_excess(judged, bound)} {direction} the {said[bound]} allowed"
    return f"broken: {name} is {value}, {excess} ({_basis(judged)})"


def allowed_words(budget: Budget) -> str:
    """Return the bounds of a budget in words: "at least 1 and at most 6"."""
    known = [bound for bound in (budget.at_least, budget.at_most) if bound is not None]
    return _allowed(budget, {bound: shown(bound, budget.figure.form) for bound in known})


def _allowed(budget: Budget, said: Mapping[float, str]) -> str:
    bounds = (("least", budget.at_least), ("most", budget.at_most))
    return " and ".join(f"at {word} {said[bound]}" for word, bound in bounds if bound is not None)


def _excess(judged: Judgement, bound: float) -> str:
    form = judged.budget.figure.form
    if form == "percent":
        return points(judged.excess)
    return relative(judged.excess / abs(bound), DIGITS) if bound else shown(judged.excess, form)


def _basis(judged: Judgement) -> str:
    mean, form = judged.mean, judged.budget.figure.form
    assert mean is not None
    if judged.budget.judge == "worst":
        return f"worst of {mean.seeds} seeds"
    if judged.budget.judge == "p90":
        return f"the worst that nine of ten of {mean.seeds} seeds have"
    if mean.low is None or mean.high is None:
        return "one seed"
    if mean.low == mean.high:
        return f"the same on {mean.seeds} seeds"
    if judged.budget.judge == "interval":
        return f"an end of the 95 % interval of {mean.seeds} seeds, whose mean is {shown(mean.mean, form)}"
    return f"mean of {mean.seeds} seeds, 95 % interval {between(mean.low, mean.high, form)}"
