"""The pictures of a study as sheets: curves with 95 % intervals, maps, and the front of speed against copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hearsay.metrics import Metric
from hearsay.report.paper.sheet import (
    COLOURS,
    COLUMN,
    MARKS,
    TWO_COLUMNS,
    in_two_lines,
    labelled,
    legend,
    logarithmic,
    sheet,
    shown,
    unit_of,
)
from hearsay.report.study.heat_maps import MOST_COLUMNS
from hearsay.report.study.multiples import Line, bounds_of, lines_of
from hearsay.report.study.multiples import legend as names_of_lines
from hearsay.report.study.pareto import COPIES, SPEED, Front, drawn_fronts, fronts
from hearsay.report.study.roles import Roles, at, roles, where
from hearsay.report.study.study_page import MAPPED
from hearsay.studies.figures import BY_NAME, COMPARED, COSTS
from hearsay.studies.statistics import mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at
from hearsay.text.numbers import FORMS

_DOWN = 2.1
_NAME_PIXELS, _LINE_PIXELS = 70, 10
"""Room for a name on the sheet as matplotlib measures it: 100 to an inch."""
_LOG_FROM = 30


def study_sheets(swept: Swept) -> Iterator[tuple[str, Any]]:
    """Each with the name of its file."""
    found = roles(swept.study)
    if found is not None:
        for figure in (*(BY_NAME[name] for name in COMPARED), *COSTS):
            drawn = _curves(swept, found, figure)
            if drawn is not None:
                yield f"curves-{figure.name}", drawn
        for name in MAPPED:
            drawn = _maps(swept, found, BY_NAME[name])
            if drawn is not None:
                yield f"map-{name}", drawn
    conditions = drawn_fronts(fronts(swept))
    if conditions:
        yield "front", _front(swept, conditions)


def _curves(swept: Swept, found: Roles, figure: Metric) -> Any | None:
    facets = [(facet, lines_of(swept, found, facet, figure)) for facet in found.facets]
    values = [value for _, lines in facets for line in lines for _, mean in line.places for value in
              (mean.mean, *bounds_of(mean, figure))]  # fmt: skip
    if not values:
        return None
    names = [shown(name) for name in names_of_lines(swept, found)]
    drawn, grid = _grid(len(facets), bool(names))
    factor, unit = unit_of(figure.form, max(values))
    axis = swept.study.axes[found.x]
    handles: dict[int, Any] = {}
    for axes, (facet, lines) in zip(grid, facets, strict=False):
        for line in lines:
            handles[line.number] = _curve(axes, line, figure, factor)
        axes.set_title(shown(where(swept.study, facet)), loc="left")
        axes.set_xlabel(shown(axis.name))
        axes.set_ylabel(labelled(figure.title, unit))
        if axis.numbers is None:
            axes.set_xticks(range(len(axis.steps)), [shown(label, 20) for label in axis.labels])
        elif axis.numbers[0] > 0 and axis.numbers[-1] / axis.numbers[0] >= _LOG_FROM:
            logarithmic(axes, "x")
        if min(values) > 0 and max(values) / min(values) >= _LOG_FROM and figure.form != "percent":
            logarithmic(axes, "y")
        elif min(values) >= 0 and min(values) < 0.6 * max(values):
            axes.set_ylim(bottom=0)
        if figure.form == "percent" and max(values) <= 1:
            bottom, top = axes.get_ylim()
            axes.set_ylim(bottom, min(top, 100 + 0.02 * (100 - bottom)))
    if names:
        order = sorted(handles)
        legend(drawn, [handles[number] for number in order], [names[number] for number in order])
    return drawn


def _curve(axes: Any, line: Line, figure: Metric, factor: float) -> Any:
    colour = COLOURS[line.number % len(COLOURS)]
    x = [place for place, _ in line.places]
    ends = [bounds_of(mean, figure) for _, mean in line.places]
    if all(ends):
        low, high = np.asarray(ends).T * factor
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    y = [mean.mean * factor for _, mean in line.places]
    (drawn,) = axes.plot(x, y, color=colour, marker=MARKS[line.number % len(MARKS)])
    return drawn


def _maps(swept: Swept, found: Roles, figure: Metric) -> Any | None:
    study = swept.study
    if found.lines is None or len(study.axes[found.x].steps) > MOST_COLUMNS:
        return None
    across, down = study.axes[found.x], study.axes[found.lines]
    tables: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    for facet in found.facets:
        table = np.full((len(down.steps), len(across.steps)), np.nan)
        for point in at(swept.points, facet):
            mean = mean_of(values_at(point, swept.results, figure.name))
            if mean is not None:
                table[point.steps[found.lines], point.steps[found.x]] = mean.mean
        tables.append(table)
    if all(np.isnan(table).all() for table in tables):
        return None
    lowest, highest = min(map(np.nanmin, tables)), max(map(np.nanmax, tables))
    lowest = lowest if lowest < highest else 0.9 * highest
    factor, unit = unit_of(figure.form, float(highest))
    height = 0.9 + 0.32 * len(down.steps)
    drawn, grid = _grid(len(tables), False, height)
    image: Any = None
    for axes, facet, table in zip(grid, found.facets, tables, strict=False):
        image = axes.imshow(
            table * factor, cmap="cividis", vmin=lowest * factor, vmax=highest * factor, aspect="auto"
        )
        axes.grid(False)
        axes.set_title(shown(where(study, facet)), loc="left")
        axes.set_xticks(range(len(across.steps)), [shown(label, 14) for label in across.labels])
        axes.set_yticks(range(len(down.steps)), [shown(label, 14) for label in down.labels])
        axes.set_xlabel(shown(across.name))
        axes.set_ylabel(in_two_lines(shown(down.name), height))
        for (row, place), value in np.ndenumerate(table):
            bright = highest > lowest and (value - lowest) / (highest - lowest) > 0.55
            words = "n/m" if np.isnan(value) else FORMS[figure.form](float(value))
            axes.text(place, row, words, ha="center", va="center", fontsize=6, color="black" if bright else "white")
    words = in_two_lines(labelled(figure.title, unit), height)
    drawn.colorbar(image, ax=list(grid[: len(tables)]), label=words)
    return drawn


def _front(swept: Swept, conditions: list[Front]) -> Any:
    drawn = sheet(TWO_COLUMNS, 3.6)
    axes = drawn.subplots()
    handles: list[Any] = []
    for number, front in enumerate(conditions):
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        members = front.members
        x, y = [spot.copies.mean for spot in members], [spot.speed.mean for spot in members]
        handles += axes.plot(x, y, color=colour, marker=mark)
        for spot in front.spots:
            axes.plot(spot.copies.mean, spot.speed.mean, color=colour, marker=mark,
                      markerfacecolor=colour if spot.eligible else "white")  # fmt: skip
    axes.set_xlabel(BY_NAME[COPIES].title)
    axes.set_ylabel(labelled(BY_NAME[SPEED].title, "ms"))
    axes.margins(0.1)
    _name_spots(axes, swept, conditions)
    if len(conditions) > 1:
        legend(drawn, handles, [shown(where(swept.study, front.condition)) for front in conditions])
    return drawn


def _name_spots(axes: Any, swept: Swept, conditions: Sequence[Front]) -> None:
    """Which choice a point is, where its name does not lie on another one's."""
    taken: list[tuple[float, float]] = []
    for front in conditions:
        chosen = [axis for axis in range(len(swept.study.axes)) if axis not in front.condition]
        for spot in front.spots:
            place = spot.copies.mean, spot.speed.mean
            x, y = axes.transData.transform(place)
            steps = {axis: spot.point.steps[axis] for axis in chosen}
            name = (
                where(swept.study, steps) if len(chosen) > 1 else swept.study.axes[chosen[0]].labels[steps[chosen[0]]]
            )
            if all(abs(x - left) > _NAME_PIXELS or abs(y - low) > _LINE_PIXELS for left, low in taken):
                taken.append((x, y))
                axes.annotate(shown(name, 24), place, xytext=(4, 3), textcoords="offset points", fontsize=6)


def _grid(facets: int, with_legend: bool, height: float = _DOWN) -> tuple[Any, Any]:
    """One picture is as wide as a column, several stand two beside each other, on one scale."""
    across = min(2, facets)
    down = -(-facets // across)
    drawn = sheet(COLUMN if across == 1 else TWO_COLUMNS, height * down + 0.3 * with_legend)
    grid = drawn.subplots(down, across, squeeze=False, sharey=True).ravel()
    for axes in grid[facets:]:
        axes.set_axis_off()
    return drawn, grid
