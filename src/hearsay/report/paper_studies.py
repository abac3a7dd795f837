"""The charts of a sweep for papers: curves with 95 % intervals, heat maps, and the front of speed against copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.metrics import BY_NAME, Metric
from hearsay.number_text import FORMS, plain
from hearsay.report.paper import (
    COLOURS,
    COLUMN,
    MARKS,
    TWO_COLUMNS,
    as_label,
    grid,
    in_two_lines,
    labelled,
    legend,
    sheet,
    unit_of,
    write_sheets,
)
from hearsay.report.study_charts import COPIES, SPEED, Curve, Facet, StudyCharts, bounds_of, extent, front_scales
from hearsay.report.svg import Scale, scale_of_axis, scale_of_values
from hearsay.studies.runner import Swept

_WIDTHS = COLUMN, TWO_COLUMNS
_HEIGHT = 2.1
"""Height of a row of curves in inches."""
_NAME_PIXELS, _LINE_PIXELS = 70, 10
"""Width and height of the space for the name of a point, in pixels. An inch has 100 pixels."""
_EDGE = 0.03
"""Margin beyond each end of a scale, as a share of its length."""


def write_study_figures(swept: Swept, folder: Path) -> list[Path]:
    """Write the charts of a sweep, and return the files."""
    return write_sheets(study_sheets(swept), folder)


def study_sheets(swept: Swept) -> Iterator[tuple[str, Any]]:
    """Yield the name of the file and the drawing of each chart."""
    charts = StudyCharts(swept)
    for kind, metric, facets in charts.charts():
        if facets and kind == "maps":
            yield f"map-{metric.name}", _maps(charts, facets, metric)
        elif facets:
            yield f"curves-{metric.name}", _curves(charts, facets, metric)
    if charts.drawn_fronts:
        yield "front", _front(charts)


def _curves(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> Any:
    names = {number: as_label(name) for number, name in charts.legend.items()}
    drawn, panes = grid(len(facets), _WIDTHS, _HEIGHT, 0.3 * bool(names), sharey=True)
    x, places = scale_of_axis(charts.x_axis)
    y = scale_of_values(extent(facets, metric), metric.form)
    handles: dict[int, Any] = {}
    for axes, facet in zip(panes, facets, strict=True):
        for curve in facet.curves:
            across = [x.at(places[step]) for step, _ in curve.means]
            handles[curve.colour] = _curve(axes, across, y, curve, metric)
        _mark_scales(axes, x, y)
        axes.set_title(as_label(facet.title), loc="left")
        axes.set_xlabel(as_label(charts.x_axis.name))
        axes.set_ylabel(metric.title)
    if names:
        order = sorted(handles)
        legend(drawn, [handles[number] for number in order], [names[number] for number in order])
    return drawn


def _curve(axes: Any, across: Sequence[float], y: Scale, curve: Curve, metric: Metric) -> Any:
    colour = COLOURS[curve.colour % len(COLOURS)]
    known = [ends for ends in (bounds_of(mean, metric) for _, mean in curve.means) if ends is not None]
    if len(known) == len(across):
        low, high = ([y.at(ends[side]) for ends in known] for side in (0, 1))
        axes.fill_between(across, low, high, color=colour, alpha=0.18, linewidth=0)
    up = [y.at(mean.mean) for _, mean in curve.means]
    (drawn,) = axes.plot(across, up, color=colour, marker=MARKS[curve.colour % len(MARKS)])
    return drawn


def _mark_scales(axes: Any, x: Scale, y: Scale) -> None:
    """Set the limits and ticks of both axes. Positions on the axes are from 0 to 1, as the scales return them."""
    for which, scale in (("x", x), ("y", y)):
        getattr(axes, f"set_{which}lim")(-_EDGE, 1 + _EDGE)
        places, words = zip(*scale.ticks, strict=True)
        getattr(axes, f"set_{which}ticks")(places, [as_label(plain(each), 20) for each in words])


def _maps(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> Any:
    assert charts.lines is not None
    across, down = charts.x_axis, charts.axes[charts.lines]
    tables = [np.full((len(down.steps), len(across.steps)), np.nan) for _ in facets]
    for table, facet in zip(tables, facets, strict=True):
        for curve in facet.curves:
            for step, mean in curve.means:
                table[curve.number, step] = mean.mean
    lowest, highest = float(np.nanmin(tables)), float(np.nanmax(tables))
    lowest = lowest if lowest < highest else 0.9 * highest
    factor, unit = unit_of(metric.form, highest)
    height = 0.9 + 0.32 * len(down.steps)
    drawn, panes = grid(len(tables), _WIDTHS, height, sharey=True)
    image: Any = None
    for axes, facet, table in zip(panes, facets, tables, strict=True):
        ends = {"vmin": lowest * factor, "vmax": highest * factor}
        image = axes.imshow(table * factor, cmap="cividis", aspect="auto", **ends)
        axes.grid(False)
        axes.set_title(as_label(facet.title), loc="left")
        axes.set_xticks(range(len(across.steps)), [as_label(label, 14) for label in across.labels])
        axes.set_yticks(range(len(down.steps)), [as_label(label, 14) for label in down.labels])
        axes.set_xlabel(as_label(across.name))
        axes.set_ylabel(in_two_lines(as_label(down.name), height))
        for (row, place), value in np.ndenumerate(table):
            is_bright = highest > lowest and (value - lowest) / (highest - lowest) > 0.55
            words = "n/m" if np.isnan(value) else FORMS[metric.form](float(value))
            colour = "black" if is_bright else "white"
            axes.text(place, row, words, ha="center", va="center", fontsize=6, color=colour)
    words = in_two_lines(labelled(metric.title, unit), height)
    drawn.colorbar(image, ax=list(panes), label=words)
    return drawn


def _front(charts: StudyCharts) -> Any:
    drawn = sheet(TWO_COLUMNS, 3.6)
    axes = drawn.subplots()
    x, y = front_scales(charts.drawn_fronts)
    handles: dict[int, Any] = {}
    for number, front in enumerate(charts.drawn_fronts):
        line = [x.at(one.copies.mean) for one in front.members], [y.at(one.speed.mean) for one in front.members]
        axes.plot(*line, color=COLOURS[number % len(COLOURS)] if charts.router_axis is None else "#888888", zorder=1)
        for one in front.points:
            place = charts.colour_of(one.point, number)
            colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
            look = {"color": colour, "marker": mark, "linestyle": "none"}
            face = colour if one.is_candidate else "white"
            axes.plot(x.at(one.copies.mean), y.at(one.speed.mean), markerfacecolor=face, **look)
            handles[place] = axes.plot([], [], **look)[0]
    _mark_scales(axes, x, y)
    axes.set_xlabel(BY_NAME[COPIES].title)
    axes.set_ylabel(BY_NAME[SPEED].title)
    _name_points(axes, charts, x, y)
    names = {place: name for place, name in charts.front_legend.items() if place in handles}
    if len(names) > 1:
        legend(drawn, [handles[place] for place in names], [as_label(name) for name in names.values()])
    return drawn


def _name_points(axes: Any, charts: StudyCharts, x: Scale, y: Scale) -> None:
    """Write the names of the points of all fronts, except names that would overlap another name."""
    taken: list[tuple[float, float]] = []
    for front in charts.drawn_fronts:
        for one in front.points:
            place = x.at(one.copies.mean), y.at(one.speed.mean)
            across, up = axes.transData.transform(place)
            if all(abs(across - left) > _NAME_PIXELS or abs(up - low) > _LINE_PIXELS for left, low in taken):
                taken.append((across, up))
                name = as_label(charts.short_name(one.point, front), 24)
                axes.annotate(name, place, xytext=(4, 3), textcoords="offset points", fontsize=6)
