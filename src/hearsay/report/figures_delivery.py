"""Charts of deliveries, latency, copies, load and memory, and the spread of a message as an animation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from hearsay.number_text import seconds
from hearsay.report.explain_page import radial_tree
from hearsay.report.figure import BUCKETS, Figure, buckets, cdf, evenly, sorted_load
from hearsay.report.runs import PAYLOAD, US_PER_S, Run, View, column, total
from hearsay.trace.folder.arrow_compute import compute

LONG_TAIL = 12


def delivery_cdf(figure: Figure, runs: Sequence[Run]) -> None:
    for _, view, rows in figure.rows(runs, "topic", "latency_us", "deliveries"):
        latencies, shares = cdf(column(rows, "latency_us") / 1000, column(rows, "deliveries"))
        if len(latencies):
            figure.add(view, x=latencies, y=shares)
    if figure.x is not None and any(_has_long_tail(line) for line in figure.series):
        figure.x = replace(figure.x, scale="log")


def _has_long_tail(line: dict[str, Any]) -> bool:
    """Return True if the slowest delivery took so long that, on a linear axis, all others would be close together."""
    median = next(x for x, share in zip(line["x"], line["y"], strict=True) if share >= 0.5)
    return bool(line["x"][-1] > LONG_TAIL * max(median, 1))


def latency_over_time(figure: Figure, runs: Sequence[Run]) -> None:
    for run, view, rows in figure.rows(runs, "topic", "published_us", "p50_us", "p99_us"):
        measured = rows.filter(~np.isnan(column(rows, "p50_us")))
        times = (column(measured, "published_us") - run.start_us) / US_PER_S
        groups = buckets(times)
        for measure, (name, pick) in enumerate((("p50_us", np.median), ("p99_us", np.max)) if groups else ()):
            values = column(measured, name) / 1000
            x = [float(times[group].mean()) for group in groups]
            figure.add(view, measure=measure, x=x, y=[float(pick(values[group])) for group in groups])


_RATIO, _NODES = 0, 1


def delivery_over_time(figure: Figure, runs: Sequence[Run]) -> None:
    """Add the delivery ratio by time of publication and, in a plot below, the number of nodes that are up. Leave out
    this plot if the number never changes.
    """
    for run in runs:
        table = run.read("churn", "topic", "second", "nodes_up", "eligible", "delivered")
        of_nodes = table.filter(compute.is_null(table.column("topic")))
        nodes = of_nodes.filter(compute.is_valid(of_nodes.column("nodes_up")))
        of_topics = table.filter(compute.is_valid(table.column("topic")))
        for view in run.views:
            due = view.rows(of_topics)
            due = due.filter(compute.greater(due.column("eligible"), 0))
            times, ratios = _thinned(due, lambda group: total(group, "delivered") / total(group, "eligible"))
            figure.add(view, panel=_RATIO, x=times, y=ratios, dots=True)
            times, up = _thinned(nodes, lambda group: float(column(group, "nodes_up").min()))
            figure.add(view, panel=_NODES, x=times, y=up, step=True)
    nodes_change = any(len(set(each["y"])) > 1 for each in figure.series if each["panel"] == _NODES)
    figure.series = [each for each in figure.series if each["x"] and (nodes_change or each["panel"] == _RATIO)]
    if not nodes_change:
        figure.panels = [replace(figure.panels[_RATIO], height=240), figure.panels[_NODES]]


def _thinned(rows: Any, figure_of: Callable[[Any], float]) -> tuple[list[float], list[float]]:
    """Group rows of adjacent seconds. Return the first second of each group, and the result of `figure_of` for each
    group.
    """
    times = column(rows, "second")
    groups = buckets(times)
    return [float(times[group][0]) for group in groups], [figure_of(rows.take(group)) for group in groups]


COPY_FATES = ("first copy", "first copy, by IWANT", "duplicate", "rejected")
CONTROL_KINDS_SHOWN = 12


def copies_per_delivery(figure: Figure, runs: Sequence[Run]) -> None:
    names = ("away", "copies", "duplicates", "rejected", "by_iwant")
    for _, view, rows in figure.rows(runs, "topic", *names):
        away, copies, duplicates, rejected, asked_for = (total(rows, name) for name in names)
        if away:
            parts = (copies - duplicates - rejected - asked_for, asked_for, duplicates, rejected)
            figure.add(view, categories=COPY_FATES, values=[each / away for each in parts])


def control_overhead(figure: Figure, runs: Sequence[Run]) -> None:
    found: list[tuple[View, Counter[str]]] = []
    for run in runs:
        table = run.read("control", "topic", "kind", "bytes", "bytes_share")
        for view in run.views:
            all_rows = view.rows_and_those_without_topic(table).to_pylist()
            rows = [row for row in all_rows if row["bytes"] is not None]
            if all_rows and not rows:
                figure.absent.append(
                    (view, f"not measured: {run.why_unmeasured('bytes_out') or 'no bytes are known'}.")
                )
            elif rows and not view.nodes:
                figure.absent.append((view, "not measured: the number of nodes is unknown."))
            elif view.nodes and rows:
                per_node: Counter[str] = Counter()
                for row in rows:
                    if row["kind"] != PAYLOAD:
                        per_node[row["kind"]] += row["bytes"] / view.nodes
                found.append((view, per_node))
    totals: Counter[str] = Counter()
    for _, per_node in found:
        totals.update(per_node)
    kinds = sorted((kind for kind in totals if totals[kind]), key=lambda kind: (-totals[kind], kind))
    kinds = kinds[:CONTROL_KINDS_SHOWN]
    for view, per_node in found if kinds else ():
        figure.add(view, categories=kinds, values=map(per_node.get, kinds))


def load_per_node(figure: Figure, runs: Sequence[Run]) -> None:
    for run in runs:
        table = run.without_scripts(run.read("traffic", "topic", "node", "bytes_out"))
        table = table.filter(compute.is_valid(table.column("bytes_out")))
        reason = run.why_unmeasured("evenness")
        for view in run.views:
            rows = view.rows(table)
            loads = column(rows.group_by("node").aggregate([("bytes_out", "sum")]), "bytes_out_sum")
            ranks, values = sorted_load(loads, max(view.nodes or 0, len(loads)))
            if reason is not None:
                figure.absent.append((view, f"not measured: {reason}."))
            elif loads.any():
                figure.add(view, x=ranks, y=values)


def state_per_node(figure: Figure, runs: Sequence[Run]) -> None:
    for run in runs:
        table = run.read("state", "time_us", "bytes_mean", "bytes_max").sort_by("time_us")
        table = table.take(evenly(len(table), BUCKETS))
        times = (column(table, "time_us") - run.start_us) / US_PER_S
        sampling = _sampling(run)
        for view in run.views if len(table) else ():
            if sampling:
                figure.notes.append((view, sampling))
            for measure, name in enumerate(("bytes_mean", "bytes_max")):
                figure.add(view, measure=measure, x=times, y=column(table, name))


def _sampling(run: Run) -> str:
    """Return a note on the time between samples of the state, and on cached messages that no sample has. The note is
    empty if the time is unknown.
    """
    every_s = run.setting("trace.state_interval_s")
    if every_s is None:
        return ""
    text = f"sampled every {seconds(every_s)}"
    windows, heartbeat_ms = run.setting("router.history_length"), run.setting("router.heartbeat_interval_ms")
    if windows is None or heartbeat_ms is None or windows * heartbeat_ms >= every_s * 1000:
        return text
    kept = seconds(windows * heartbeat_ms / 1000)
    return f"{text}; messages stay in the cache for {kept}, so samples miss some of them"


ID = "spread"
MAX_DELIVERIES = 1000
SIDE = 1000
TURN = 8192
"""Angles are integers; a full turn has this many units."""
HOPS = "Rings are hops away from the publisher."
HOPS_UNKNOWN = "Rings follow the senders in the traces; real nodes do not measure hops."


def spread_of_a_message(figure: Figure, runs: Sequence[Run]) -> None:
    unknown = any(run.why_unmeasured("hops") for run in runs)
    figure.question += f" {HOPS_UNKNOWN if unknown else HOPS}"
    columns = ("topic", "message", "node", "remote", "after_us", "hops", "via")
    for _, view, rows in figure.rows(runs, *columns):
        if len(rows):
            figure.add(view, messages=[drawn_spread(rows)])


def drawn_spread(rows: Any) -> dict[str, Any]:
    """Return the deliveries of a message, given as rows of the table `spread`, with their positions in a tree.

    At most `MAX_DELIVERIES` are returned, in order of time. The position of a delivery is a ring (its hops) and an
    angle in units of `TURN`. The parent of a delivery is the index of the last earlier delivery at the sender, or -1.
    """
    rows = rows.sort_by([("after_us", "ascending"), ("node", "ascending")])
    rows = rows.take(evenly(len(rows), MAX_DELIVERIES))
    nodes: list[int] = rows.column("node").to_pylist()
    parents: list[int] = []
    # A restarted node may get a message again: its last delivery so far is the parent of those that it causes.
    latest: dict[int, int] = {}
    for number, (node, remote) in enumerate(zip(nodes, rows.column("remote").to_pylist(), strict=True)):
        parents.append(latest.get(remote, -1))
        latest[node] = number
    tree = radial_tree(parents, rows.column("hops").to_pylist())
    vias = [via or "unknown" for via in rows.column("via").to_pylist()]
    kinds = sorted(set(vias))
    return {
        "number": rows.column("message")[0].as_py(),
        "nodes": nodes,
        "parents": parents,
        "ring": tree.ring.tolist(),
        "angle": (tree.angle / (2 * pi) * TURN).round().astype(int).tolist(),
        "rings": (tree.radii * SIDE).round().astype(int).tolist(),
        "after_us": compute.fill_null(rows.column("after_us"), 0).to_pylist(),
        "vias": kinds,
        "via": [kinds.index(via) for via in vias],
    }
