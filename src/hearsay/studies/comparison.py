"""Comparison of two scenarios: the difference of each metric with a verdict, and the text about all differences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from hearsay.metrics import Metric
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import find_scenario
from hearsay.studies.axes import Base, axis_of_values
from hearsay.studies.checked_file import StudyError
from hearsay.studies.packs import BY_NAME, COMPARED, Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.settings import command_of
from hearsay.studies.statistics import Difference, holm, paired, unpaired
from hearsay.studies.study_file import Study
from hearsay.studies.tables import values_by_seed
from hearsay.text.numbers import SPACE, apart, interval, points, relative, shown

MOST_SEEDS = 10_000
LAST_FIRST_SEED = 10**15


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    """Both sides have the same value on every seed."""
    UNDETECTED = "no difference detectable"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A metric on both sides, and the difference of B from A."""

    figure: Metric
    difference: Difference | None
    verdict: Verdict
    detectable: float
    """The smallest difference that 80 of 100 such comparisons detect, in the metric's unit."""
    by_itself: bool = False
    """True if the metric's interval excludes 0, but the verdict, corrected for all metrics, is `UNDETECTED`."""
    means: tuple[float | None, float | None] = (None, None)
    """The mean of each side, if too few seeds allow no comparison; None without values."""


def figure_named(figures: Sequence[FigureComparison], name: str) -> FigureComparison:
    """Return the comparison of a metric. Raise `KeyError` with the names of all metrics if it was not compared."""
    by_name = {line.figure.name: line for line in figures}
    if name not in by_name:
        raise KeyError(f"no figure {name!r}; there are {', '.join(by_name)}")
    return by_name[name]


def side(name: str) -> Base:
    """Return a scenario, given by the path of its file or by the name of a preset. Raise `StudyError` if unknown."""
    try:
        return Base(*find_scenario(name))
    except ScenarioError as error:
        raise StudyError(error.problems) from None


def sides(
    a: Base,
    b: Base,
    names: tuple[str, str],
    seeds: int,
    *,
    same_seeds: bool,
    engine: str,
    first_seed: int = 1,
    between: Mapping[str, Base] = MappingProxyType({}),
) -> tuple[Study, list[Point]]:
    """Return a study and its points: A, the scenarios `between` (by name), and B.

    With `same_seeds`, all points have the same seeds; otherwise B has the seeds after those of A.
    """
    first = tuple(range(first_seed, first_seed + seeds))
    second = first if same_seeds else tuple(range(first_seed + seeds, first_seed + 2 * seeds))
    ends = names if names[0] != names[1] else ("A", "B")
    axis = axis_of_values("side", [ends[0], *between, ends[1]], "")
    study = Study(f"{names[0]} and {names[1]}", f"{names[0]} and {names[1]}", "", a, (axis,), first, engine)
    points = [point_of(base.scenario(), first, (step,)) for step, base in enumerate((a, *between.values()))]
    return study, [*points, point_of(b.scenario(), second, (len(points),))]


def compare(
    points: Sequence[Point], results: Mapping[str, Row], figures: Sequence[str] = COMPARED
) -> list[FigureComparison]:
    """Compare the first point with the last by these metrics, except optional ones that neither side has."""
    a, b = points[0], points[-1]
    figures = [
        name
        for name in figures
        if not BY_NAME[name].optional or values_by_seed(a, results, name) or values_by_seed(b, results, name)
    ]
    lines = judged([(BY_NAME[name], _difference(a, b, results, name)) for name in figures])
    return [
        replace(line, means=(_mean(a, results, line.figure.name), _mean(b, results, line.figure.name)))
        if line.difference is None
        else line
        for line in lines
    ]


def judged(differences: Sequence[tuple[Metric, Difference | None]]) -> list[FigureComparison]:
    """Return a verdict on each difference, corrected for their number by Holm's method: if no difference is real, 95
    of 100 calls of this function find none.
    """
    known = [difference for _, difference in differences if difference is not None]
    calls = iter(holm([difference.p for difference in known]))
    found: list[FigureComparison] = []
    for figure, difference in differences:
        if difference is None:
            found.append(FigureComparison(figure, None, Verdict.UNKNOWN, 0.0))
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


