"""Cost and load: copies per delivery, control messages, bytes and state of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel
from hearsay.report.runs import US_PER_S, Run, View, column, total
from hearsay.text.numbers import seconds
from hearsay.trace.folder.arrow_compute import compute

COPY_FATES = ("first copy", "first copy, by IWANT", "duplicate", "rejected")
PAYLOAD = "publish"
CONTROL_KINDS_SHOWN = 12


def copies_per_delivery(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="copies",
        title="Copies per delivery",
        question="How many copies arrive for each delivery?",
        kind="bars",
        source="messages",
        x=Axis("copies per delivery", "number"),
    )
    for run in runs:
        table = run.read("messages", "topic", "away", "copies", "duplicates", "rejected", "by_iwant")
        for view in run.views:
            rows = view.rows(table)
            names = ("away", "copies", "duplicates", "rejected", "by_iwant")
            away, copies, duplicates, rejected, asked_for = (total(rows, name) for name in names)
            if away:
                first = copies - duplicates - rejected
                parts = (first - asked_for, asked_for, duplicates, rejected)
                figure.add(view, categories=COPY_FATES, values=[each / away for each in parts])
    return figure


def control_overhead(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="control",
        title="Control overhead by kind",
        question="How many bytes do control messages take?",
        kind="bars",
        source="control",
        x=Axis("bytes sent per node", "bytes"),
    )
    found: list[tuple[View, dict[str, float]]] = []
    for run in runs:
        table = run.read("control", "topic", "kind", "bytes", "bytes_share")
        for view in run.views:
            all_rows = view.rows_and_loose(table).to_pylist()
            rows = [row for row in all_rows if row["bytes"] is not None]
            if all_rows and not rows:
                figure.lack(view, f"not measured: {run.why_not('bytes_out') or 'no bytes are known'}.")
            if rows and not view.nodes:
                figure.lack(view, "not measured: the number of nodes is unknown.")
            if rows and view.nodes:
                costs: dict[str, float] = {}
                for row in rows:
                    if row["kind"] != PAYLOAD:
                        costs[row["kind"]] = costs.get(row["kind"], 0) + row["bytes"] / view.nodes
                found.append((view, costs))
    kinds = _by_cost([costs for _, costs in found])
    for view, costs in found if kinds else ():
        figure.add(view, categories=kinds, values=map(costs.get, kinds))
    return figure


def _by_cost(all_costs: Sequence[dict[str, float]]) -> list[str]:
    totals: dict[str, float] = {}
    for costs in all_costs:
        for kind, cost in costs.items():
            totals[kind] = totals.get(kind, 0) + cost
    return sorted((kind for kind in totals if totals[kind]), key=lambda kind: (-totals[kind], kind))[
        :CONTROL_KINDS_SHOWN
    ]


def load_per_node(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="load",
        title="Load per node",
        question="Do all nodes send alike?",
        kind="lines",
        source="traffic",
        x=Axis("nodes, from the least to the most busy", "percent", top=1),
        panels=[Panel(Axis("bytes sent", "bytes", can_be_log=True))],
    )
    for run in runs:
        table = run.without_scripts(run.read("traffic", "topic", "node", "bytes_out"))
        table = table.filter(compute.is_valid(table.column("bytes_out")))
        reason = run.why_not("evenness")
        for view in run.views:
            rows = view.rows(table)
            loads = column(rows.group_by("node").aggregate([("bytes_out", "sum")]), "bytes_out_sum")
            ranks, values = thinning.sorted_load(loads, max(view.nodes or 0, len(loads)))
            if reason is not None:
                figure.lack(view, f"not measured: {reason}.")
            elif loads.any():
                figure.add(view, x=ranks, y=values)
    return figure


def state_per_node(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="state",
        title="State per node",
        question="How much does a node keep in memory?",
        kind="lines",
        source="state",
        x=Axis("time", "s"),
        panels=[Panel(Axis("bytes kept, over all topics", "bytes", can_be_log=True))],
        measures=["mean", "most"],
    )
    for run in runs:
        table = run.read("state", "time_us", "bytes_mean", "bytes_max").sort_by("time_us")
        table = table.take(thinning.evenly(len(table), thinning.BUCKETS))
        times = (column(table, "time_us") - run.start_us) / US_PER_S
        sampling = _sampling(run)
        for view in run.views if len(table) else ():
            if sampling:
                figure.note(view, sampling)
            for measure, name in enumerate(("bytes_mean", "bytes_max")):
                figure.add(view, measure=measure, x=times, y=column(table, name))
    return figure


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
