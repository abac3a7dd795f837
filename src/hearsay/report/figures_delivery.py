"""Delivery over time, and the spread of a message as an animation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

import numpy as np

from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel
from hearsay.report.message_tree import radial_tree
from hearsay.report.runs import US_PER_S, Run, column
from hearsay.trace.folder.arrow_compute import compute

LONG_TAIL = 12


def delivery_cdf(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="latency",
        title="Delivery latency",
        question="Which share of the deliveries took at most this time?",
        kind="lines",
        source="latency",
        panels=[Panel(Axis("share of deliveries", "percent", top=1))],
    )
    for run in runs:
        table = run.read("latency", "topic", "latency_us", "deliveries")
        for view in run.views:
            rows = view.rows(table)
            latencies, shares = thinning.cdf(column(rows, "latency_us") / 1000, column(rows, "deliveries"))
            if len(latencies):
                figure.add(view, x=latencies, y=shares)
    has_tail = any(_long_tail(line) for line in figure.series)
    figure.x = Axis("latency", "ms", "log" if has_tail else "linear", can_be_log=True)
    return figure


def latency_over_time(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="latency-over-time",
        title="Latency over time",
        question="Did messages become slower during the run?",
        kind="lines",
        source="messages",
        x=Axis("published at", "s"),
        panels=[Panel(Axis("latency of a message", "ms", can_be_log=True))],
        measures=["p50", "p99"],
    )
    for run in runs:
        table = run.read("messages", "topic", "published_us", "p50_us", "p99_us")
        for view in run.views:
            rows = view.rows(table)
            measured = rows.filter(~np.isnan(column(rows, "p50_us")))
            times = (column(measured, "published_us") - run.start_us) / US_PER_S
            groups = thinning.buckets(times)
            for measure, (name, pick) in enumerate((("p50_us", np.median), ("p99_us", np.max)) if groups else ()):
                values = column(measured, name) / 1000
                x = [float(times[group].mean()) for group in groups]
                figure.add(view, measure=measure, x=x, y=[float(pick(values[group])) for group in groups])
    return figure


def _long_tail(line: dict[str, Any]) -> bool:
    """Return whether the slowest delivery is so late that the rest of a linear curve would be flat."""
    median = next(x for x, share in zip(line["x"], line["y"], strict=True) if share >= 0.5)
    return bool(line["x"][-1] > LONG_TAIL * max(median, 1))


_RATIO, _NODES = 0, 1


def delivery_over_time(runs: Sequence[Run]) -> Figure:
    """Draw the delivery ratio by time of publication, and below it the nodes that are up, if nodes come or go."""
    figure = Figure(
        id="churn",
        title="Delivery over time",
        question="Which share of the due deliveries did messages published then get?",
        kind="lines",
        source="churn",
        x=Axis("published at", "s"),
    )
    for run in runs:
        table = run.read("churn", "topic", "second", "nodes_up", "eligible", "delivered")
        of_nodes = table.filter(compute.is_null(table.column("topic")))
        nodes = of_nodes.filter(compute.is_valid(of_nodes.column("nodes_up")))
        of_topics = table.filter(compute.is_valid(table.column("topic")))
        for view in run.views:
            due = view.rows(of_topics)
            times, ratios = _thinned(due.filter(compute.greater(due.column("eligible"), 0)), _ratio)
            figure.add(view, panel=_RATIO, x=times, y=ratios, dots=True)
            times, up = _thinned(nodes, lambda group: float(column(group, "nodes_up").min()))
            figure.add(view, panel=_NODES, x=times, y=up, step=True)
    nodes_move = any(len(set(each["y"])) > 1 for each in figure.series if each["panel"] == _NODES)
    figure.series = [each for each in figure.series if each["x"] and (nodes_move or each["panel"] == _RATIO)]
    ratio = Panel(Axis("delivery ratio", "percent", top=1, zoom=True), 150 if nodes_move else 240)
    figure.panels = [ratio, Panel(Axis("nodes up", "count"), 60)]
    return figure


def _thinned(rows: Any, figure_of: Callable[[Any], float]) -> tuple[list[float], list[float]]:
    """Return the first second of each group of rows, and a value of the group."""
    seconds = column(rows, "second")
    groups = thinning.buckets(seconds)
    return [float(seconds[group][0]) for group in groups], [figure_of(rows.take(group)) for group in groups]


def _ratio(rows: Any) -> float:
    return float(np.nansum(column(rows, "delivered")) / column(rows, "eligible").sum())


ID = "spread"
MAX_DELIVERIES = 1000
SIDE = 1000
TURN = 8192
"""Parts of a full turn."""
HOPS = "Rings are hops away from the publisher."
HOPS_UNKNOWN = "Rings follow the senders in the traces; real nodes do not measure hops."


def spread_of_a_message(runs: Sequence[Run]) -> Figure:
    unknown = any(run.why_not("hops") for run in runs)
    figure = Figure(
        id=ID,
        title="How one message spread",
        question=f"Which node sent it to which, and when? {HOPS_UNKNOWN if unknown else HOPS}",
        kind="spread",
        of_one_topic=True,
        source="spread",
        wide=True,
    )
    for run in runs:
        table = run.read("spread", "topic", "message", "node", "remote", "after_us", "hops", "via")
        for view in run.topic_views:
            rows = view.rows(table)
            if len(rows):
                figure.add(view, messages=[drawn_spread(rows)])
    return figure


def drawn_spread(rows: Any) -> dict[str, Any]:
    """Return the deliveries of a message, which are rows of the table `spread`, with places in a tree.

    A place is a ring and a part of a turn. Deliveries are in order of time.
    """
    rows = rows.sort_by([("after_us", "ascending"), ("node", "ascending")])
    rows = rows.take(thinning.evenly(len(rows), MAX_DELIVERIES))
    nodes: list[int] = rows.column("node").to_pylist()
    parents: list[int] = []
    # A restarted node may get a message again; it forwards its last delivery.
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
