"""What a sweep shows, in words that follow its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hearsay.metrics import Metric
from hearsay.report.study.pareto import SLACK, Front
from hearsay.report.study.roles import all_steps, at, where
from hearsay.studies.figures import BY_NAME, COMPARED
from hearsay.studies.points import Point
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at
from hearsay.text.numbers import FORMS, percent


def findings(swept: Swept) -> Iterator[tuple[str, list[str]]]:
    """For each figure: its extremes, and how it goes along each axis."""
    for name in COMPARED:
        figure = BY_NAME[name]
        means = [(point, mean_of(values_at(point, swept.results, name))) for point in swept.points]
        known = [(point, mean) for point, mean in means if mean is not None]
        if known:
            told = [_along(swept, figure, number) for number in range(len(swept.study.axes))]
            yield _extremes(swept, figure, known), [text for text in told if text]


def front_words(swept: Swept, fronts: Sequence[Front]) -> Iterator[str]:
    """Who is on each front."""
    for front in fronts:
        condition = where(swept.study, front.condition)
        members = [
            f"{where(swept.study, {n: s for n, s in all_steps(spot.point).items() if n not in front.condition})} "
            f"({FORMS['number'](spot.copies.mean)} copies, {FORMS['ms'](spot.speed.mean)})"
            for spot in front.members
        ]
        out = sum(not spot.eligible for spot in front.spots)
        left_out = f" {out} that deliver over {percent(SLACK)} less than the best are left out." if out else ""
        yield f"{f'{condition}: ' if condition else ''}{'; '.join(members)}.{left_out}"


def _extremes(swept: Swept, figure: Metric, known: Sequence[tuple[Point, Mean]]) -> str:
    show = FORMS[figure.form]
    low, high = min(known, key=lambda one: one[1].mean), max(known, key=lambda one: one[1].mean)
    name = _capital(figure.title)
    if low[1].mean == high[1].mean:
        return f"{name}: {show(low[1].mean)} everywhere."
    from_, to = (where(swept.study, all_steps(point)) for point in (low[0], high[0]))
    return f"{name}: from {show(low[1].mean)} ({from_}) to {show(high[1].mean)} ({to})."


def _along(swept: Swept, figure: Metric, number: int) -> str:
    """The mean over all points of each step, first to last; only what all steps have in common is compared."""
    axis = swept.study.axes[number]
    show = FORMS[figure.form]
    told: list[tuple[str, float]] = []
    for step, label in enumerate(axis.labels):
        means = [mean_of(values_at(point, swept.results, figure.name)) for point in at(swept.points, {number: step})]
        if not means or any(mean is None for mean in means):
            continue
        told.append((label, sum(mean.mean for mean in means if mean is not None) / len(means)))
    if len(told) < 2 or len({show(value) for _, value in told}) == 1:
        return ""
    over = ", averaged over the other axes" if len(swept.study.axes) > 1 else ""
    steps = ", ".join(f"{show(value)} at {label}" for label, value in told)
    return f"Along {axis.name}{over}: {steps}."


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
