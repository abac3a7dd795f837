"""The charts of a report as data. The script of the page draws them; `paper_runs.py` draws them for papers.

`assets/figures.toml` declares the charts; the modules `figures_*.py` add their series. A curve of millions of values
is reduced to a few hundred points of the same shape.

Integers stay exact, other numbers are rounded to five digits, and numbers that are not finite become null.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hearsay.number_text import Form
from hearsay.report.html import asset
from hearsay.report.runs import Floats, Run, View

Kind = Literal["lines", "bars", "mesh", "spread"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a chart."""

    label: str
    format: Form
    scale: Literal["linear", "log"] = "linear"
    can_be_log: bool = False
    top: float | None = None
    """Value at which the axis ends (1 for shares); None if it ends at the highest value."""
    zoom: bool = False
    """True if the axis may start above 0, for shares near 1."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot of a chart of lines. All plots of a chart share the x axis. The key `panel` of a series is the index of
    its plot; without it, the series is in the first plot.
    """

    y: Axis
    height: int = 240
    """Pixels on the page."""


@dataclass(slots=True)
class Figure:
    """A chart. Each series is a dictionary with the keys `run` and `topic` (see `view_keys`) and keys of its kind."""

    id: str
    title: str
    question: str
    kind: Kind
    source: str
    """The result table with the data."""
    x: Axis | None = None
    panels: Sequence[Panel] = ()
    measures: Sequence[str] = ()
    """Meanings of the dash patterns. The key `measure` of a series is an index of this list."""
    series: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    """Remarks below the chart, each about a view."""
    absent: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    """Views without a series, each with the reason. For a view with neither a series nor a reason, the page shows
    `why_empty`.
    """
    wide: bool = False
    optional: bool = False
    """True if only some routers have such data. Then the chart is left out if it has no series."""
    measured_as: str = ""
    """The row of the table `measured` with the reason why a run has no series; empty if there is no such row."""
    of_one_topic: bool = False
    """True if the chart cannot show all topics together."""
    why_empty: str = ": not measured, or there were none"
    """Possible reasons why the table `source` has no rows for a view, in the words of the page."""

    def rows(self, runs: Sequence[Run], *columns: str) -> Iterator[tuple[Run, View, Any]]:
        """Yield each view with its run and its rows of the table `source`, with these columns or, by default, all.
        With `of_one_topic`, yield only views of one topic.
        """
        for run in runs:
            table = run.read(self.source, *columns)
            for view in run.topic_views if self.of_one_topic else run.views:
                yield run, view, view.rows(table)

    def add(self, view: View, **keys: Any) -> None:
        """Add a series about a view, with these keys. In a chart of lines or bars, its values are rounded."""
        for name in {"x", "y", "low", "high", "values"} & keys.keys() if self.kind in ("lines", "bars") else ():
            keys[name] = numbers(keys[name])
        self.series.append({**view_keys(view), **keys})

    def to_json(self) -> dict[str, Any]:
        """Return the chart as data for the script of the page."""
        return {
            **{name: getattr(self, name) for name in ("id", "title", "question", "kind")},
            "x": None if self.x is None else asdict(self.x),
            "panels": [asdict(panel) for panel in self.panels],
            "measures": list(self.measures),
            "series": self.series,
            "ofOneTopic": self.of_one_topic,
            "absent": [{**view_keys(view), "reason": reason} for view, reason in self.absent],
            "missing": f"no rows in the table “{self.source}”{self.why_empty}.",
        }


def declared_figures() -> Iterator[Figure]:
    """Yield the charts of a report, without series."""
    for name, keys in tomllib.loads(asset("figures.toml")).items():
        x = Axis(**keys.pop("x")) if "x" in keys else None
        panels = [Panel(Axis(**panel.pop("y")), **panel) for panel in keys.pop("panels", ())]
        yield Figure(name, x=x, panels=panels, **keys)


def view_keys(view: View) -> dict[str, Any]:
    """Return the keys `run` and `topic` of a series about a view: the indexes of its run and of its topic."""
    return {"run": view.run, "topic": view.place}


def numbers(values: Iterable[float | None]) -> list[float | int | None]:
    """Return values as numbers for JSON, rounded as the docstring of the module says."""
    return [_number(value) for value in values]


def _number(value: float | None) -> float | int | None:
    if value is None or not isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


CURVE_POINTS = 400
LOAD_POINTS = 201
BUCKETS = 240


def cdf(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the distinct values, and for each value the share of the total weight of all values up to this one.

    At most `CURVE_POINTS` values are returned, including the lowest and the highest. Half of them are evenly spread
    over the values, and half over the shares, so that both the steep part and the tail of the curve keep their shape.
    """
    if not len(values) or not weights.sum():
        return np.empty(0), np.empty(0)
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    shares = np.cumsum(np.add.reduceat(weights[order], first))
    shares /= shares[-1]
    if len(distinct) > CURVE_POINTS:
        half = CURVE_POINTS // 2
        by_value = np.searchsorted(distinct, _spaced(distinct[0], distinct[-1], half))
        by_share = np.searchsorted(shares, _spaced(shares[0], 1, half))
        kept = np.unique(np.concatenate((by_value, by_share)).clip(0, len(distinct) - 1))
        distinct, shares = distinct[kept], shares[kept]
    return distinct, shares


def sorted_load(values: Floats, nodes: int) -> tuple[Floats, Floats]:
    """Return at most `LOAD_POINTS` evenly spaced ranks from 0 to 1, and the load of the node at each rank. Nodes are
    ranked by ascending load. `values` has the loads of some of the `nodes` nodes; all other nodes have the load 0.
    """
    loads = np.sort(np.concatenate((np.zeros(max(0, nodes - len(values))), values)))
    if not len(loads):
        return np.empty(0), np.empty(0)
    ranks = np.unique(np.linspace(0, len(loads) - 1, min(LOAD_POINTS, len(loads))).round().astype(np.int64))
    return ranks / max(1, len(loads) - 1), loads[ranks]


def buckets(times: Floats) -> list[NDArray[np.int64]]:
    """Group adjacent times into at most `BUCKETS` groups. Return the indexes of the times in each group, in order."""
    if not len(times):
        return []
    order = np.argsort(times, kind="stable")
    if len(order) <= BUCKETS:
        return [order[place : place + 1] for place in range(len(order))]
    in_order = times[order]
    edges = _spaced(in_order[0], in_order[-1], BUCKETS + 1)[1:-1]
    return [group for group in np.split(order, np.searchsorted(in_order, edges)) if len(group)]


def evenly(length: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of the indexes below `length`, evenly spread, from the first to the last; if `most` is 1,
    only the first.
    """
    if length <= most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))


def _spaced(low: float, high: float, points: int) -> Floats:
    return np.linspace(float(low), float(high), points, dtype=np.float64)
