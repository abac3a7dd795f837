"""The charts of a sweep as data: curves, heat maps, and the front of speed against copies.

`study_page.py` draws them as SVG for pages, and `paper_studies.py` by matplotlib for papers.

Rules:

* The x axis is the axis of numbers with the most steps or, without an axis of numbers, the axis with the most steps.
  The axis of lines is the one with the most steps among the remaining axes that have at most `MAX_LINES` steps; each
  of its steps is a line. Each combination of steps of all other axes is a facet, which is a picture of its own.
* A condition is a combination of steps of all axes that do not change the router. Each condition has a Pareto front
  of its own.
* A point is a candidate for the front of its condition unless its delivery ratio is below the best delivery ratio of
  the condition by more than `SLACK`. A candidate is on the front if no other candidate is at least as good in copies
  per delivery and in p99 latency, and better in one of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

from hearsay.metrics import BY_NAME, Metric
from hearsay.number_text import FORMS
from hearsay.report import palette
from hearsay.report.svg import Scale, scale_of_values
from hearsay.studies.axes import Axis
from hearsay.studies.packs import COMPARED, COSTS
from hearsay.studies.points import Point
from hearsay.studies.results import values_at
from hearsay.studies.runner import Swept
from hearsay.studies.statistics import Mean, is_dominated, mean_of

MAX_LINES = 8
MAX_FACETS = 12
MAX_COLUMNS = 14
MAX_FRONTS = 8
SLACK = 0.01
"""Largest difference between the best delivery ratio of a condition and the delivery ratio of a candidate."""
COPIES, SPEED, DELIVERED = "copies_per_delivery", "latency_p99_ms", "delivery_ratio"
MAPPED = (DELIVERED, SPEED, COPIES, "control_per_delivery")

Kind: TypeAlias = Literal["curves", "costs", "maps"]
Steps = dict[int, int]
"""Index of a step, by index of its axis."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric along the x axis, for one step of the axis of lines."""

    number: int
    """The step on the axis of lines; 0 without such an axis."""
    colour: int
    """The number of the colour (see `StudyCharts.colours`)."""
    means: list[tuple[int, Mean]]
    """Pairs of a step on the x axis and the mean over seeds."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One picture of a metric: its curves for one combination of steps of all axes except the x axis and the axis of
    lines.
    """

    title: str
    curves: list[Curve]

    @property
    def means(self) -> list[Mean]:
        return [mean for curve in self.curves for _, mean in curve.means]


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A point of a sweep with its copies per delivery, p99 latency and delivery ratio."""

    point: Point
    copies: Mean
    speed: Mean
    delivered: float
    is_candidate: bool
    on_front: bool


@dataclass(frozen=True, slots=True)
class Front:
    """The measured points of a condition. `members` are those on its Pareto front."""

    condition: Steps
    points: tuple[MeasuredPoint, ...]

    @property
    def members(self) -> list[MeasuredPoint]:
        """Return the points on the front, sorted by copies per delivery."""
        return sorted((one for one in self.points if one.on_front), key=lambda one: one.copies.mean)


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
        """Index of the axis of lines; None if each picture has a single line."""
        facets = combinations(axes, [number for number in others if number != self.lines])
        self.facets, self.left_out = facets[:MAX_FACETS], max(0, len(facets) - MAX_FACETS)

    @property
    def x_axis(self) -> Axis:
        return self.axes[self.x]

    @property
    def legend(self) -> dict[int, str]:
        """Return the names of the lines by the numbers of their colours; empty without an axis of lines."""
        if self.lines is None:
            return {}
        axis = self.axes[self.lines]
        labels = [label if axis.numbers is None else f"{axis.name} {label}" for label in axis.labels]
        return dict(zip(self.colours, labels, strict=True))

    @cached_property
    def colours(self) -> list[int]:
        """Return a number for the colour and mark of each line: that of its router, if the lines are routers."""
        if self.lines is None:
            return [0 if self.router_axis is None else palette.NEUTRAL]
        return colours_of(self.axes[self.lines])

    def curves(self, metric: Metric) -> list[Facet]:
        """Return the facets of a metric with their curves; an empty list if the metric was not measured."""
        if not self.axes:
            return []
        found = [Facet(self.steps_words(facet), self._curves(metric, facet)) for facet in self.facets]
        return found if any(facet.means for facet in found) else []

    def maps(self, metric: Metric) -> list[Facet]:
        """Return the facets of a metric for heat maps. A row of a map is a step of the axis of lines. Return an empty
        list without this axis, if a map would have more than `MAX_COLUMNS` columns, or if the metric was not
        measured.
        """
        if self.lines is None or len(self.x_axis.steps) > MAX_COLUMNS:
            return []
        return self.curves(metric)

    def charts(self) -> Iterator[tuple[Kind, Metric, list[Facet]]]:
        """Yield the kind, the metric and the facets of each chart: curves of metrics and of costs, and maps of
        metrics.
        """
        for name in COMPARED:
            yield "curves", BY_NAME[name], self.curves(BY_NAME[name])
        for metric in COSTS:
            yield "costs", metric, self.curves(metric)
        for name in MAPPED:
            yield "maps", BY_NAME[name], self.maps(BY_NAME[name])

    @cached_property
    def fronts(self) -> list[Front]:
        """Return the front of each condition with measured points; an empty list if no axis changes the router."""
        chosen = [
            number
            for number, axis in enumerate(self.axes)
            if any(key == "router" or key.startswith("router.") for key in axis.keys)
        ]
        if not chosen:
            return []
        conditions = combinations(self.axes, [number for number in range(len(self.axes)) if number not in chosen])
        found = [Front(each, tuple(self._measured_points(points_at(self.swept.points, each)))) for each in conditions]
        return [front for front in found if front.points]

    @property
    def drawn_fronts(self) -> list[Front]:
        """Return at most `MAX_FRONTS` fronts, evenly spread over the conditions, so that their colours differ."""
        if len(self.fronts) <= MAX_FRONTS:
            return self.fronts
        last = len(self.fronts) - 1
        return [self.fronts[number * last // (MAX_FRONTS - 1)] for number in range(MAX_FRONTS)]

    @cached_property
    def router_axis(self) -> int | None:
        """Return the index of the first axis with a step that is the name of a router; None if there is none."""
        return next(
            (number for number, axis in enumerate(self.axes) if set(axis.labels) & set(palette.ROUTERS)), None
        )

    @property
    def front_legend(self) -> dict[int, str]:
        """Return names by the numbers of colours: of routers or, without an axis of routers, of conditions."""
        if self.router_axis is not None:
            axis = self.axes[self.router_axis]
            return dict(zip(colours_of(axis), axis.labels, strict=True))
        named = [self.steps_words(front.condition) for front in self.drawn_fronts]
        return dict(enumerate(named)) if any(named) else {}

    def colour_of(self, point: Point, front: int) -> int:
        """Return the number of a point's colour and mark: that of its router or, without such an axis, `front`."""
        return front if (axis := self.router_axis) is None else colours_of(self.axes[axis])[point.steps[axis]]

    def steps_words(self, steps: Steps) -> str:
        """Return steps in words: "loss.rate 0.2, router.degree 6"."""
        return ", ".join(f"{self.axes[axis].name} {self.axes[axis].labels[step]}" for axis, step in steps.items())

    def point_name(self, point: Point) -> str:
        return self.steps_words(dict(enumerate(point.steps)))

    def axes_named(self, front: Front) -> list[int]:
        """Return the indexes of the axes that name the points of a front.

        The colour of a point shows its router or, without an axis of routers, its condition. All other axes are in
        the name.
        """
        shown = front.condition if self.router_axis is None else {self.router_axis}
        return [axis for axis in range(len(self.axes)) if axis not in shown]

    def short_name(self, point: Point, front: Front) -> str:
        """Return the name of a point of a front: its steps on the axes of `axes_named`. If there is only one such
        axis, leave out the name of the axis.
        """
        named = self.axes_named(front)
        if len(named) == 1:
            return self.axes[named[0]].labels[point.steps[named[0]]]
        return self.steps_words({axis: point.steps[axis] for axis in named})

    def mean_at(self, point: Point, metric: str) -> Mean | None:
        return mean_of(values_at(point, self.swept.results, metric))

    def _curves(self, metric: Metric, facet: Steps) -> list[Curve]:
        found: list[Curve] = []
        for number, colour in enumerate(self.colours):
            points = points_at(self.swept.points, facet if self.lines is None else {**facet, self.lines: number})
            means = [(point.steps[self.x], self.mean_at(point, metric.name)) for point in points]
            known = [(step, mean) for step, mean in means if mean is not None]
            if known:
                found.append(Curve(number, colour, known))
        return found

    def _measured_points(self, points: Sequence[Point]) -> list[MeasuredPoint]:
        measured: list[tuple[Point, Mean, Mean, float]] = []
        for point in points:
            copies, speed, delivered = (self.mean_at(point, name) for name in (COPIES, SPEED, DELIVERED))
            if copies is not None and speed is not None and delivered is not None:
                measured.append((point, copies, speed, delivered.mean))
        least = max((delivered for *_, delivered in measured), default=0.0) - SLACK
        candidates = [(copies.mean, speed.mean) for _, copies, speed, ratio in measured if ratio >= least]
        return [
            MeasuredPoint(point, copies, speed, ratio, ratio >= least,
                 ratio >= least and not is_dominated((copies.mean, speed.mean), candidates))
            for point, copies, speed, ratio in measured
        ]  # fmt: skip


