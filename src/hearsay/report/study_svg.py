"""The charts of sweeps as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import BY_NAME, Metric
from hearsay.report import svg
from hearsay.report.html import Html, tag
from hearsay.report.scales import scale_of_axis, scale_of_values
from hearsay.report.study_charts import COPIES, SPEED, Curve, Facet, StudyCharts, bounds_of, extent, mean_words
from hearsay.studies.statistics import Mean
from hearsay.text.numbers import FORMS

_CELL, _ROW = 74, 40
_LIGHT = 0.55
"""Shade above which words on a cell are white."""


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
            plot.add(svg.coloured(curve.number, *_curve(plot, places, curve, metric, name)))
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
        parts.append(svg.mark(curve.number, place, f"{name}{mean_words(mean, metric)}"))
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
    return svg.picture(width, height, parts, f"{metric.title}{f' – {facet.title}' if facet.title else ''}")


def pareto_picture(charts: StudyCharts) -> Html | None:
    """Draw latency against copies, with the front of each condition."""
    fronts = charts.drawn_fronts
    spots = [spot for front in fronts for spot in front.spots]
    if not spots:
        return None
    copies, speed = BY_NAME[COPIES], BY_NAME[SPEED]
    x = scale_of_values([end for spot in spots for end in _ends(spot.copies)], "number")
    y = scale_of_values([end for spot in spots for end in _ends(spot.speed)], "ms")
    plot = svg.Plot(x, y, 700, 400, speed.title, copies.title)
    labels: list[tuple[str, svg.Point]] = []
    for number, front in enumerate(fronts):
        parts = [svg.polyline([plot.place(spot.copies.mean, spot.speed.mean) for spot in front.members], "front")]
        for spot in front.spots:
            centre = plot.place(spot.copies.mean, spot.speed.mean)
            across = [plot.place(end, spot.speed.mean) for end in _ends(spot.copies)]
            along = [plot.place(spot.copies.mean, end) for end in _ends(spot.speed)]
            parts += [svg.line(*low, *high, "reach") for low, high in (across, along)]
            words = (
                f"{charts.point_name(spot.point)}: {mean_words(spot.speed, speed)}, "
                f"{mean_words(spot.copies, copies)} copies, {spot.delivered:.2%} delivered"
            )
            parts.append(svg.mark(number, centre, words, hollow=not spot.is_candidate))
            labels.append((charts.choice_name(spot.point, front), centre))
        plot.add(svg.coloured(number, *parts))
    plot.add(*_labels(labels, plot.width))
    return plot.svg("p99 latency against copies per delivery")


def _labels(labels: Sequence[tuple[str, svg.Point]], width: int) -> list[Html]:
    """Return labels beside marks, where they overlap nothing."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for _, (x, y) in labels]
    drawn: list[Html] = []
    for words, (x, y) in labels:
        wide = svg.LETTER * 2 * len(words)
        for left, bottom in ((x + 8, y - 4), (x + 8, y + 14), (x - 8 - wide, y - 4), (x - 8 - wide, y + 14)):
            box = (left, bottom - 10, left + wide, bottom + 2)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if left > 0 and left + wide < width and free:
                taken.append(box)
                drawn.append(svg.text(words, left, bottom, class_="label"))
                break
    return drawn


def _ends(mean: Mean) -> tuple[float, float]:
    return (mean.mean, mean.mean) if mean.low is None or mean.high is None else (max(0.0, mean.low), mean.high)
