"""Comparison of two scenarios, the sides A and B: a difference with a verdict for each metric, and text about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from hearsay.metrics import Metric
from hearsay.number_text import SPACE, apart, interval, points, relative, text_of
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import find_scenario
from hearsay.studies.axes import Base, axis_of_values
from hearsay.studies.checked_file import StudyError
from hearsay.studies.packs import BY_NAME, COMPARED, Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.results import values_by_seed
from hearsay.studies.settings import command_of
from hearsay.studies.statistics import Difference, holm, paired, unpaired
from hearsay.studies.study_file import Study

MOST_SEEDS = 10_000


class Verdict(StrEnum):
    """The verdict on a metric: the direction in which B is significantly different from A, or the lack of one."""

    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    """Both sides have the same value on every seed."""
    UNDETECTED = "no difference detectable"
    UNKNOWN = "not measured"
    """There are too few values for a difference."""


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """The comparison of one metric. `difference` is B minus A; None with too few values."""

    figure: Metric
    difference: Difference | None
    verdict: Verdict
    detectable: float
    """The smallest true difference that 80 of 100 such comparisons detect, in the metric's unit; 0 if `difference` is
    None, or if its standard error is 0.
    """
    by_itself: bool = False
    """True if the interval of the difference excludes 0, but the verdict is `UNDETECTED`. The verdict is corrected
    for the number of metrics; the interval is not.
    """
    means: tuple[float | None, float | None] = (None, None)
    """The mean of A and the mean of B, each over all seeds with a value; None without such a seed."""


def figure_named(figures: Sequence[FigureComparison], name: str) -> FigureComparison:
    """Return the comparison of the metric `name`. If there is none, raise `KeyError` with all names."""
    by_name = {line.figure.name: line for line in figures}
    if name not in by_name:
        raise KeyError(f"no figure {name!r}; there are {', '.join(by_name)}")
    return by_name[name]


def base_named(name: str) -> Base:
    """Return the base for the scenario file or preset `name`. Raise `StudyError` if there is neither."""
    try:
        return Base(*find_scenario(name))
    except ScenarioError as error:
        raise StudyError(error.problems) from None


def study_of_sides(
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
    """Return a study and its points: scenario A, the scenarios of `between`, and scenario B.

    `names` are the names of A and B; `between` has further scenarios by name. `seeds` is the number of seeds. With
    `same_seeds`, all points have the same seeds, from `first_seed` on; otherwise B has the seeds after those of A.
    """
    first = tuple(range(first_seed, first_seed + seeds))
    second = first if same_seeds else tuple(range(first_seed + seeds, first_seed + 2 * seeds))
    ends = names if names[0] != names[1] else ("A", "B")
    axis = axis_of_values("side", [ends[0], *between, ends[1]], "")
    study = Study(f"{names[0]} and {names[1]}", f"{names[0]} and {names[1]}", a, (axis,), first, engine)
    points = [point_of(base, first, (step,)) for step, base in enumerate((a, *between.values()))]
    return study, [*points, point_of(b, second, (len(points),))]


def compare(
    points: Sequence[Point], results: Mapping[str, Row], figures: Sequence[str] = COMPARED
) -> list[FigureComparison]:
    """Compare the first point (A) with the last (B) by the metrics named `figures`. Leave out optional metrics for
    which neither point has a value.
    """
    a, b = points[0], points[-1]
    figures = [
        name
        for name in figures
        if not BY_NAME[name].optional or values_by_seed(a, results, name) or values_by_seed(b, results, name)
    ]
    lines = with_verdicts([(BY_NAME[name], _difference(a, b, results, name)) for name in figures])
    means = [(_mean(a, results, name), _mean(b, results, name)) for name in figures]
    return [replace(line, means=both) for line, both in zip(lines, means, strict=True)]


def with_verdicts(differences: Sequence[tuple[Metric, Difference | None]]) -> list[FigureComparison]:
    """Return a comparison for each difference. Holm's method corrects the verdicts for the number of differences: if
    the sides do not truly differ, at least 95 of 100 calls return no `BETTER` and no `WORSE`.
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
    """The options of a comparison of the scenarios `a` and `b`, which are files or presets. If `b` is None, B is `a`
    with `changes`.
    """

    a: str
    b: str | None
    changes: tuple[str, ...]
    """Settings of B, as KEY=VALUE."""
    both: tuple[str, ...]
    """Settings of A and B, as KEY=VALUE."""
    seeds: int
    """Number of seeds of each side."""
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
        """Return lines about the settings that both sides share, and about the seeds."""
        way = "other seeds for B" if self.unpaired else "the same on both sides, compared seed by seed"
        both = [f"both: with {', '.join(self.both)}"] if self.both else []
        start = f" from {self.first_seed} on" if self.first_seed != 1 else ""
        return [*both, f"seeds: {self.seeds}{start}, {way}"]

    @property
    def folder_name(self) -> str:
        """Return the default name of the comparison's folder. It ends in a hash of the request if its readable part
        is ambiguous. The number of seeds, the engine and `factorial` do not change the name, so a request with more
        seeds or sides continues in the folder.
        """
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
        """Return the command line that makes this comparison."""
        options: list[tuple[object, ...]] = [
            *(("--set", setting) for setting in self.changes),
            *(("--both", setting) for setting in self.both),
            ("--seeds", self.seeds),
            ("--first-seed", self.first_seed) if self.first_seed != 1 else (),
            ("--unpaired",) if self.unpaired else (),
            ("--factorial",) if self.factorial else (),
            ("--engine", self.engine) if self.engine != "auto" else (),
        ]
        sides = [self.a] if self.b is None else [self.a, self.b]
        return command_of(["compare", *sides, *chain.from_iterable(options)])


