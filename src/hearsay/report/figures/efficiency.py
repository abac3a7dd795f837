"""Efficiency: how many copies a delivery takes, and what the control messages cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hearsay.pipeline.output.tables import CONTROL, MESSAGES
from hearsay.report.figure import Axis, Figure, Panel, numbers, place
from hearsay.report.run import Run, View
from hearsay.text.numbers import percent
from hearsay.trace.folder.arrow_compute import compute

COPY_FATES = ("first copy", "first copy, asked for by IWANT", "duplicate", "rejected")
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
        question="How often does a message arrive for each time it is new?",
        kind="stacks",
        source=MESSAGES,
        series=series,
        x=Axis("copies per delivery; 1 is the least possible", "number"),
        measures=COPY_FATES,
    )


def control_overhead(runs: Sequence[Run]) -> Figure:
    found: list[tuple[View, dict[str, float]]] = []
    notes: list[tuple[View, str]] = []
    absent: list[tuple[View, str]] = []
    for run in runs:
        table = run.read(CONTROL, "topic", "kind", "bytes", "bytes_share")
        for view in run.views:
            told = view.rows_and_loose(table).to_pylist()
            rows = [row for row in told if row["bytes"] is not None]
            if told and not rows:
                absent.append((view, f"not measured: {run.why_not('bytes_out') or 'no bytes are known'}."))
            nodes = view.nodes
            if rows and not nodes:
                absent.append((view, "not measured: the number of nodes is not known."))
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
        question="What do the messages about messages cost?",
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
