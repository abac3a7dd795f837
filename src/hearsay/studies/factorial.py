"""Comparisons in which B changes several settings: the sides of a comparison, and the effects in a factorial.

A factorial of k settings has 2^k sides, one for each subset of the settings: A has none of the settings, B has all.
An effect is computed for each seed from the values of the sides, as a sum in which each value has a weight:

* `change`: the difference between a side with some of the settings, or all, and A.
* `main`: the change by one setting, averaged over all combinations of the other settings.
* `interaction` of two settings: the change by both together minus the changes by each alone, averaged over all
  combinations of the other settings.
* `interaction` of three settings: the change by all together, minus the changes by each alone, minus the interactions
  of the pairs without the third setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import fsum
from typing import Literal, TypeAlias

from hearsay.metrics import Metric
from hearsay.number_text import plain, plural
from hearsay.studies.axes import Setting
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import (
    ComparisonRequest,
    FigureComparison,
    Verdict,
    base_named,
    short_verdict,
    study_of_sides,
    with_verdicts,
)
from hearsay.studies.packs import Row
from hearsay.studies.points import Point, point_of
from hearsay.studies.results import values_by_seed
from hearsay.studies.settings import differing, settings_of
from hearsay.studies.statistics import Difference, of_differences
from hearsay.studies.study_file import Study
from hearsay.text import value_text

LETTERS = "XYZ"
"""The letters for the settings that B changes, in the order of these settings."""
MAX_NAMED = 5

Kind: TypeAlias = Literal["change", "main", "interaction"]
_INTERACTIONS = {
    Verdict.BETTER: "better than sum",
    Verdict.WORSE: "worse than sum",
    Verdict.EQUAL: "the sum",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a comparison. The first of `points` is A, the last is B."""

    study: Study
    points: Sequence[Point]
    changed: Sequence[str]
    """The settings that B changes, as KEY=VALUE."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of one or several settings on one metric; the module's docstring explains the kinds."""

    kind: Kind
    settings: tuple[int, ...]
    """Indexes of the settings with this effect, in `Planned.changed`."""
    line: FigureComparison

    @property
    def name(self) -> str:
        """Return the name in tables, such as "X alone", "X and Y", "X on average" or "X × Y"."""
        letters = [LETTERS[place] for place in self.settings]
        if self.kind == "interaction":
            return " × ".join(letters)
        if self.kind == "main":
            return f"{letters[0]} on average"
        return f"{letters[0]} alone" if len(letters) == 1 else " and ".join(letters)

    @property
    def verdict(self) -> str:
        words = _INTERACTIONS if self.kind == "interaction" else {}
        return words.get(self.line.verdict, short_verdict(self.line))


def planned(asked: ComparisonRequest, names: tuple[str, str] = ("--both", "--set")) -> Planned:
    """Return the plan of a comparison. `names` are the options or parameters that gave `asked.both` and
    `asked.changes`, for messages. Raise `StudyError` if there is nothing to compare, if a scenario is invalid, or if
    the requested factorial is impossible.
    """
    if asked.b is None and not asked.changes and not asked.unpaired:
        raise StudyError([f"nothing to compare: name a second scenario, or settings that B changes ({names[1]})"])
    both, changes = _pairs(asked.both), _pairs(asked.changes)
    ends = asked.a, asked.a if asked.b is None else asked.b
    a, b = (base_named(name).with_settings(both, names[0]) for name in ends)
    b = b.with_settings(changes, names[1])
    seeds = {"same_seeds": not asked.unpaired, "first_seed": asked.first_seed}
    study_with = partial(study_of_sides, a, b, asked.names, asked.seeds, engine=asked.engine, **seeds)
    study, points = study_with()
    settings = _differences(points[0], points[-1], dict(changes) if asked.b is None else None)
    changed = [f"{key}={value if isinstance(value, str) else value_text(value)}" for key, value in settings]
    if not asked.factorial:
        return Planned(study, points, changed)
    if asked.unpaired:
        raise StudyError(["factorial and unpaired: give one; a factorial needs the same seeds on all sides"])
    if not 2 <= len(settings) <= len(LETTERS):
        raise StudyError([plain(f"factorial: B changes {plural(len(settings), 'setting')}; must be 2 or 3")])
    if point_of(a.with_settings(settings), points[0].seeds, ()).name != points[-1].name:
        raise StudyError([f"factorial: A with the settings that differ is not B; give B's settings with {names[1]}"])
    between = {
        f"{asked.names[0]} with {', '.join(changed[place] for place in subset)}": a.with_settings(
            [settings[place] for place in subset], names[1]
        )
        for subset in subsets(len(settings))[1:-1]
    }
    try:
        return Planned(*study_with(between=between), changed)
    except StudyError as error:
        raise StudyError(
            f"factorial: a setting without the others: {problem}" for problem in error.problems
        ) from None