def combinations(axes: Sequence[Axis], numbers: Sequence[int]) -> list[Steps]:
    """Return all combinations of steps of the axes with these indexes."""
    ranges = [range(len(axes[number].steps)) for number in numbers]
    return [dict(zip(numbers, steps, strict=True)) for steps in product(*ranges)]


def colours_of(axis: Axis) -> list[int]:
    """Return a number for the colour and mark of each step of an axis."""
    are_routers = set(axis.labels) & set(palette.ROUTERS)
    return palette.numbers_of(axis.labels) if are_routers else list(range(len(axis.steps)))


def points_at(points: Sequence[Point], steps: Steps) -> list[Point]:
    """Return the points with all of these steps, in the order of `points`."""
    return [point for point in points if all(point.steps[axis] == step for axis, step in steps.items())]


def bounds_of(mean: Mean, metric: Metric) -> tuple[float, float] | None:
    """Return the confidence interval of a mean, limited to values that the metric can have; None with one seed."""
    if mean.low is None or mean.high is None:
        return None
    highest = 1.0 if metric.form == "percent" and mean.mean <= 1 else mean.high
    return max(0.0, mean.low), min(highest, mean.high)


def ends_of(mean: Mean) -> tuple[float, float]:
    """Return the ends of the confidence interval of a mean, at least 0. With one seed, both ends are the mean."""
    return (mean.mean, mean.mean) if mean.low is None or mean.high is None else (max(0.0, mean.low), mean.high)


def front_scales(fronts: Sequence[Front]) -> tuple[Scale, Scale]:
    """Return the scale of copies per delivery and the scale of p99 latency for all points of some fronts."""
    points = [one for front in fronts for one in front.points]
    copies = [end for one in points for end in ends_of(one.copies)]
    speeds = [end for one in points for end in ends_of(one.speed)]
    return scale_of_values(copies, "number"), scale_of_values(speeds, "ms")


def extent(facets: Sequence[Facet], metric: Metric) -> list[float]:
    """Return all means of some facets and the ends of their intervals, for a scale that all facets share."""
    means = [mean for facet in facets for mean in facet.means]
    return [value for mean in means for value in (mean.mean, *(bounds_of(mean, metric) or ()))]


def mean_words(mean: Mean, metric: Metric) -> str:
    """Return in words a mean with its confidence interval and the number of seeds."""
    show = FORMS[metric.form]
    bounds = bounds_of(mean, metric)
    if bounds is None:
        return f"{show(mean.mean)} (one seed)"
    if mean.low == mean.high:
        return f"{show(mean.mean)} (the same on {mean.seeds} seeds)"
    return f"{show(mean.mean)} (95 % interval {show(bounds[0])} … {show(bounds[1])}, {mean.seeds} seeds)"
