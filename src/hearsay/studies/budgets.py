"""Budget files, and the judgement of runs by budgets. A budget file has cases. A case is a scenario with budgets; a
budget is the bounds of one metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.metrics import Metric
from hearsay.number_text import DIGITS, apart, between, points, relative, text_of
from hearsay.sim.scenario.values import Number, Text, broken, one_of, violated
from hearsay.studies.axes import Base, BaseTable, axis_of_values
from hearsay.studies.checked_file import FileTable, all_of, read_checked
from hearsay.studies.packs import BY_NAME, Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.results import values_at
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.study_file import RunsFile, Seeds, Study

CRITERIA = ("mean", "interval", "p90", "worst")
"""The values of `judge`: the mean over seeds, the worse end of its 95 % interval, the worst value of the best nine in
ten seeds, and the worst value. With one seed, `interval` is like `mean`.
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """The bounds of a metric in one case; None is no bound. `judge`, one of `CRITERIA`, selects the value that must
    be within the bounds.
    """

    case: str
    figure: Metric
    at_least: float | None
    at_most: float | None
    judge: str

    @property
    def bounds(self) -> dict[str, float]:
        """Return the bounds that are not None, by their names `at_least` and `at_most`."""
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def excess(self, value: float) -> float:
        """Return the distance of a value from the bound that it breaks, in the metric's unit; 0 if it breaks none."""
        below = self.at_least - value if self.at_least is not None else 0.0
        above = value - self.at_most if self.at_most is not None else 0.0
        return max(0.0, below, above)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A budget with the result of the runs of its case."""

    budget: Budget
    value: float | None
    """The value that must be within the bounds; None if no successful run has the metric."""
    mean: Mean | None
    """The mean of the metric over seeds; None if no successful run has the metric."""
    failures: int
    """Number of failed runs of the case. If it is not 0, the budget is broken."""

    @property
    def excess(self) -> float:
        """Return the distance of the value from the bound that it breaks; 0 if it breaks none, or if it is None."""
        return 0.0 if self.value is None else self.budget.excess(self.value)

    @property
    def held(self) -> bool:
        """Return True if the value is known and within the bounds, and no run failed."""
        return self.value is not None and self.excess == 0 and not self.failures


class BudgetTable(FileTable):
    """The bounds of a metric: at_least, at_most, or both."""

    at_least: Number | None = None
    """The smallest value that is allowed."""
    at_most: Number | None = None
    """The largest value that is allowed."""
    judge: Annotated[str, one_of(CRITERIA)] = "mean"
    """The value that must be within the bounds: the mean over seeds (mean), the worse end of its 95 % interval
    (interval), the worst value of the best nine in ten seeds (p90), or the worst value (worst).
    """

    def cross_rules(self) -> Iterator[Violation]:
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            yield Violation("", None, "needs at_least or at_most")
        if low is not None and high is not None:
            if low > high:
                yield Violation("at_least", low, f"must not be above at_most ({high})")
            if self.judge != "mean":
                rule = "needs either at_least or at_most, not both; only mean allows both"
                yield Violation("judge", self.judge, rule)

    def budget(self, case: str, figure: str) -> Budget:
        low, high = (None if bound is None else float(bound) for bound in (self.at_least, self.at_most))
        return Budget(case, BY_NAME[figure], low, high, self.judge)


def _with_meanings(schema: dict[str, Any]) -> None:
    """Replace the schema that all metrics share by a schema for each metric. Its description, which editors show, is
    the meaning of the metric.
    """
    budget = schema.pop("additionalProperties")
    del schema["propertyNames"]
    schema["properties"] = {name: {**budget, "description": figure.meaning} for name, figure in BY_NAME.items()}
    schema["additionalProperties"] = False


FigureName = Annotated[str, one_of(BY_NAME)]
BoundsOfFigures = Annotated[dict[FigureName, BudgetTable], Field(json_schema_extra=_with_meanings)]


class CaseTable(FileTable):
    """[[cases]]: a scenario, and the bounds of its metrics."""

    model_config = ConfigDict(json_schema_extra={"required": ["name", "budgets"]})

    name: Text
    """Name of the case in the output."""
    base: BaseTable = BaseTable()
    """The scenario: a preset or a file, and keys of a scenario with other values."""
    budgets: BoundsOfFigures = Field(default={}, validate_default=True)
    """The bounds of each metric, by the name of the metric."""

    @field_validator("budgets")
    @classmethod
    def _some_figure(cls, budgets: dict[str, BudgetTable]) -> dict[str, BudgetTable]:
        if not budgets:
            raise broken("needs a metric, such as latency_p99_ms = { at_most = 500 }")
        return budgets


class BudgetFile(RunsFile):
    """Budgets: scenarios whose metrics must stay within bounds."""

    seeds: Seeds = tuple(range(1, 11))
    """A number N for the seeds 1 to N, or an array of seeds. Each case runs with every seed."""
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


def load_budgets(path: Path) -> tuple[Study, list[Point], list[list[Budget]]]:
    """Return the study of a budget file, its points (one for each case), and the budgets of each point. Raise
    `StudyError` with a line for each mistake.
    """
    file, key_lines = read_checked(path, BudgetFile)
    bases = [
        Base.of(case.base, path.parent, key_lines, "cases", number, "base") for number, case in enumerate(file.cases)
    ]
    points = all_of(partial(point_of, base, file.seeds, (number,)) for number, base in enumerate(bases))
    budgets = [[table.budget(case.name, name) for name, table in case.budgets.items()] for case in file.cases]
    axis = axis_of_values("case", [case.name for case in file.cases], "")
    return file.study(Study, path.stem, Base(), (axis,), file.seeds), points, budgets


def judgements(
    budgets: Sequence[Sequence[Budget]], points: Sequence[Point], results: Mapping[str, Row]
) -> list[Judgement]:
    """Return the judgements of all budgets, in the order of points. `budgets` has a list of budgets for each
    point.
    """
    pairs = zip(budgets, points, strict=True)
    return [judged(budget, point, results) for of_point, point in pairs for budget in of_point]


def judged(budget: Budget, point: Point, results: Mapping[str, Row]) -> Judgement:
    """Return the judgement of a budget by the rows in `results` of the runs of a point. A missing row is ignored."""
    failures = sum(results[run]["error"] is not None for run in point.run_names if run in results)
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
    """Return a judgement as a line: "broken: CASE: p99 latency is 450 ms, 12.5 % above the 400 ms allowed (…)"."""
    budget = judged.budget
    name = f"{budget.case}: {budget.figure.title}"
    if judged.failures:
        return f"broken: {name}: {judged.failures} of its runs failed"
    if judged.value is None or judged.mean is None:
        return f"broken: {name}: not measured: no run has a value"
    form = budget.figure.form
    value, *bounds = apart([judged.value, *budget.bounds.values()], form)
    texts = dict(zip(budget.bounds, bounds, strict=True))
    if judged.held:
        return f"held: {name} is {value}, allowed {_allowed(texts)} ({_basis(judged)})"
    above = budget.at_most is not None and judged.value > budget.at_most
    bound, direction = ("at_most", "above") if above else ("at_least", "below")
    excess = f"{_excess(judged, budget.bounds[bound])} {direction} the {texts[bound]} allowed"
    return f"broken: {name} is {value}, {excess} ({_basis(judged)})"


def allowed_words(budget: Budget) -> str:
    """Return the bounds of a budget in words: "at least 1 and at most 6"."""
    return _allowed({name: text_of(bound, budget.figure.form) for name, bound in budget.bounds.items()})


def _allowed(texts: Mapping[str, str]) -> str:
    return " and ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


def _excess(judged: Judgement, bound: float) -> str:
    form = judged.budget.figure.form
    if form == "percent":
        return points(judged.excess)
    return relative(judged.excess / abs(bound), DIGITS) if bound else text_of(judged.excess, form)


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
        return f"an end of the 95 % interval of {mean.seeds} seeds, whose mean is {text_of(mean.mean, form)}"
    return f"mean of {mean.seeds} seeds, 95 % interval {between(mean.low, mean.high, form)}"
