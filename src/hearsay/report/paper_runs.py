"""The figures of runs for papers: the charts of the report (`figure.py`), drawn by matplotlib."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.report.figure import Figure
from hearsay.report.figures_delivery import TURN
from hearsay.report.palette import mark_of
from hearsay.report.paper import (
    COLOURS,
    COLUMN,
    DASHES,
    HATCHES,
    MARKS,
    TWO_COLUMNS,
    as_label,
    grid,
    in_two_lines,
    label_axis,
    labelled,
    legend,
    sheet,
    unit_of,
    write_sheets,
)
from hearsay.report.run_page import figures_of
from hearsay.report.runs import Selection, open_runs

Series = Sequence[dict[str, Any]]
_LEGEND, _FOOT = 0.28, 0.45
"""Inches for a line of the legend, and for the labels of an axis."""
_PANEL_PIXELS = 130.0
"""Pixels per inch: the height of a panel on the page, divided by its height on paper."""
_MARKS_APART = 0.16
"""Distance between two marks of a line, as a share of the diagonal of the axes."""
_LARGEST_MARK, _SMALLEST_MARK = 5.0, 3.0
"""Sizes in points."""
_MAX_NAME_LENGTH = 40


def write_run_figures(runs: Sequence[Path], folder: Path) -> list[Path]:
    """Write every chart of the report that has data, and return the files."""
    return write_sheets(_run_sheets(open_runs(runs)), folder)


def _run_sheets(selection: Selection) -> Iterator[tuple[str, Any]]:
    """Yield the file name and the drawing of each chart; with several topics, the file name contains the topic."""
    names = _file_names(selection.topics)
    for figure in figures_of(selection.runs):
        for place, name in enumerate(names):
            series = [each for each in figure.series if each["topic"] == place]
            if series:
                yield f"{figure.id}-{name}" if len(names) > 1 else figure.id, drawn_sheet(figure, series, selection)


def _file_names(topics: Sequence[str]) -> list[str]:
    """Return a different name for the files of each topic, of lower-case letters, digits and dashes."""
    names: list[str] = []
    for number, topic in enumerate(topics):
        name = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:_MAX_NAME_LENGTH] or f"topic-{number}"
        while name in names:
            name = f"{name}-{number}"
        names.append(name)
    return names


def drawn_sheet(figure: Figure, series: Series, runs: Selection) -> Any:
    """Draw a chart. `series` are its series about one topic."""
    return _DRAW[figure.kind](figure, series, runs)


def _lines(figure: Figure, series: Series, runs: Selection) -> Any:
    used = sorted({_panel(each) for each in series})
    heights = [max(1.0, figure.panels[number].height / _PANEL_PIXELS) for number in used]
    entries = _runs_in(series, runs), _measures_in(figure, series)
    lines = sum(bool(each) for each in entries)
    width = TWO_COLUMNS if figure.wide else COLUMN
    drawn = sheet(width, sum(heights) + _FOOT + _LEGEND * lines)
    panes = drawn.subplots(len(used), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    assert figure.x is not None
    across = 1.0
    for axes, number in zip(panes, used, strict=True):
        here = [each for each in series if _panel(each) == number]
        y = figure.panels[number].y
        factor = label_axis(axes, "y", y, _highest(here, "y", "high"))
        across = unit_of(figure.x.format, _highest(series, "x"))[0]
        for each in here:
            _line(axes, each, across, factor, runs)
        if y.top is not None and not y.zoom:
            axes.set_ylim(0, y.top * factor * 1.02)
        elif y.scale == "linear" and not y.zoom and min(_all_values(here, ("y", "low")), default=0.0) >= 0:
            axes.set_ylim(bottom=0)
    label_axis(panes[-1], "x", figure.x, _highest(series, "x"))
    for axes, height in zip(panes, heights, strict=True):
        axes.set_ylabel(in_two_lines(axes.get_ylabel(), height))
    _legend(drawn, entries, runs)
    return drawn


def _line(axes: Any, each: dict[str, Any], across: float, factor: float, runs: Selection) -> None:
    run, dashes = _run(each), DASHES[each.get("measure", 0) % len(DASHES)]
    x = _values(each["x"]) * across
    if "low" in each:
        low, high = (_values(each[name]) * factor for name in ("low", "high"))
        axes.fill_between(x, low, high, color=_colour(runs, run), alpha=0.15, linewidth=0)
    look = {"linestyle": dashes, **_mark(run, runs, len(x) == 1)}
    if "dots" in each:
        look |= {"linestyle": "none", "marker": look["marker"] or ".", "markevery": None}
    elif "step" in each:
        look["drawstyle"] = "steps-post"
    axes.plot(x, _values(each["y"]) * factor, color=_colour(runs, run), **look)


def _mark(run: int, runs: Selection, alone: bool = False) -> dict[str, Any]:
    """Return the style of the marks on a run's lines. Marks distinguish the runs without colours.

    A line has marks at some of its points. The marks of each run are at other points, and those of later runs are
    smaller, so that no mark covers another. A single run has a mark only if its line is one point (`alone`).
    """
    count = len(runs.runs)
    if count == 1:
        return {"marker": "." if alone else None}
    apart = _MARKS_APART * run / count
    size = _LARGEST_MARK - (_LARGEST_MARK - _SMALLEST_MARK) * run / (count - 1)
    marker = MARKS[mark_of(runs.colours[run])]
    return {"marker": marker, "markersize": size, "markevery": (apart, _MARKS_APART)}


def _bars(figure: Figure, series: Series, runs: Selection) -> Any:
    categories: list[str] = series[0]["categories"]
    entries = _runs_in(series, runs)
    drawn = sheet(COLUMN, 0.7 + 0.14 * len(categories) * max(1.6, len(series)) + _LEGEND * bool(entries))
    axes = drawn.subplots()
    assert figure.x is not None
    factor = label_axis(axes, "x", figure.x, _highest(series, "values"))
    thick = 0.8 / len(series)
    for place, each in enumerate(series):
        at = np.arange(len(categories)) + (place - (len(series) - 1) / 2) * thick
        axes.barh(at, _values(each["values"]) * factor, thick, **_bar(_run(each), runs))
    axes.set_yticks(range(len(categories)), [as_label(name) for name in categories])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    patches: Any = import_module("matplotlib.patches")
    handles = [patches.Patch(**_bar(run, runs)) for run, _ in entries]
    if handles:
        legend(drawn, handles, [name for _, name in entries])
    return drawn


def _bar(run: int, runs: Selection) -> dict[str, Any]:
    """Return the style of a run's bars. Hatches distinguish the runs without colours."""
    hatch = HATCHES[run % len(HATCHES)] if len(runs.runs) > 1 else ""
    return {"facecolor": _colour(runs, run), "edgecolor": "white", "linewidth": 0.3, "hatch": hatch}


