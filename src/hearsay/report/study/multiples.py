"""Small multiples: a figure along an axis, a line for each step of another, with bands of 95 % confidence."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.metrics import Metric
from hearsay.report.markup import Html
from hearsay.report.study import drawing
from hearsay.report.study.roles import Roles, at, where
from hearsay.report.study.scales import scale_of_axis, scale_of_values
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at
from hearsay.text.numbers import FORMS

WIDTH, HEIGHT = 340, 220


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    places: list[tuple[float, Mean]]


def multiples(swept: Swept, roles: Roles, figure: Metric) -> list[Html]:
    """One picture for each facet, all on one scale; none where nothing was measured."""
    facets = [(facet, lines_of(swept, roles, facet, figure)) for facet in roles.facets]
    bounds = [
        bound
        for _, lines in facets
        for line in lines
        for _, mean in line.places
        for bound in (mean.mean, *bounds_of(mean, figure))
    ]
    if not bounds:
        return []
    study = swept.study
    x_scale, _ = scale_of_axis(study.axes[roles.x])
    y_scale = scale_of_values(bounds, figure.form)
    pictures: list[Html] = []
    for facet, lines in facets:
        told = where(study, facet)
        title = f"{figure.title}{f' – {told}' if told else ''}"
        plot = drawing.Plot(x_scale, y_scale, WIDTH, HEIGHT, figure.title, study.axes[roles.x].name, part=told)
        for line in lines:
            plot.add(drawing.coloured(line.number, *_drawn(plot, swept, roles, figure, line)))
        pictures.append(plot.svg(title))
    return pictures


def legend(swept: Swept, roles: Roles) -> list[str]:
    """The words for the lines, in the order of their colours."""
    if roles.lines is None:
        return []
    axis = swept.study.axes[roles.lines]
    return [label if axis.numbers is None else f"{axis.name} {label}" for label in axis.labels]


def lines_of(swept: Swept, roles: Roles, facet: dict[int, int], figure: Metric) -> list[Line]:
    study = swept.study
    _, places = scale_of_axis(study.axes[roles.x])
    steps = range(len(study.axes[roles.lines].steps)) if roles.lines is not None else range(1)
    found: list[Line] = []
    for number in steps:
        fixed = facet if roles.lines is None else {**facet, roles.lines: number}
        means = [
            (places[point.steps[roles.x]], mean_of(values_at(point, swept.results, figure.name)))
            for point in at(swept.points, fixed)
        ]
        known = [(place, mean) for place, mean in means if mean is not None]
        if known:
            found.append(Line(number, known))
    return found


def _drawn(plot: drawing.Plot, swept: Swept, roles: Roles, figure: Metric, line: Line) -> list[Html]:
    parts: list[Html] = []
    ends = [(place, bounds_of(mean, figure)) for place, mean in line.places]
    if all(bounds for _, bounds in ends):
        upper = [plot.place(place, bounds[1]) for place, bounds in ends]
        lower = [plot.place(place, bounds[0]) for place, bounds in ends]
        parts.append(drawing.polygon([*upper, *reversed(lower)], "band"))
    centres = [plot.place(place, mean.mean) for place, mean in line.places]
    parts.append(drawing.polyline(centres, "line"))
    named = "" if roles.lines is None else f"{swept.study.axes[roles.lines].labels[line.number]}: "
    for (x, y), (_, mean) in zip(centres, line.places, strict=True):
        parts.append(drawing.mark(line.number, x, y, f"{named}{mean_words(mean, figure)}"))
    return parts


def mean_words(mean: Mean, figure: Metric) -> str:
    show = FORMS[figure.form]
    bounds = bounds_of(mean, figure)
    if not bounds:
        return f"{show(mean.mean)} (one seed)"
    if mean.low == mean.high:
        return f"{show(mean.mean)} (the same on {mean.seeds} seeds)"
    return f"{show(mean.mean)} (95 % interval {show(bounds[0])} … {show(bounds[1])}, {mean.seeds} seeds)"


def bounds_of(mean: Mean, figure: Metric) -> tuple[float, ...]:
    """The interval, cut to what the figure can be."""
    if mean.low is None or mean.high is None:
        return ()
    highest = 1.0 if figure.form == "percent" and mean.mean <= 1 else mean.high
    return max(0.0, mean.low), min(highest, mean.high)