_SHORT = {Verdict.EQUAL: "the same", Verdict.UNDETECTED: "not significant"}


def verdict_words(line: FigureComparison) -> str:
    """Return a verdict as words, such as "better: 12 % less (between 10 % and 14 %)"."""
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
    """Return a verdict as few words, for a column of a table."""
    if line.verdict is Verdict.UNKNOWN:
        return verdict_words(line).partition(":")[0]
    return _SHORT.get(line.verdict, str(line.verdict))


def by_itself_words(lines: Sequence[FigureComparison]) -> str:
    """Return a sentence that names the metrics for which `by_itself` is True; the empty string if there are none."""
    titles = [line.figure.title for line in lines if line.verdict is Verdict.UNDETECTED and line.by_itself]
    if not titles:
        return ""
    measured = sum(line.difference is not None for line in lines)
    return f"Not significant, although 0 is not in the interval: {_listed(titles)}. One of {measured} may be chance."


def overall_words(lines: Sequence[FigureComparison], names: tuple[str, str]) -> str:
    """Return a sentence that lists the metrics by verdict. `names` are the names of A and B."""
    parts: list[str] = []
    for verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.UNDETECTED, Verdict.EQUAL):
        found = [_with_change(line) for line in lines if line.verdict is verdict]
        if found:
            parts.append(f"{_SHORT.get(verdict, verdict)} in {_listed(found)}")
    if not parts:
        return "Nothing was measured on two seeds or more."
    return f"{names[1]} against {names[0]}: {'; '.join(parts)}."


def interval_words(line: FigureComparison) -> str:
    """Return the difference with its interval, in the metric's unit; "–" without a difference."""
    difference = line.difference
    if difference is None:
        return "–"
    return interval(difference.estimate, difference.low, difference.high, line.figure.form)


def side_words(line: FigureComparison) -> tuple[str, str]:
    """Return the means of A and B as text, with enough digits to distinguish the means; "–" for an unknown mean."""
    if line.difference is None:
        mean_a, mean_b = ("–" if mean is None else text_of(mean, line.figure.form) for mean in line.means)
        return mean_a, mean_b
    a, b = apart((line.difference.mean_a, line.difference.mean_b), line.figure.form)
    return a, b


def uplink_words(lines: Sequence[FigureComparison]) -> str:
    """Return a sentence that says that the share of the uplink is not measured; the empty string if that share was
    compared.
    """
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
    """Return the size of a difference as text: in percentage points if the metric is a ratio, otherwise as a share of
    the mean of A, or in the metric's unit if that mean is 0.
    """
    difference = line.difference
    assert difference is not None
    if line.figure.form == "percent":
        return points(amount)
    share = difference.relative(amount)
    return text_of(amount, line.figure.form) if share is None else relative(share)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
