"""Cost and load: copies per delivery, control messages, bytes and state of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hearsay.pipeline.output.tables import CONTROL, MESSAGES, STATE, TRAFFIC
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.runs import US_PER_S, Run, View
from hearsay.text.numbers import percent, seconds
from hearsay.trace.folder.arrow_compute import compute

COPY_FATES = ("first copy", "first copy, requested by IWANT", "duplicate", "rejected")
PAYLOAD = "publish"
CONTROL_KINDS_SHOWN = 12


def copies_per_delivery(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    for run in runs:
        table = run.read(MESSAGES, "topic", "away", "copies", "duplicates", "rejected", "by_iwant")
        for view in run.views:
            rows = view.rows(table)
            away, copies, duplicates, rejected, asked_for = (
                compute.sum(rows.column(name)).as_py() or 0
                for name in ("away", "copies", "duplicates", "rejected", "by_iwant")
            )
            if away:
                first = copies - duplicates - rejected
                parts = (first - asked_for, asked_for, duplicates, rejected)
                series.append({**place(view), "values": numbers(part / away for part in parts)})
    return Figure(
        id="copies",
        title="Copies per delivery",
        question="How many copies arrive for each delivery?",
        kind="stacks",
        source=MESSAGES,
        series=series,
        x=Axis("copies per delivery; 1 is the minimum", "number"),
        measures=COPY_FATES,
    )


def control_overhead(runs: Sequence[Run]) -> Figure:
    found: list[tuple[View, dict[str, float]]] = []
    notes: list[tuple[View, str]] = []
    absent: list[tuple[View, str]] = []
    for run in runs:
        table = run.read(CONTROL, "topic", "kind", "bytes", "bytes_share")
        for view in run.views:
            all_rows = view.rows_and_loose(table).to_pylist()
            rows = [row for row in all_rows if row["bytes"] is not None]
            if all_rows and not rows:
                absent.append((view, f"not measured: {run.why_not('bytes_out') or 'no bytes are known'}."))
            nodes = view.nodes
            if rows and not nodes:
                absent.append((view, "not measured: the number of nodes is unknown."))
            if rows and nodes:
                costs: dict[str, float] = {}
                for row in rows:
                    if row["kind"] != PAYLOAD:
                        costs[row["kind"]] = costs.get(row["kind"], 0) + row["bytes"] / nodes
                found.append((view, costs))
                share = view.headline["control_bytes_share"]
                if share is not None:
                    notes.append((view, f"{percent(share)} of the bytes sent are control"))
    kinds = _by_cost([costs for _, costs in found])
    series = [
        {**place(view), "categories": kinds, "values": numbers(costs.get(kind) for kind in kinds)}
        for view, costs in found
        if kinds
    ]
    return Figure(
        id="control",
        title="Control overhead by kind",
        question="How many bytes do control messages take?",
        kind="bars",
        source=CONTROL,
        series=series,
        x=Axis("bytes sent per node", "bytes"),
        panels=[Panel(Axis("kind", "count"))],
        notes=notes,
        absent=absent,
    )


def _by_cost(all_costs: Sequence[dict[str, float]]) -> list[str]:
    totals: dict[str, float] = {}
    for costs in all_costs:
        for kind, cost in costs.items():
            totals[kind] = totals.get(kind, 0) + cost
    return sorted((kind for kind in totals if totals[kind]), key=lambda kind: (-totals[kind], kind))[
        :CONTROL_KINDS_SHOWN
    ]


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
        question="Do all nodes send alike?",
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
        question="How much does a node keep in memory?",
        kind="lines",
        source=STATE,
        series=series,
        x=Axis("time", "s"),
        panels=[Panel(Axis("bytes kept, over all topics", "bytes", can_be_log=True))],
        measures=["mean", "most"],
        notes=notes,
    )


def _sampling(run: Run) -> str:
    """Return how often the state was sampled, and whether cached messages are missed between samples."""
    every_s, kept_s = run.setting("trace.state_interval_s"), _cached_s(run)
    if every_s is None:
        return ""
    text = f"sampled every {seconds(every_s)}"
    if kept_s is None or kept_s >= every_s:
        return text
    return f"{text}; messages stay in the cache for {seconds(kept_s)}, so samples miss some of them"


def _cached_s(run: Run) -> float | None:
    windows, heartbeat_ms = run.setting("router.history_length"), run.setting("router.heartbeat_interval_ms")
    return None if windows is None or heartbeat_ms is None else windows * heartbeat_ms / 1000
