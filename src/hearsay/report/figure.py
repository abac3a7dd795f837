"""What a chart shows, as data: the page's script draws it, and nothing else.

Whole numbers stay exact, others are rounded to five digits, and what is not finite becomes null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np

from hearsay.pipeline.output.tables import MetricTable
from hearsay.report.run import View
from hearsay.trace.folder.arrow import pa

Kind = Literal["lines", "bars", "stacks", "histogram", "mesh", "spread"]
Format = Literal["ms", "s", "percent", "bytes", "count", "number"]


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    format: Format
    scale: Literal["linear", "log"] = "linear"
    can_be_log: bool = False
    top: float | None = None
    """The end of the axis, where it must not follow the data (1 for shares)."""
    zoom: bool = False
    """Shares near 1: the axis may start above 0."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a chart of lines. Its series name it by its place."""

    y: Axis
    height: int = 240


@dataclass(frozen=True, slots=True)
class Figure:
    """`series` are objects with at least `run` and `topic` (its place); the rest depends on the kind."""

    id: str
    title: str
    question: str
    kind: Kind
    source: MetricTable
    series: list[dict[str, Any]]
    x: Axis | None = None
    panels: Sequence[Panel] = ()
    measures: Sequence[str] = ()
    """What is told apart by dashes (lines) or by shades (stacks), in the order in which series number them."""
    notes: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    absent: list[tuple[View, str]] = field(default_factory=list[tuple[View, str]])
    """Why a view has no series, where the reason is not that nothing was measured."""
    wide: bool = False
    of_one_topic: bool = False
    """There is nothing to draw of all topics together."""
    remark: str = ""
    """What a reader must know before comparing the runs."""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "kind": self.kind,
            "x": None if self.x is None else _axis(self.x),
            "panels": [{"y": _axis(panel.y), "height": panel.height} for panel in self.panels],
            "measures": list(self.measures),
            "series": self.series,
            "ofOneTopic": self.of_one_topic,
            "absent": [{**place(view), "reason": reason} for view, reason in self.absent],
            "missing": f"the table “{self.source.name}” has no rows for it: not measured, or there was none.",
        }


def place(view: View) -> dict[str, Any]:
    """What every series says first."""
    return {"run": view.run, "topic": view.place}


def numbers(values: Iterable[float | None]) -> list[float | int | None]:
    """Values for JSON."""
    return [_number(value) for value in values]


def column(table: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as floats, NaN for null."""
    return table.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)


def _number(value: float | None) -> float | int | None:
    if value is None or not isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def _axis(axis: Axis) -> Mapping[str, Any]:
    return {
        "label": axis.label,
        "format": axis.format,
        "scale": axis.scale,
        "canBeLog": axis.can_be_log,
        "top": axis.top,
        "zoom": axis.zoom,
    }