def _mesh(figure: Figure, series: Series, runs: Selection) -> Any:
    def fill(axes: Any, each: dict[str, Any]) -> Any:
        ends = np.asarray(each["links"], dtype=int).reshape(-1, 2)
        x, y = _values(each["x"]), _values(each["y"])
        axes.plot(x[ends].T, y[ends].T, color="#999999", linewidth=0.25, alpha=0.6, zorder=1)
        return axes.scatter(x, y, c=each["degree"], s=9, cmap="viridis", linewidths=0, zorder=2)

    return _pictures(series, runs, fill, "links of a node")


def _spread(figure: Figure, series: Series, runs: Selection) -> Any:
    """Draw the spread of a message; the colour of a node is the time of its delivery."""

    def fill(axes: Any, each: dict[str, Any]) -> Any:
        typical = each["messages"][0]
        parents = np.asarray(typical["parents"], dtype=int)
        radius = np.asarray(typical["rings"])[typical["ring"]]
        angle = np.asarray(typical["angle"]) / TURN * 2 * np.pi
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        whole_turn = np.linspace(0, 2 * np.pi, 181)
        for ring in typical["rings"]:
            axes.plot(ring * np.cos(whole_turn), ring * np.sin(whole_turn), color="#DDDDDD", linewidth=0.4)
        children = np.flatnonzero(parents >= 0)
        pairs = np.stack([children, parents[children]])
        axes.plot(x[pairs], y[pairs], color="#999999", linewidth=0.3, zorder=1)
        after = np.asarray(typical["after_us"]) / 1000
        return axes.scatter(x, y, c=after, s=9, cmap="viridis", linewidths=0, zorder=2)

    return _pictures(series, runs, fill, labelled("after publication", "ms"))


def _pictures(series: Series, runs: Selection, fill: Callable[[Any, dict[str, Any]], Any], words: str) -> Any:
    """Draw a square picture for each run, two in a row. Each has a scale of colours with the label `words`."""
    drawn, panes = grid(len(series), (COLUMN, 2 * COLUMN), 3.4)
    for axes, each in zip(panes, series, strict=True):
        dots = fill(axes, each)
        axes.set_aspect("equal")
        axes.set_axis_off()
        if len(runs.runs) > 1:
            axes.set_title(as_label(runs.runs[_run(each)].label, 40), loc="left")
        drawn.colorbar(dots, ax=axes, location="bottom", shrink=0.7, aspect=30, pad=0.02, label=words)
    return drawn


def _runs_in(series: Series, runs: Selection) -> list[tuple[int, str]]:
    """Return the runs in a legend with their names; an empty list if the report has a single run."""
    there = sorted({_run(each) for each in series}) if len(runs.runs) > 1 else []
    return [(run, as_label(runs.runs[run].label, 40)) for run in there]


def _measures_in(figure: Figure, series: Series) -> list[tuple[int, str]]:
    used = sorted({int(each["measure"]) for each in series if "measure" in each})
    return [(number, figure.measures[number]) for number in used] if len(figure.measures) > 1 else []


def _legend(drawn: Any, entries: tuple[list[tuple[int, str]], list[tuple[int, str]]], shown_runs: Selection) -> None:
    """Add a legend of runs (by colour and mark) and of measures (by dashes)."""
    runs, measures = entries
    axes = drawn.axes[0]
    handles = [
        axes.plot([], [], color=_colour(shown_runs, run), linewidth=2, **_mark(run, shown_runs))[0] for run, _ in runs
    ]
    colour = "#444444" if runs else COLOURS[0]
    handles += [axes.plot([], [], color=colour, linestyle=DASHES[number % len(DASHES)])[0] for number, _ in measures]
    words = [name for _, name in (*runs, *measures)]
    if words:
        legend(drawn, handles, words)


def _run(each: dict[str, Any]) -> int:
    return int(each["run"])


def _panel(each: dict[str, Any]) -> int:
    return int(each.get("panel", 0))


def _colour(runs: Selection, run: int) -> str:
    return COLOURS[runs.colour(run)]


def _values(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)


def _highest(series: Series, *names: str) -> float:
    return max(_all_values(series, names), default=0.0)


def _all_values(series: Series, names: Sequence[str]) -> list[float]:
    return [value for each in series for name in names for value in each.get(name, ()) if value is not None]


_DRAW: dict[str, Callable[[Figure, Series, Selection], Any]] = {
    "lines": _lines,
    "bars": _bars,
    "mesh": _mesh,
    "spread": _spread,
}
