"""Resilience: nodes coming and going, and how the messages of each second fared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hearsay.pipeline.tables import CHURN
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.run import US_PER_S, Run


def churn_timeline(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(CHURN, "topic", "second", "nodes_up", "eligible", "delivered")
        for view in run.views:
            rows = view.roll_up(table)
            seconds = column(rows, "second") - run.start_us / US_PER_S
            groups = thinning.buckets(seconds)
            if not groups:
                continue
            up, eligible, delivered = (column(rows, name) for name in ("nodes_up", "eligible", "delivered"))
            times = numbers(float(seconds[group][0]) for group in groups)
            ratios = [_ratio(delivered[group], eligible[group]) for group in groups]
            least_up = [float(up[group].min()) for group in groups]
            series.append({**place(view), "panel": 0, "x": times, "y": numbers(least_up), "step": True})
            # Seconds without a message have no ratio; the line goes from one second with messages to the next.
            told = [(time, ratio) for time, ratio in zip(times, ratios, strict=True) if ratio is not None]
            if told:
                series.append(
                    {**place(view), "panel": 1, "x": [time for time, _ in told], "y": numbers(r for _, r in told)}
                )
    return Figure(
        id="churn",
        title="Churn timeline",
        question="What happened when nodes came and went?",
        kind="lines",
        source=CHURN,
        series=series,
        x=Axis("time", "s"),
        panels=[
            Panel(Axis("nodes up", "count"), 150),
            Panel(Axis("delivery ratio of messages published then", "percent", top=1), 150),
        ],
    )


def _ratio(delivered: np.ndarray[Any, Any], eligible: np.ndarray[Any, Any]) -> float | None:
    due = float(np.nansum(eligible))
    return float(np.nansum(delivered)) / due if due else None