def subsets(count: int) -> list[tuple[int, ...]]:
    """Return all subsets of the numbers 0 to `count` − 1, in the order of their sizes: the empty subset is first."""
    return [subset for size in range(count + 1) for subset in combinations(range(count), size)]


def side_names(points: int) -> list[str]:
    """Return short names for this number of sides, a power of two: for four sides A, X, Y, B."""
    between = subsets(points.bit_length() - 1)[1:-1]
    return ["A", *("".join(LETTERS[place] for place in subset) for subset in between), "B"]


def effects(points: Sequence[Point], results: Mapping[str, Row], lines: Sequence[FigureComparison]) -> list[Effect]:
    """Return the effects on each metric. `lines` compare A with B, so they are the changes by all settings together;
    their verdicts stay. The verdicts of all other effects are corrected for the number of these effects on all
    metrics.
    """
    every = subsets(len(points).bit_length() - 1)
    contrasts: list[tuple[Kind, tuple[int, ...], list[float]]] = [
        ("change", subset, [float(other == subset) - float(not other) for other in every]) for subset in every[1:-1]
    ]
    for subset in every[1:]:
        scale = 2.0 ** (len(every[-1]) - len(subset))
        weights = [(-1) ** len({*subset} - {*other}) / scale for other in every]
        contrasts.append(("main" if len(subset) == 1 else "interaction", subset, weights))
    figures = [line.figure for line in lines]
    family = with_verdicts(
        [(figure, _contrast(points, results, figure, weights)) for figure in figures for *_, weights in contrasts]
    )
    found: list[Effect] = []
    for place, whole in enumerate(lines):
        own = family[place * len(contrasts) : (place + 1) * len(contrasts)]
        each = [Effect(kind, subset, line) for (kind, subset, _), line in zip(contrasts, own, strict=True)]
        found += [*each[: len(every) - 2], Effect("change", every[-1], whole), *each[len(every) - 2 :]]
    return found


def significant_effects(found: Sequence[Effect]) -> dict[str, list[Effect]]:
    """Return all effects on each metric that has at least one significant effect, by the title of the metric."""
    by_title: dict[str, list[Effect]] = {}
    for effect in found:
        by_title.setdefault(effect.line.figure.title, []).append(effect)
    significant = (Verdict.BETTER, Verdict.WORSE)
    return {t: each for t, each in by_title.items() if any(e.line.verdict in significant for e in each)}


def changed_words(asked: ComparisonRequest, changed: Sequence[str]) -> str:
    """Return a warning that a difference cannot be attributed to one setting. Return the empty string if B changes
    fewer than two settings, and for a factorial.
    """
    if len(changed) < 2 or asked.factorial:
        return ""
    keys = [text.partition("=")[0] for text in changed]
    named = ", ".join(keys[:MAX_NAMED]) + (f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else "")
    words = f"B changes {len(changed)} settings ({named}): the differences belong to all of them together."
    offered = len(changed) <= len(LETTERS) and not asked.unpaired
    return f"{words} --factorial runs each alone, too." if offered else words


def insignificant_words(found: Sequence[Effect]) -> str:
    """Return a sentence that names the metrics without a significant effect, and one with the number of effects that
    are not significant although their interval excludes 0. Leave out a sentence without content.
    """
    shown = significant_effects(found)
    titles = [title for title in dict.fromkeys(each.line.figure.title for each in found) if title not in shown]
    words = f"No significant effect in: {', '.join(titles)}." if titles else ""
    chance = sum(each.line.verdict is Verdict.UNDETECTED and each.line.by_itself for each in found)
    also = f" Not significant, although 0 is not in the interval: {chance} of {len(found)}, which may be chance."
    return f"{words}{also}".lstrip() if chance else words


def _contrast(
    points: Sequence[Point], results: Mapping[str, Row], figure: Metric, weights: Sequence[float]
) -> Difference | None:
    values = [values_by_seed(point, results, figure.name) for point in points]
    seeds = [seed for seed in points[0].seeds if all(seed in each for each in values)]
    if len(seeds) < 2:
        return None
    changes = [fsum(w * each[seed] for w, each in zip(weights, values, strict=True)) for seed in seeds]
    return of_differences(changes, fsum(values[0][seed] for seed in seeds) / len(seeds))


def _differences(a: Point, b: Point, given: Mapping[str, object] | None) -> list[Setting]:
    """Return the settings of B that A lacks or has with another value. With `given`, return only settings in `given`,
    with the values there.
    """
    before, after = settings_of(a.scenario), settings_of(b.scenario)
    if given is not None:
        return [(key, value) for key, value in given.items() if key not in before or before[key] != after.get(key)]
    return [(key, after[key]) for key in differing([before, after]) if key in after]


def _pairs(given: Sequence[str]) -> list[Setting]:
    return [(key, value) for key, _, value in (text.partition("=") for text in given)]