_LONGEST_NAME = 100
_DIGEST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """The request of a comparison. `changes` (of B) and `both` (of A and B) are settings as KEY=VALUE, as given."""

    a: str
    b: str | None
    changes: tuple[str, ...]
    both: tuple[str, ...]
    seeds: int
    unpaired: bool = False
    engine: str = "auto"
    first_seed: int = 1
    factorial: bool = False

    @property
    def names(self) -> tuple[str, str]:
        a = Path(self.a).stem
        b = a if self.b is None else Path(self.b).stem
        return a, f"{b} with {', '.join(self.changes)}" if self.changes else b

    @property
    def conditions(self) -> list[str]:
        """Return the settings of both sides as text."""
        way = "other seeds for B" if self.unpaired else "the same on both sides, compared seed by seed"
        both = [f"both: with {', '.join(self.both)}"] if self.both else []
        start = f" from {self.first_seed} on" if self.first_seed != 1 else ""
        return [*both, f"seeds: {self.seeds}{start}, {way}"]

    @property
    def folder_name(self) -> str:
        """Return a readable name of the folder, with a digest of the request if the name could be ambiguous."""
        a, b = self.names
        both = f"-both-with-{','.join(self.both)}" if self.both else ""
        start = f"-from-seed-{self.first_seed}" if self.first_seed != 1 else ""
        plain_name = f"compare-{a}-{b}{both}{'-unpaired' if self.unpaired else ''}{start}".replace(", ", ",").replace(
            " ", "-"
        )
        name = re.sub(r"[^\w.=,-]", "-", plain_name)[:_LONGEST_NAME]
        if name == plain_name and {self.a, self.b or self.a} == {Path(self.a).stem, Path(self.b or self.a).stem}:
            return name
        asked = [self.a, self.b, self.changes, self.both, self.unpaired]
        whole = json.dumps(asked if self.first_seed == 1 else [*asked, self.first_seed])
        return f"{name}-{sha256(whole.encode()).hexdigest()[:_DIGEST_DIGITS]}"

    @property
    def command(self) -> str:
        words: list[object] = ["compare", self.a]
        if self.b is not None:
            words.append(self.b)
        for option, settings in (("--set", self.changes), ("--both", self.both)):
            for setting in settings:
                words += [option, setting]
        words += ["--seeds", self.seeds]
        if self.first_seed != 1:
            words += ["--first-seed", self.first_seed]
        if self.unpaired:
            words.append("--unpaired")
        if self.factorial:
            words.append("--factorial")
        if self.engine != "auto":
            words += ["--engine", self.engine]
        return command_of(words)


_SHORT = {Verdict.EQUAL: "the same", Verdict.UNDETECTED: "not significant"}


def verdict_words(line: FigureComparison) -> str:
    """Return the verdict on a metric: "better: 12 % less (between 10 % and 14 %)"."""
    difference = line.difference
    if difference is None:
        without = [side for side, mean in zip("AB", line.means, strict=True) if mean is None]
        where = f" in {without[0]}" if len(without) == 1 else ""
        return f"not measured{where}: fewer than two seeds have it"
    if line.verdict is Verdict.EQUAL:
        return "no difference: the same on every seed"
    if line.verdict is Verdict.UNDETECTED:
        return f"no difference detectable with {difference.seeds} seeds (would see {_amount(line, line.detectable)})"
    low, high = sorted((abs(difference.low), abs(difference.high)))
    least, most = _amount(line, low), _amount(line, high)
    if line.figure.form == "percent":
        least = least.split(SPACE, 1)[0]
    return f"{line.verdict}: {_change(line, difference)} (between {least} and {most})"


def short_verdict(line: FigureComparison) -> str:
    """Return the verdict in a word or two, for a column of a table."""
    if line.verdict is Verdict.UNKNOWN:
        return verdict_words(line).partition(":")[0]
    return _SHORT.get(line.verdict, str(line.verdict))


def by_itself_words(lines: Sequence[FigureComparison]) -> str:
    """Explain the intervals that leave 0 out without a significant difference; empty if there are none."""
    titles = [line.figure.title for line in lines if line.verdict is Verdict.UNDETECTED and line.by_itself]
    if not titles:
        return ""
    measured = sum(line.difference is not None for line in lines)
    return f"Not significant, although 0 is not in the interval: {_listed(titles)}. One of {measured} may be chance."


def overall_words(lines: Sequence[FigureComparison], names: tuple[str, str]) -> str:
    """Return a sentence with all metrics, grouped by verdict."""
    parts: list[str] = []
    for verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.UNDETECTED, Verdict.EQUAL):
        found = [_with_change(line) for line in lines if line.verdict is verdict]
        if found:
            parts.append(f"{_SHORT.get(verdict, verdict)} in {_listed(found)}")
    if not parts:
        return "Nothing was measured on two seeds or more."
    return f"{names[1]} against {names[0]}: {'; '.join(parts)}."


def interval_words(line: FigureComparison) -> str:
    """Return the difference with its interval, in the metric's unit."""
    difference = line.difference
    if difference is None:
        return "–"
    return interval(difference.estimate, difference.low, difference.high, line.figure.form)


def side_words(line: FigureComparison) -> tuple[str, str]:
    """Return the means of A and B, with enough digits to show a difference."""
    if line.difference is None:
        mean_a, mean_b = ("–" if mean is None else shown(mean, line.figure.form) for mean in line.means)
        return mean_a, mean_b
    a, b = apart((line.difference.mean_a, line.difference.mean_b), line.figure.form)
    return a, b


def unasked_words(lines: Sequence[FigureComparison]) -> str:
    """Return a sentence if the share of the uplink is not measured, otherwise an empty text."""
    asked = any(line.figure.name == "uplink_share" for line in lines)
    return "" if asked else "Share of the uplink: not measured, no uplink has a limit."


def _with_change(line: FigureComparison) -> str:
    if line.difference is None or line.verdict is Verdict.EQUAL:
        return line.figure.title
    undetected = line.verdict is Verdict.UNDETECTED
    change = f"would see {_amount(line, line.detectable)}" if undetected else _change(line, line.difference)
    return f"{line.figure.title} ({change})"


def _change(line: FigureComparison, difference: Difference) -> str:
    return f"{_amount(line, abs(difference.estimate))} {'more' if difference.estimate > 0 else 'less'}"


def _amount(line: FigureComparison, amount: float) -> str:
    """Return a difference without its sign, as a share of A's mean if that is possible."""
    difference = line.difference
    assert difference is not None
    if line.figure.form == "percent":
        return points(amount)
    share = difference.relative(amount)
    return shown(amount, line.figure.form) if share is None else relative(share)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
