"""The charts of a report as data. The script of the page draws them, and `paper_runs.py` for papers.

`assets/figures.toml` declares them; the modules `figures_*.py` add their series.

Integers stay exact, other numbers are rounded to five digits, and numbers that are not finite become null.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from hearsay.report.html import asset
from hearsay.report.runs import Run, View

Kind = Literal["lines", "bars", "mesh", "spread"]
Format = Literal["ms", "s", "percent", "bytes", "count", "number"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a chart."""

    label: str
    format: Format
    scale: Literal["linear", "log"] = "linear"
    can_be_log: bool = False
    top: float | None = None
    """Fixed end of the axis (1 for shares), if any."""
    zoom: bool = False
    """True if the axis may start above 0, for shares near 1."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot of a chart of lines. A series names its plot by number; the default is 0."""

    y: Axis
    height: int = 240


@dataclass(slots=True)
class Figure:
    """A chart. Each series has `run` and `topic` (its place); its other keys depend on the kind."""

    id: str
    title: str
    question: str
    kind: Kind
    source: str
    """The result table with the data."""
    x: Axis | None = None
    panels: Sequence[Panel] = ()
    measures: Sequence[str] = ()
    """Meanings of the dash patterns, by their numbers in series."""
    series: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    absent: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    """Reasons why views have no series, unless nothing was measured."""
    wide: bool = False
    optional: bool = False
    """True if only some routers have it. Without data, it is omitted."""
    measured_as: str = ""
    """The row of the table `measured` that explains why the chart is missing."""
    of_one_topic: bool = False
    """True if the chart cannot show all topics together."""
    why_empty: str = ": not measured, or there were none"
    """Why the table may have no rows for a run."""

    def rows(self, runs: Sequence[Run], *columns: str) -> Iterator[tuple[Run, View, Any]]:
        """Yield the rows of the source for each view, or for each view of a single topic."""
        for run in runs:
            table = run.read(self.source, *columns)
            for view in run.topic_views if self.of_one_topic else run.views:
                yield run, view, view.rows(table)

    def add(self, view: View, **keys: Any) -> None:
        """Add a series; numbers of lines and bars are rounded."""
        for name in {"x", "y", "low", "high", "values"} & keys.keys() if self.kind in ("lines", "bars") else ():
            keys[name] = numbers(keys[name])
        self.series.append({**place(view), **keys})

    def note(self, view: View, words: str) -> None:
        self.notes.append((view, words))

    def lack(self, view: View, reason: str) -> None:
        """Say why a view has no series."""
        self.absent.append((view, reason))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "question": self.question,
            "kind": self.kind,
            "x": None if self.x is None else asdict(self.x),
            "panels": [asdict(panel) for panel in self.panels],
            "measures": list(self.measures),
            "series": self.series,
            "ofOneTopic": self.of_one_topic,
            "absent": [{**place(view), "reason": reason} for view, reason in self.absent],
            "missing": f"no rows in the table “{self.source}”{self.why_empty}.",
        }


def declared_figures() -> Iterator[Figure]:
    """Yield the charts of a report, without series."""
    for name, keys in tomllib.loads(asset("figures.toml")).items():
        x = Axis(**keys.pop("x")) if "x" in keys else None
        panels = [Panel(Axis(**panel.pop("y")), **panel) for panel in keys.pop("panels", ())]
        yield Figure(name, x=x, panels=panels, **keys)


def place(view: View) -> dict[str, Any]:
    """Return the keys `run` and `topic`, which every series has."""
    return {"run": view.run, "topic": view.place}


def numbers(values: Iterable[float | None]) -> list[float | int | None]:
    """Return values as numbers of JSON."""
    return [_number(value) for value in values]


def _number(value: float | None) -> float | int | None:
    if value is None or not isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded
