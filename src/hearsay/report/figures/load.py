"""Load balance and simplicity: what single nodes send, and what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hearsay.pipeline.output.tables import STATE, TRAFFIC
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.run import US_PER_S, Run, View
from hearsay.text.numbers import percent, seconds
from hearsay.trace.folder.arrow_compute import compute

BUSIEST = 0.1


def load_per_node(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    notes: list[tuple[View, str]] = []
    absent: list[tuple[View, str]] = []
    for run in runs:
        table = run.without_scripts(run.read(TRAFFIC, "topic", "node", "bytes_out"))
        table = table.filter(compute.is_valid(table.column("bytes_out")))
        reason = run.why_not("evenness")
        if reason is not None:
            absent += [(view, f"not measured: {reason}.") for view in run.views]
            continue
        for view in run.views:
            rows = view.rows(table)
            loads = column(rows.group_by("node").aggregate([("bytes_out", "sum")]), "bytes_out_sum")
            nodes = max(view.nodes or 0, len(loads))
            ranks, values = thinning.sorted_load(loads, nodes)
            share = thinning.share_of_busiest(loads, nodes, BUSIEST)
            if share is not None:
                series.append({**place(view), "panel": 0, "x": numbers(ranks), "y": numbers(values)})
                notes.append((view, f"the busiest tenth of the nodes sent {percent(share)} of all bytes"))
    return Figure(
        id="load",
        title="Load per node",
        question="Do all nodes carry alike?",
        kind="lines",
        source=TRAFFIC,
        series=series,
        x=Axis("nodes, from the least to the most busy", "percent", top=1),
        panels=[Panel(Axis("bytes sent", "bytes", can_be_log=True))],
        notes=notes,
        absent=absent,
    )


def state_per_node(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    notes: list[tuple[View, str]] = []
    for run in runs:
        table = run.read(STATE, "time_us", "bytes_mean", "bytes_max").sort_by("time_us")
        table = table.take(thinning.evenly(len(table), thinning.BUCKETS))
        if not len(table):
            continue
        times = numbers((column(table, "time_us") - run.start_us) / US_PER_S)
        sampling = _sampling(run)
        for view in run.views:
            if sampling:
                notes.append((view, sampling))
            for measure, name in enumerate(("bytes_mean", "bytes_max")):
                values = numbers(column(table, name))
                series.append({**place(view), "panel": 0, "measure": measure, "x": times, "y": values})
    return Figure(
        id="state",
        title="State per node",
        question="How much does a node have to remember?",
        kind="lines",
        source=STATE,
        series=series,
        x=Axis("time", "s"),
        panels=[Panel(Axis("bytes kept, over all topics", "bytes", can_be_log=True))],
        measures=["mean", "most"],
        notes=notes,
    )


def _sampling(run: Run) -> str:
    """How often nodes were looked at, and whether what they cache comes and goes unseen in between."""
    every_s, kept_s = run.setting("trace.state_interval_s"), _cached_s(run)
    if every_s is None:
        return ""
    text = f"looked at every {seconds(every_s)}"
    if kept_s is None or kept_s >= every_s:
        return text
    return f"{text}; messages stay in the cache for {seconds(kept_s)}, so what it holds in between is not seen"


def _cached_s(run: Run) -> float | None:
    windows, heartbeat_ms = run.setting("router.history_length"), run.setting("router.heartbeat_interval_ms")
    return None if windows is None or heartbeat_ms is None else windows * heartbeat_ms / 1000
