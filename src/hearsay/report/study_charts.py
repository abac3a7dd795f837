"""The charts of a sweep as data: curves, heat maps, and the front of speed against copies.

Pages draw them as SVG (`study_svg.py`), papers by matplotlib (`paper_studies.py`).

Rules:

* The axis of numbers with the most steps is the x axis. The axis of lines is the one with the most steps among the
  other axes with at most `MAX_LINES`; each of its steps is a line. Each combination of steps of the remaining axes is
  a facet, which is a picture.
* Axes that change the router are choices; the others are conditions. Each combination of steps of the conditions has
  its own front.
* A point is on the front if it is a candidate, and no other candidate of its condition is as good in copies per
  delivery and p99 latency and better in one of them. Points that deliver less than the best of their condition by
  more than `SLACK` are not candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

from hearsay.metrics import BY_NAME, Metric
from hearsay.report import palette
from hearsay.report.svg import Scale, scale_of_values
from hearsay.studies.axes import Axis
from hearsay.studies.packs import COMPARED, COSTS
from hearsay.studies.points import Point
from hearsay.studies.runner import Swept
from hearsay.studies.statistics import Mean, is_dominated, mean_of
from hearsay.studies.study_file import Study
from hearsay.studies.tables import values_at
from hearsay.text.numbers import FORMS

MAX_LINES = 8
MAX_FACETS = 12
MAX_COLUMNS = 14
MAX_FRONTS = 8
SLACK = 0.01
"""Maximum difference between the delivery ratio of a candidate for a front and the best ratio of its condition."""
COPIES, SPEED, DELIVERED = "copies_per_delivery", "latency_p99_ms", "delivery_ratio"
MAPPED = (DELIVERED, SPEED, COPIES, "control_per_delivery")

Kind: TypeAlias = Literal["curves", "costs", "maps"]
Steps = dict[int, int]
"""Index of a step, by index of its axis."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric along the x axis, for one step of the axis of lines."""

    number: int
    """The step on the axis of lines."""
    colour: int
    means: list[tuple[int, Mean]]
    """The step on the x axis, and the mean over seeds."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One picture of a metric."""

    title: str
    curves: list[Curve]

    @property
    def means(self) -> list[Mean]:
        return [mean for curve in self.curves for _, mean in curve.means]


@dataclass(frozen=True, slots=True)
class Spot:
    """A point with its copies per delivery, latency and delivery ratio."""

    point: Point
    copies: Mean
    speed: Mean
    delivered: float
    is_candidate: bool
    on_front: bool


@dataclass(frozen=True, slots=True)
class Front:
    """The points of a condition."""

    condition: Steps
    spots: tuple[Spot, ...]

    @property
    def members(self) -> list[Spot]:
        """Return the points on the front, fewest copies first."""
        return sorted((spot for spot in self.spots if spot.on_front), key=lambda spot: spot.copies.mean)


