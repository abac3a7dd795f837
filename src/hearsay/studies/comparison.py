"""Two scenarios side by side: per figure how far they differ, and a verdict that holds for all figures together.

Rules:

* Paired by default: both sides run with the same seeds. A seed of which one side has no figure counts on neither.
* The verdicts of all figures together call a difference where there is none in at most 5 of 100 comparisons.
* "Would see" is the least difference that would be seen in 80 of 100 such comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hearsay.metrics import Metric
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import find_scenario
from hearsay.studies.axes import axis_of_values
from hearsay.studies.base import Base
from hearsay.studies.errors import StudyError
from hearsay.studies.figures import BY_NAME, COMPARED
from hearsay.studies.one_run import Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.statistics import Difference, holm, paired, unpaired
from hearsay.studies.study_file import Study
from hearsay.studies.tables import values_by_seed

MOST_SEEDS = 10_000
LAST_FIRST_SEED = 10**15


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    """The same on every seed."""
    UNDETECTED = "no difference detectable"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure of both sides; B's against A's."""

    figure: Metric
    difference: Difference | None
    verdict: Verdict
    detectable: float
    """The least difference that would be seen, in the figure's own unit."""
    by_itself: bool = False
    """Undetected among all figures, but this one's own interval leaves 0 out."""
    means: tuple[float | None, float | None] = (None, None)
    """Each side's own, where there is no difference to be told as the other side has too few seeds."""


def side(name: str) -> Base:
    """A scenario by the path of its file, or by the name of a preset."""
    try:
        return Base(*find_scenario(name))
    except ScenarioError as error:
        raise StudyError(error.problems) from None


def sides(
    a: Base, b: Base, names: tuple[str, str], seeds: int, *, same_seeds: bool, engine: str, first_seed: int = 1
) -> tuple[Study, list[Point]]:
    """The runs of both sides, as a study of two points."""
    first = tuple(range(first_seed, first_seed + seeds))
    second = first if same_seeds else tuple(range(first_seed + seeds, first_seed + 2 * seeds))
    axis = axis_of_values("side", names if names[0] != names[1] else ("A", "B"), "")
    study = Study(f"{names[0]} and {names[1]}", f"{names[0]} and {names[1]}", "", a, (axis,), first, engine)
    return study, [point_of(a.scenario(), first, (0,)), point_of(b.scenario(), second, (1,))]


def compare(
    points: Sequence[Point], results: Mapping[str, Row], figures: Sequence[str] = COMPARED
) -> list[FigureComparison]:
    """Figure by figure, as they are named, without those that only other scenarios have."""
    a, b = points
    figures = [
        name
        for name in figures
        if not BY_NAME[name].optional or values_by_seed(a, results, name) or values_by_seed(b, results, name)
    ]
    differences = [_difference(a, b, results, name) for name in figures]
    known = [difference for difference in differences if difference is not None]
    calls = iter(holm([difference.p for difference in known]))
    found: list[FigureComparison] = []
    for name, difference in zip(figures, differences, strict=True):
        figure = BY_NAME[name]
        if difference is None:
            means = _mean(a, results, name), _mean(b, results, name)
            found.append(FigureComparison(figure, None, Verdict.UNKNOWN, 0.0, means=means))
            continue
        called = next(calls)
        least = difference.detectable(len(known))
        verdict = _verdict(figure, difference, called)
        alone = verdict is Verdict.UNDETECTED and not difference.low <= 0 <= difference.high
        found.append(FigureComparison(figure, difference, verdict, least, alone))
    return found


def _difference(a: Point, b: Point, results: Mapping[str, Row], name: str) -> Difference | None:
    values_a, values_b = values_by_seed(a, results, name), values_by_seed(b, results, name)
    if a.seeds == b.seeds:
        both = [seed for seed in a.seeds if seed in values_a and seed in values_b]
        values_a, values_b = {seed: values_a[seed] for seed in both}, {seed: values_b[seed] for seed in both}
    if min(len(values_a), len(values_b)) < 2:
        return None
    method = paired if a.seeds == b.seeds else unpaired
    return method(list(values_a.values()), list(values_b.values()))


def _mean(point: Point, results: Mapping[str, Row], name: str) -> float | None:
    values = values_by_seed(point, results, name).values()
    return sum(values) / len(values) if values else None


def _verdict(figure: Metric, difference: Difference, called: bool) -> Verdict:
    if called:
        more = difference.estimate > 0
        return Verdict.BETTER if more == (figure.better == "more") else Verdict.WORSE
    if difference.constant and not difference.estimate:
        return Verdict.EQUAL
    return Verdict.UNDETECTED
