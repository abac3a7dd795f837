"""Budgets: figures that must stay within bounds, for those who change a router and do not want to find out later.

    seeds = 10

    [[cases]]
    name = "blocks over home uplinks"
    base = { preset = "ethereum-blocks" }

    [cases.budgets]
    latency_p99_ms = { at_most = 4000 }
    copies_per_delivery = { at_most = 8 }
    delivery_ratio = { at_least = 0.999, judge = "worst" }     # of all seeds; "mean" without

The seeds are the same every time, so a budget breaks because something changed, never by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearsay.studies.axes import axis_of_values
from hearsay.studies.base import Base
from hearsay.studies.checked_toml import Table
from hearsay.studies.errors import StudyError
from hearsay.studies.figures import BY_NAME, HeadlineFigure
from hearsay.studies.one_run import Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.study_file import ENGINES, MOST_CORES, Study, read_seeds
from hearsay.studies.tables import values_at

JUDGES = ("mean", "worst")


@dataclass(frozen=True, slots=True)
class Budget:
    case: str
    figure: HeadlineFigure
    at_least: float | None
    at_most: float | None
    judge: str


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    base: Base
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A budget and what was measured; no value if no run has the figure."""

    budget: Budget
    value: float | None
    mean: Mean | None
    failures: int
    """Runs of the case that failed: the budget does not hold then, whatever the others say."""

    @property
    def excess(self) -> float:
        """How far the value lies outside, 0 within."""
        if self.value is None:
            return 0.0
        below = self.budget.at_least - self.value if self.budget.at_least is not None else 0.0
        above = self.value - self.budget.at_most if self.budget.at_most is not None else 0.0
        return max(0.0, below, above)

    @property
    def held(self) -> bool:
        return self.value is not None and self.excess == 0 and not self.failures


def load_budgets(path: Path) -> tuple[Study, list[Point], list[Case]]:
    """The cases of a file, and their runs as a study with a point for each."""
    table = Table.of_file(path)
    title = table.text("title", path.stem)
    seeds = read_seeds(table, "seeds", 10)
    engine = table.text("engine", "auto", ENGINES)
    cores = table.integer("cores_per_task", 1, 1, MOST_CORES)
    cases = [_case(case, path.parent) for case in table.tables("cases")]
    table.finish()
    if not cases and not table.problems:
        table.lacks("has no [[cases]]")
    names = [case.name for case in cases]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        table.lacks(f"two cases have the name {twice!r}")
    points: list[Point] = []
    for number, case in enumerate(cases):
        try:
            points.append(point_of(case.base.scenario(), seeds, (number,)))
        except StudyError as error:
            table.problems += error.problems
    if table.problems:
        raise StudyError(table.problems)
    axis = axis_of_values("case", names, "")
    return Study(path.stem, title, "", Base(), (axis,), seeds, engine, cores), points, cases


def judge(cases: Sequence[Case], points: Sequence[Point], results: Mapping[str, Row]) -> list[Judgement]:
    found: list[Judgement] = []
    for case, point in zip(cases, points, strict=True):
        failures = sum(results[run]["error"] is not None for run in point.runs if run in results)
        for budget in case.budgets:
            values = values_at(point, results, budget.figure.name)
            mean = mean_of(values)
            value = None if mean is None else mean.mean
            if mean is not None and budget.judge == "worst":
                value = min(values) if budget.at_least is not None else max(values)
            found.append(Judgement(budget, value, mean, failures))
    return found


def _case(table: Table, folder: Path) -> Case:
    name = table.text("name")
    if not name:
        table.lacks("needs a name")
    base = Base.read(table.table("base"), folder)
    budgets_table = table.table("budgets")
    budgets: list[Budget] = []
    for key in budgets_table.values:
        if key in BY_NAME:
            budgets.append(_budget(name, key, budgets_table.table(key)))
        else:
            budgets_table.wrong(f"no such figure; there are {', '.join(BY_NAME)}", key)
    if not budgets_table.values:
        table.lacks("needs budgets, such as budgets.latency_p99_ms = { at_most = 500 }")
    table.finish()
    return Case(name, base, tuple(budgets))


def _budget(case: str, name: str, table: Table) -> Budget:
    at_least, at_most = table.number("at_least"), table.number("at_most")
    way = table.text("judge", "mean", JUDGES)
    if at_least is None and at_most is None:
        table.lacks("needs at_least or at_most")
    if at_least is not None and at_most is not None:
        if at_least > at_most:
            table.wrong(f"must not be above at_most ({at_most})", "at_least")
        if way == "worst":
            table.wrong("needs at_least or at_most, not both: which end is the worst?", "judge")
    table.finish()
    low = None if at_least is None else float(at_least)
    return Budget(case, BY_NAME[name], low, None if at_most is None else float(at_most), way)
