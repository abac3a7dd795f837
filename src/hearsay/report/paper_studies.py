"""The charts of a sweep for papers: curves with 95 % intervals, heat maps, and the front of speed against copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.metrics import BY_NAME, Metric
from hearsay.report.paper import (
    COLOURS,
    COLUMN,
    MARKS,
    TWO_COLUMNS,
    in_two_lines,
    labelled,
    legend,
    logarithmic,
    require_matplotlib,
    sheet,
    shown,
    styled,
    unit_of,
    write_sheets,
)
from hearsay.report.study_charts import COPIES, SPEED, Curve, Facet, Front, StudyCharts, bounds_of, extent
from hearsay.studies.sweep import Swept
from hearsay.text.numbers import FORMS

_HEIGHT = 2.1
_NAME_PIXELS, _LINE_PIXELS = 70, 10
"""Room for a name, at 100 pixels per inch."""
_LOG_FROM = 30


def write_study_figures(swept: Swept, folder: Path) -> list[Path]:
    """Write the charts of a sweep; return the files."""
    require_matplotlib()
    with styled():
        return write_sheets(study_sheets(swept), folder)


def study_sheets(swept: Swept) -> Iterator[tuple[str, Any]]:
    """Yield each chart with the name of its file."""
    charts = StudyCharts(swept)
    for name, facets in (charts.all_curves() | charts.all_costs()).items():
        if facets:
            yield f"curves-{name}", _curves(charts, facets, BY_NAME[name])
    for name, facets in charts.all_maps().items():
        if facets:
            yield f"map-{name}", _maps(charts, facets, BY_NAME[name])
    if charts.drawn_fronts:
        yield "front", _front(charts)


def _curves(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> Any:
    values = extent(facets, metric)
    names = {number: shown(name) for number, name in charts.legend.items()}
    drawn, grid = _grid(len(facets), bool(names))
    factor, unit = unit_of(metric.form, max(values))
    axis = charts.x_axis
    places = range(len(axis.steps)) if axis.numbers is None else axis.numbers
    handles: dict[int, Any] = {}
    for axes, facet in zip(grid, facets, strict=False):
        for curve in facet.curves:
            handles[curve.colour] = _curve(axes, places, curve, metric, factor)
        axes.set_title(shown(facet.title), loc="left")
        axes.set_xlabel(shown(axis.name))
        axes.set_ylabel(labelled(metric.title, unit))
        if axis.numbers is None:
            axes.set_xticks(range(len(axis.steps)), [shown(label, 20) for label in axis.labels])
        elif axis.numbers[0] > 0 and axis.numbers[-1] / axis.numbers[0] >= _LOG_FROM:
            logarithmic(axes, "x")
        if min(values) > 0 and max(values) / min(values) >= _LOG_FROM and metric.form != "percent":
            logarithmic(axes, "y")
        elif 0 <= min(values) < 0.6 * max(values):
            axes.set_ylim(bottom=0)
        if metric.form == "percent" and max(values) <= 1:
            bottom, top = axes.get_ylim()
            axes.set_ylim(bottom, min(top, 100 + 0.02 * (100 - bottom)))
    if names:
        order = sorted(handles)
        legend(drawn, [handles[number] for number in order], [names[number] for number in order])
    return drawn


def _curve(axes: Any, places: Sequence[float], curve: Curve, metric: Metric, factor: float) -> Any:
    colour = COLOURS[curve.colour % len(COLOURS)]
    x = [places[step] for step, _ in curve.means]
    ends = [bounds_of(mean, metric) for _, mean in curve.means]
    if all(ends):
        low, high = np.asarray(ends).T * factor
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    y = [mean.mean * factor for _, mean in curve.means]
    (drawn,) = axes.plot(x, y, color=colour, marker=MARKS[curve.colour % len(MARKS)])
    return drawn


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
    drawn, grid = _grid(len(tables), False, height)
    image: Any = None
    for axes, facet, table in zip(grid, facets, tables, strict=False):
        image = axes.imshow(
            table * factor, cmap="cividis", vmin=lowest * factor, vmax=highest * factor, aspect="auto"
        )
        axes.grid(False)
        axes.set_title(shown(facet.title), loc="left")
        axes.set_xticks(range(len(across.steps)), [shown(label, 14) for label in across.labels])
        axes.set_yticks(range(len(down.steps)), [shown(label, 14) for label in down.labels])
        axes.set_xlabel(shown(across.name))
        axes.set_ylabel(in_two_lines(shown(down.name), height))
        for (row, place), value in np.ndenumerate(table):
            is_bright = highest > lowest and (value - lowest) / (highest - lowest) > 0.55
            words = "n/m" if np.isnan(value) else FORMS[metric.form](float(value))
            colour = "black" if is_bright else "white"
            axes.text(place, row, words, ha="center", va="center", fontsize=6, color=colour)
    words = in_two_lines(labelled(metric.title, unit), height)
    drawn.colorbar(image, ax=list(grid[: len(tables)]), label=words)
    return drawn


def _front(charts: StudyCharts) -> Any:
    drawn = sheet(TWO_COLUMNS, 3.6)
    axes = drawn.subplots()
    handles: dict[int, Any] = {}
    for number, front in enumerate(charts.drawn_fronts):
        members = front.members
        x, y = [spot.copies.mean for spot in members], [spot.speed.mean for spot in members]
        axes.plot(x, y, color=COLOURS[number % len(COLOURS)] if charts.routers is None else "#888888", zorder=1)
        for spot in front.spots:
            place = charts.colour_of(spot.point, number)
            colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
            look = {"color": colour, "marker": mark, "linestyle": "none"}
            face = colour if spot.is_candidate else "white"
            axes.plot(spot.copies.mean, spot.speed.mean, markerfacecolor=face, **look)
            handles[place] = axes.plot([], [], **look)[0]
    axes.set_xlabel(BY_NAME[COPIES].title)
    axes.set_ylabel(labelled(BY_NAME[SPEED].title, "ms"))
    axes.margins(0.1)
    _name_spots(axes, charts, charts.drawn_fronts)
    names = {place: name for place, name in charts.front_legend.items() if place in handles}
    if len(names) > 1:
        legend(drawn, [handles[place] for place in names], [shown(name) for name in names.values()])
    return drawn


def _name_spots(axes: Any, charts: StudyCharts, fronts: Sequence[Front]) -> None:
    """Name the points of fronts, where a name overlaps no other."""
    taken: list[tuple[float, float]] = []
    for front in fronts:
        for spot in front.spots:
            place = spot.copies.mean, spot.speed.mean
            x, y = axes.transData.transform(place)
            name = charts.name_of(spot.point, front)
            if all(abs(x - left) > _NAME_PIXELS or abs(y - low) > _LINE_PIXELS for left, low in taken):
                taken.append((x, y))
                axes.annotate(shown(name, 24), place, xytext=(4, 3), textcoords="offset points", fontsize=6)


def _grid(facets: int, with_legend: bool, height: float = _HEIGHT) -> tuple[Any, Any]:
    """Return a figure and its axes: one is as wide as a column, several stand two in a row, on one scale."""
    across = min(2, facets)
    down = -(-facets // across)
    drawn = sheet(COLUMN if across == 1 else TWO_COLUMNS, height * down + 0.3 * with_legend)
    grid = drawn.subplots(down, across, squeeze=False, sharey=True).ravel()
    for axes in grid[facets:]:
        axes.set_axis_off()
    return drawn, grid