class StudyCharts:
    """The charts of a sweep. A sweep without axes has none."""

    def __init__(self, swept: Swept) -> None:
        self.swept = swept
        axes = self.axes = swept.study.axes
        numbers = range(len(axes))
        self.x: int = max(
            numbers,
            key=lambda number: (axes[number].numbers is not None, len(axes[number].steps), -number),
            default=0,
        )
        others = [number for number in numbers if number != self.x]
        fitting = [number for number in others if len(axes[number].steps) <= MAX_LINES]
        self.lines = max(fitting, key=lambda number: (len(axes[number].steps), -number), default=None)
        """The axis of lines; None for a single line."""
        facets = combinations(axes, [number for number in others if number != self.lines])
        self.facets, self.left_out = facets[:MAX_FACETS], max(0, len(facets) - MAX_FACETS)

    @property
    def x_axis(self) -> Axis:
        return self.axes[self.x]

    @property
    def legend(self) -> dict[int, str]:
        """Return the names of lines by colour."""
        if self.lines is None:
            return {}
        axis = self.axes[self.lines]
        labels = [label if axis.numbers is None else f"{axis.name} {label}" for label in axis.labels]
        return dict(zip(self.colours, labels, strict=True))

    @cached_property
    def colours(self) -> list[int]:
        """Return the numbers of colours and marks of lines: those of routers, if the lines are routers."""
        if self.lines is None:
            return [0 if self.routers is None else palette.NEUTRAL]
        return colours_of(self.axes[self.lines])

    def curves(self, metric: Metric) -> list[Facet]:
        """Return a facet for each picture; none if the metric was not measured."""
        if not self.axes:
            return []
        found = [Facet(self.where(facet), self._curves(metric, facet)) for facet in self.facets]
        return found if any(facet.means for facet in found) else []

    def maps(self, metric: Metric) -> list[Facet]:
        """Return the facets of heat maps, which have a row for each step of the axis of lines; none without that
        axis, or with more than `MAX_COLUMNS` columns.
        """
        if self.lines is None or len(self.x_axis.steps) > MAX_COLUMNS:
            return []
        return self.curves(metric)

    def charts(self) -> Iterator[tuple[Kind, Metric, list[Facet]]]:
        """Yield the facets of the curves of metrics, of the curves of costs, and of the maps of metrics."""
        for name in COMPARED:
            yield "curves", BY_NAME[name], self.curves(BY_NAME[name])
        for metric in COSTS:
            yield "costs", metric, self.curves(metric)
        for name in MAPPED:
            yield "maps", BY_NAME[name], self.maps(BY_NAME[name])

    @cached_property
    def fronts(self) -> list[Front]:
        """Return a front for each condition; none if no axis changes the router."""
        chosen = choices(self.swept.study)
        if not chosen:
            return []
        conditions = combinations(self.axes, [number for number in range(len(self.axes)) if number not in chosen])
        found = [Front(condition, tuple(self._spots(at(self.swept.points, condition)))) for condition in conditions]
        return [front for front in found if front.spots]

    @property
    def drawn_fronts(self) -> list[Front]:
        """Return at most `MAX_FRONTS` fronts, evenly spread over the conditions, so that their colours differ."""
        if len(self.fronts) <= MAX_FRONTS:
            return self.fronts
        last = len(self.fronts) - 1
        return [self.fronts[number * last // (MAX_FRONTS - 1)] for number in range(MAX_FRONTS)]

    @cached_property
    def routers(self) -> int | None:
        """Return the axis of routers; None if no axis has steps with names of routers."""
        return next(
            (number for number, axis in enumerate(self.axes) if set(axis.labels) & set(palette.ROUTERS)), None
        )

    @property
    def front_legend(self) -> dict[int, str]:
        """Return the names of colours: the routers, or the conditions if no axis has routers."""
        if self.routers is not None:
            axis = self.axes[self.routers]
            return dict(zip(colours_of(axis), axis.labels, strict=True))
        named = [self.where(front.condition) for front in self.drawn_fronts]
        return dict(enumerate(named)) if any(named) else {}

    def colour_of(self, point: Point, front: int) -> int:
        """Return the number of a point's colour and mark: that of its router, or `front` if no axis has routers."""
        return front if self.routers is None else colours_of(self.axes[self.routers])[point.steps[self.routers]]

    def where(self, steps: Steps) -> str:
        """Return steps in words: "loss.rate 0.2, router.degree 6"."""
        return ", ".join(f"{self.axes[axis].name} {self.axes[axis].labels[step]}" for axis, step in steps.items())

    def point_name(self, point: Point) -> str:
        return self.where(dict(enumerate(point.steps)))

    def axes_named(self, front: Front) -> list[int]:
        """Return the axes whose steps name the points of a front: those that no colour shows."""
        shown = front.condition if self.routers is None else {self.routers}
        return [axis for axis in range(len(self.axes)) if axis not in shown]

    def name_of(self, point: Point, front: Front) -> str:
        """Return the name of a point of a front: its steps on `axes_named`, or the step alone if that is one axis."""
        named = self.axes_named(front)
        if len(named) == 1:
            return self.axes[named[0]].labels[point.steps[named[0]]]
        return self.where({axis: point.steps[axis] for axis in named})

    def mean_at(self, point: Point, metric: str) -> Mean | None:
        return mean_of(values_at(point, self.swept.results, metric))

    def _curves(self, metric: Metric, facet: Steps) -> list[Curve]:
        steps = range(len(self.axes[self.lines].steps)) if self.lines is not None else range(1)
        found: list[Curve] = []
        for number in steps:
            fixed = facet if self.lines is None else {**facet, self.lines: number}
            points = at(self.swept.points, fixed)
            means = [(point.steps[self.x], self.mean_at(point, metric.name)) for point in points]
            known = [(step, mean) for step, mean in means if mean is not None]
            if known:
                found.append(Curve(number, self.colours[number], known))
        return found

    def _spots(self, points: Sequence[Point]) -> list[Spot]:
        measured: list[tuple[Point, Mean, Mean, float]] = []
        for point in points:
            copies, speed, delivered = (self.mean_at(point, name) for name in (COPIES, SPEED, DELIVERED))
            if copies is not None and speed is not None and delivered is not None:
                measured.append((point, copies, speed, delivered.mean))
        least = max((delivered for *_, delivered in measured), default=0.0) - SLACK
        candidates = [(copies.mean, speed.mean) for _, copies, speed, ratio in measured if ratio >= least]
        return [
            Spot(point, copies, speed, ratio, ratio >= least,
                 ratio >= least and not is_dominated((copies.mean, speed.mean), candidates))
            for point, copies, speed, ratio in measured
        ]  # fmt: skip


def combinations(axes: Sequence[Axis], numbers: Sequence[int]) -> list[Steps]:
    """Return all combinations of steps of some axes."""
    ranges = [range(len(axes[number].steps)) for number in numbers]
    return [dict(zip(numbers, steps, strict=True)) for steps in product(*ranges)]


def colours_of(axis: Axis) -> list[int]:
    """Return a number for the colour and mark of each step."""
    are_routers = set(axis.labels) & set(palette.ROUTERS)
    return palette.numbers_of(axis.labels) if are_routers else list(range(len(axis.steps)))


def choices(study: Study) -> list[int]:
    """Return the axes that change the router."""
    return [
        number
        for number, axis in enumerate(study.axes)
        if any(key == "router" or key.startswith("router.") for key in axis.keys)
    ]


def at(points: Sequence[Point], steps: Steps) -> list[Point]:
    """Return the points that have these steps, in order."""
    return [point for point in points if all(point.steps[axis] == step for axis, step in steps.items())]


def bounds_of(mean: Mean, metric: Metric) -> tuple[float, float] | None:
    """Return the confidence interval, limited to possible values; None with one seed."""
    if mean.low is None or mean.high is None:
        return None
    highest = 1.0 if metric.form == "percent" and mean.mean <= 1 else mean.high
    return max(0.0, mean.low), min(highest, mean.high)


def ends_of(mean: Mean) -> tuple[float, float]:
    """Return the confidence interval without values below 0; with one seed, the mean as both ends."""
    return (mean.mean, mean.mean) if mean.low is None or mean.high is None else (max(0.0, mean.low), mean.high)


def front_scales(fronts: Sequence[Front]) -> tuple[Scale, Scale]:
    """Return the scales of copies and latency."""
    spots = [spot for front in fronts for spot in front.spots]
    copies = [end for spot in spots for end in ends_of(spot.copies)]
    return scale_of_values(copies, "number"), scale_of_values(
        [end for spot in spots for end in ends_of(spot.speed)], "ms"
    )


def extent(facets: Sequence[Facet], metric: Metric) -> list[float]:
    """Return all means and bounds, for a common scale."""
    means = [mean for facet in facets for mean in facet.means]
    return [value for mean in means for value in (mean.mean, *(bounds_of(mean, metric) or ()))]


def mean_words(mean: Mean, metric: Metric) -> str:
    show: Callable[[float], str] = FORMS[metric.form]
    bounds = bounds_of(mean, metric)
    if bounds is None:
        return f"{show(mean.mean)} (one seed)"
    if mean.low == mean.high:
        return f"{show(mean.mean)} (the same on {mean.seeds} seeds)"
    return f"{show(mean.mean)} (95 % interval {show(bounds[0])} … {show(bounds[1])}, {mean.seeds} seeds)"
