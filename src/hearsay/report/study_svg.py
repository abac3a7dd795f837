"""The charts of sweeps and tunings as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import BY_NAME, Metric
from hearsay.report import palette, svg
from hearsay.report.html import Html, tag
from hearsay.report.study_charts import (
    COPIES,
    SPEED,
    Curve,
    Facet,
    StudyCharts,
    bounds_of,
    ends_of,
    extent,
    front_scales,
    mean_words,
)
from hearsay.report.svg import scale_of_axis, scale_of_values
from hearsay.studies.budgets import Budget
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import Spot, steps_words
from hearsay.studies.tuning.optimiser import Ended
from hearsay.studies.tuning.search import Searched, Tried
from hearsay.text.numbers import FORMS

_CELL, _ROW = 74, 40
_LIGHT = 0.55
"""In cells with a darker shade than this, text is white."""


def curve_pictures(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> list[Html]:
    """Draw a picture for each facet, all on one scale, with bands of 95 % confidence."""
    if not facets:
        return []
    x_scale, places = scale_of_axis(charts.x_axis)
    y_scale = scale_of_values(extent(facets, metric), metric.form)
    pictures: list[Html] = []
    for facet in facets:
        plot = svg.Plot(x_scale, y_scale, 340, 220, metric.title, charts.x_axis.name, part=facet.title)
        for curve in facet.curves:
            name = "" if charts.lines is None else f"{charts.axes[charts.lines].labels[curve.number]}: "
            plot.add(svg.coloured(curve.colour, *_curve(plot, places, curve, metric, name)))
        pictures.append(plot.svg(f"{metric.title}{f' – {facet.title}' if facet.title else ''}"))
    return pictures


def _curve(plot: svg.Plot, places: Sequence[float], curve: Curve, metric: Metric, name: str) -> list[Html]:
    parts: list[Html] = []
    bounds = [(places[step], bounds_of(mean, metric)) for step, mean in curve.means]
    known = [(x, ends) for x, ends in bounds if ends is not None]
    if len(known) == len(bounds):
        upper, lower = ([plot.place(x, ends[side]) for x, ends in known] for side in (1, 0))
        parts.append(svg.polygon([*upper, *reversed(lower)], "band"))
    centres = [plot.place(places[step], mean.mean) for step, mean in curve.means]
    parts.append(svg.polyline(centres, "line"))
    for place, (_, mean) in zip(centres, curve.means, strict=True):
        parts.append(svg.mark(curve.colour, place, f"{name}{mean_words(mean, metric)}"))
    return parts


def map_pictures(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> list[Html]:
    """Draw a heat map for each facet: the mean in each cell, and the reach of its 95 % interval."""
    means = [mean.mean for facet in facets for mean in facet.means]
    return [_map(charts, facet, metric, min(means), max(means)) for facet in facets]


def _map(charts: StudyCharts, facet: Facet, metric: Metric, low: float, high: float) -> Html:
    assert charts.lines is not None
    across, down = charts.x_axis, charts.axes[charts.lines]
    left = 16 + 7 * max(len(label) for label in (*down.labels, down.name))
    width, height = left + _CELL * len(across.steps) + 8, 48 + _ROW * len(down.steps) + 24
    parts = [svg.heading(metric.title, facet.title), svg.text(down.name, left - 8, 38, anchor="end")]
    parts += [svg.text(label, left + _CELL * (step + 0.5), 38, anchor="middle")
              for step, label in enumerate(across.labels)]  # fmt: skip
    parts += [svg.text(label, left - 8, 46 + _ROW * (step + 0.6), anchor="end")
              for step, label in enumerate(down.labels)]  # fmt: skip
    known = {(curve.number, step): mean for curve in facet.curves for step, mean in curve.means}
    show = FORMS[metric.form]
    cells: list[Html] = []
    for row in range(len(down.steps)):
        for column in range(len(across.steps)):
            mean = known.get((row, column))
            x, y = left + _CELL * column, 46 + _ROW * row
            if mean is None:
                parts.append(svg.text("n/m", x + _CELL / 2, y + _ROW / 2 + 4, anchor="middle"))
                continue
            shade = 0.08 + 0.84 * ((mean.mean - low) / (high - low) if high > low else 0.0)
            value = "value on" if shade > _LIGHT else "value"
            cells.append(tag("rect", tag("title", mean_words(mean, metric)), x=x + 1, y=y + 1, width=_CELL - 2,
                             height=_ROW - 2, rx=4, class_="cell", fill_opacity=f"{shade:.2f}"))  # fmt: skip
            cells.append(svg.text(show(mean.mean), x + _CELL / 2, y + 18, class_=value, anchor="middle"))
            if mean.high is not None and mean.high > mean.mean:
                reach = f"± {show(mean.high - mean.mean)}"
                cells.append(svg.text(reach, x + _CELL / 2, y + 32, class_=value, anchor="middle"))
    parts.append(svg.coloured(0, *cells))
    parts.append(svg.text(across.name, left + _CELL * len(across.steps) / 2, height - 8, anchor="middle"))
    title = f"{metric.title}{f' – {facet.title}' if facet.title else ''}"
    return svg.picture(width, height, parts, title, f"A row for each {down.name}, a column for each {across.name}.")


def pareto_picture(charts: StudyCharts, width: int = svg.WIDE) -> Html:
    """Draw latency against copies, with the front of each condition."""
    fronts = charts.drawn_fronts
    copies, speed = BY_NAME[COPIES], BY_NAME[SPEED]
    x, y = front_scales(fronts)
    plot = svg.Plot(x, y, width, 430 if width == svg.WIDE else 320, speed.title, copies.title)
    labels: list[tuple[str, svg.Point]] = []
    for number, front in enumerate(fronts):
        line = svg.polyline([plot.place(spot.copies.mean, spot.speed.mean) for spot in front.members], "front")
        plot.add(svg.coloured(palette.NEUTRAL if charts.routers is not None else number, line))
        for spot in front.spots:
            centre = plot.place(spot.copies.mean, spot.speed.mean)
            across = [plot.place(end, spot.speed.mean) for end in ends_of(spot.copies)]
            along = [plot.place(spot.copies.mean, end) for end in ends_of(spot.speed)]
            words = (
                f"{charts.point_name(spot.point)}: {mean_words(spot.speed, speed)}, "
                f"{mean_words(spot.copies, copies)} copies, {spot.delivered:.2%} delivered"
            )
            colour = charts.colour_of(spot.point, number)
            mark = svg.mark(colour, centre, words, hollow=not spot.is_candidate)
            plot.add(svg.coloured(colour, *(svg.line(*low, *high, "reach") for low, high in (across, along)), mark))
            labels.append((charts.name_of(spot.point, front), centre))
    plot.add(*_labels(labels, plot.plane()))
    return plot.svg("p99 latency against copies per delivery")


def _labels(labels: Sequence[tuple[str, svg.Point]], plane: tuple[float, float, float]) -> list[Html]:
    """Return labels next to marks and above the axis, without overlap."""
    start, end, floor = plane
    taken = [(x - 5, y - 5, x + 5, y + 5) for _, (x, y) in labels]
    drawn: list[Html] = []
    for words, (x, y) in labels:
        wide = svg.LETTER * 2 * len(words)
        for left, bottom in ((x + 8, y - 4), (x + 8, y + 14), (x - 8 - wide, y - 4), (x - 8 - wide, y + 14)):
            box = (left, bottom - 10, left + wide, bottom + 2)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if left > start and left + wide < end and bottom < floor and free:
                taken.append(box)
                drawn.append(svg.text(words, left, bottom, class_="label"))
                break
    return drawn


ON_FRONT, START, BEST, OTHER = 0, 1, 2, 7
ENDINGS = {Ended.FINISHED: 0, Ended.BREAKS: 1, Ended.BEATEN: 7, Ended.OUT_OF_RUNS: 4}
"""Colours of a tuning's points, by the reason why they get no more seeds. Points with other reasons have no value and
are not drawn."""
FRONT_ENTRIES = {ON_FRONT: "on the front", OTHER: "other points", START: "start", BEST: "best"}
ENDED_ENTRIES = {number: str(ended) for ended, number in ENDINGS.items()}


def tuned_front(searched: Searched, bound: Budget, spots: Sequence[Spot]) -> Html:
    """Draw the aim of a tuning against a bounded metric. The bound is dotted, the Pareto front dashed."""
    aim, bounded = searched.tuning.aim, bound.figure
    start_x, start_y = (mean_of(values_at(searched.start, searched.results, each.name)) for each in (bounded, aim))
    ends = [end for end in (bound.at_least, bound.at_most) if end is not None]
    x_values = [spot.bounded.mean for spot in spots] + ([] if start_x is None else [start_x.mean]) + ends
    y_values = [spot.aim.mean for spot in spots] + ([] if start_y is None else [start_y.mean])
    x, y = scale_of_values(x_values, bounded.form), scale_of_values(y_values, aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, bounded.title)
    plot.add(*(svg.coloured(START, plot.upright(end, "bound")) for end in ends))
    members = sorted((spot for spot in spots if spot.on_front), key=lambda spot: spot.bounded.mean)
    front = svg.polyline([plot.place(spot.bounded.mean, spot.aim.mean) for spot in members], "front")
    plot.add(svg.coloured(ON_FRONT, front))
    for spot in sorted(spots, key=lambda spot: spot.on_front):
        number = BEST if spot.tried is searched.best else ON_FRONT if spot.on_front else OTHER
        words = f"{_value(spot.bounded, bounded)}, {_value(spot.aim, aim)}"
        place = plot.place(spot.bounded.mean, spot.aim.mean)
        plot.add(_tried(searched, spot.tried, number, place, words, hollow=number == OTHER))
    if start_x is not None and start_y is not None:
        plot.add(svg.coloured(START, svg.mark(START, plot.place(start_x.mean, start_y.mean), "start")))
    return plot.svg(f"{aim.title} against {bounded.title}")


def search_picture(searched: Searched) -> Html | None:
    """Draw the aim of each point in the order of the search, and the best so far; None without a measured point."""
    aim = searched.tuning.aim
    measured: list[tuple[int, Tried, Ended, Mean]] = []
    for number, each in enumerate(searched.tried, 1):
        mean, ended = mean_of(values_at(each.point, searched.results, aim.name)), each.ended
        if mean is not None and ended is not None and ended in ENDINGS:
            measured.append((number, each, ended, mean))
    if not measured:
        return None
    x = scale_of_values([0.0, float(len(searched.tried))], "count")
    y = scale_of_values([mean.mean for *_, mean in measured], aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, "points in the order of the search")
    keeping = {each.steps for each in searched.keeping}
    stairs = _best_so_far(searched, [(number, mean.mean) for number, each, _, mean in measured
                                     if each.steps in keeping])  # fmt: skip
    plot.add(svg.coloured(BEST, svg.polyline([plot.place(*step) for step in stairs], "front")))
    for number, each, ended, mean in measured:
        colour = ENDINGS[ended]
        hollow = each.steps not in keeping or colour == OTHER
        words = f"{_value(mean, aim)}, {ended}"
        plot.add(_tried(searched, each, colour, plot.place(number, mean.mean), words, hollow=hollow))
    return plot.svg(f"{aim.title}, point by point")


def _tried(searched: Searched, tried: Tried, number: int, place: svg.Point, words: str, *, hollow: bool) -> Html:
    return svg.coloured(number, svg.mark(number, place, f"{steps_words(searched, tried)}: {words}", hollow=hollow))


def _value(mean: Mean, metric: Metric) -> str:
    return f"{metric.title} {mean_words(mean, metric)}"


def _best_so_far(searched: Searched, values: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return the corners of the stairs that show the best value so far, up to the end of the search."""
    better = searched.tuning.better
    steps: list[tuple[float, float]] = []
    best: float | None = None
    for number, value in values:
        if best is None or better(value) < better(best):
            steps += [(number, step) for step in ((value,) if best is None else (best, value))]
            best = value
    return steps if best is None else [*steps, (len(searched.tried), best)]
