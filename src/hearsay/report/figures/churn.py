"""Resilience: nodes coming and going, and how the messages of each second fared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hearsay.pipeline.output.tables import CHURN
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.run import Run
from hearsay.trace.folder.arrow_compute import compute

QUIET = "nothing to draw: no node came or went, and what was published in every second reached all."
_NODES, _RATIO = 0, 1


def churn_timeline(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(CHURN, "topic", "second", "nodes_up", "eligible", "delivered")
        of_nodes = table.filter(compute.is_null(table.column("topic")))
        nodes = of_nodes.filter(compute.is_valid(of_nodes.column("nodes_up")))
        told = table.filter(compute.is_valid(table.column("topic")))
        for view in run.views:
            times, up = _thinned(nodes, lambda group: float(column(group, "nodes_up").min()))
            series.append({**place(view), "panel": _NODES, "x": times, "y": up, "step": True})
            due = view.rows(told)
            times, ratios = _thinned(due.filter(compute.greater(due.column("eligible"), 0)), _ratio)
            series.append({**place(view), "panel": _RATIO, "x": times, "y": ratios})
    drawn = [each for each in series if each["x"]]
    eventful = [each for each in drawn if _says_something(each, drawn)]
    views = {(view.run, view.place): view for run in runs for view in run.views}
    quiet = {(each["run"], each["topic"]) for each in drawn} - {(each["run"], each["topic"]) for each in eventful}
    return Figure(
        id="churn",
        title="Churn timeline",
        question="What happened when nodes came and went?",
        kind="lines",
        source=CHURN,
        series=eventful,
        x=Axis("time", "s"),
        panels=[
            Panel(Axis("nodes up", "count"), 150),
            Panel(Axis("delivery ratio of messages published then", "percent", top=1, zoom=True), 150),
        ],
        absent=[(views[key], QUIET) for key in sorted(quiet)],
        wide=True,
    )


def _says_something(each: dict[str, Any], drawn: Sequence[dict[str, Any]]) -> bool:
    """A panel is drawn if any of its runs has more to say than that nothing happened."""
    others = [other for other in drawn if (other["panel"], other["topic"]) == (each["panel"], each["topic"])]
    if each["panel"] == _NODES:
        return any(min(other["y"]) != max(other["y"]) for other in others)
    return any(min(other["y"]) < 1 for other in others)


def _thinned(rows: Any, figure_of: Callable[[Any], float]) -> tuple[list[Any], list[Any]]:
    """The seconds (the first of each stretch), and a figure of the rows of each stretch."""
    seconds = column(rows, "second")
    groups = thinning.buckets(seconds)
    return numbers(float(seconds[group][0]) for group in groups), numbers(
        figure_of(rows.take(group)) for group in groups
    )


def _ratio(rows: Any) -> float:
    return float(np.nansum(column(rows, "delivered")) / column(rows, "eligible").sum())
