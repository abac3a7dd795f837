"""Speed: how long deliveries took, in all and as the run went on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hearsay.pipeline.output.tables import LATENCY, MESSAGES
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.run import US_PER_S, Run

LONG_TAIL = 12


def delivery_cdf(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(LATENCY, "topic", "latency_us", "deliveries")
        for view in run.views:
            rows = view.rows(table)
            latencies, shares = thinning.cdf(column(rows, "latency_us") / 1000, column(rows, "deliveries"))
            if len(latencies):
                series.append({**place(view), "panel": 0, "x": numbers(latencies), "y": numbers(shares)})
    return Figure(
        id="latency",
        title="Delivery latency",
        question="What share of the deliveries was made within a time?",
        kind="lines",
        source=LATENCY,
        series=series,
        x=Axis("latency", "ms", "log" if any(_long_tail(line) for line in series) else "linear", can_be_log=True),
        panels=[Panel(Axis("share of deliveries", "percent", top=1))],
    )


def latency_over_time(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(MESSAGES, "topic", "published_us", "p50_us", "p99_us")
        for view in run.views:
            rows = view.rows(table)
            measured = rows.filter(~np.isnan(column(rows, "p50_us")))
            times = (column(measured, "published_us") - run.start_us) / US_PER_S
            groups = thinning.buckets(times)
            for measure, (name, pick) in enumerate(_PICKS):
                if groups:
                    values = column(measured, name) / 1000
                    series.append(
                        {
                            **place(view),
                            "panel": 0,
                            "measure": measure,
                            "x": numbers(float(times[group].mean()) for group in groups),
                            "y": numbers(pick(values[group]) for group in groups),
                        }
                    )
    return Figure(
        id="latency-over-time",
        title="Latency over time",
        question="Did messages slow down as the run went on?",
        kind="lines",
        source=MESSAGES,
        series=series,
        x=Axis("published at", "s"),
        panels=[Panel(Axis("latency of a message", "ms", can_be_log=True))],
        measures=["p50", "p99"],
    )


def _long_tail(line: dict[str, Any]) -> bool:
    """The slowest is so far from the middle that it would press the rest of the curve into the axis."""
    median = next(x for x, share in zip(line["x"], line["y"], strict=True) if share >= 0.5)
    return bool(line["x"][-1] > LONG_TAIL * max(median, 1))


def _median(values: np.ndarray[Any, Any]) -> float:
    return float(np.median(values))


def _worst(values: np.ndarray[Any, Any]) -> float:
    return float(values.max())


_PICKS: tuple[tuple[str, Callable[[np.ndarray[Any, Any]], float]], ...] = (("p50_us", _median), ("p99_us", _worst))
