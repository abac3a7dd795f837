"""Resilience: nodes coming and going, and how the messages of each second fared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hearsay.pipeline.tables import CHURN
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.run import US_PER_S, Run
from hearsay.trace.arrow import compute


def churn_timeline(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(CHURN, "topic", "second", "nodes_up", "eligible", "delivered")
        nodes = table.filter(compute.is_null(table.column("topic")))
        for view in run.views:
            times, up = _thinned(run, nodes, lambda group: float(column(group, "nodes_up").min()))
            series.append({**place(view), "panel": 0, "x": times, "y": up, "step": True})
            told = view.rows(table)
            times, ratios = _thinned(run, told.filter(compute.greater(told.column("eligible"), 0)), _ratio)
            series.append({**place(view), "panel": 1, "x": times, "y": ratios})
    return Figure(
        id="churn",
        title="Churn timeline",
        question="What happened when nodes came and went?",
        kind="lines",
        source=CHURN,
        series=[each for each in series if each["x"]],
        x=Axis("time", "s"),
        panels=[
            Panel(Axis("nodes up", "count"), 150),
            Panel(Axis("delivery ratio of messages published then", "percent", top=1, zoom=True), 150),
        ],
        wide=True,
    )


def _thinned(run: Run, rows: Any, figure_of: Callable[[Any], float]) -> tuple[list[Any], list[Any]]:
    """The seconds (the first of each stretch), and a figure of the rows of each stretch."""
    seconds = column(rows, "second") - run.start_us / US_PER_S
    groups = thinning.buckets(seconds)
    return numbers(float(seconds[group][0]) for group in groups), numbers(
        figure_of(rows.take(group)) for group in groups
    )


def _ratio(rows: Any) -> float:
    return float(np.nansum(column(rows, "delivered")) / column(rows, "eligible").sum())
