"""The spread of a message as an animation: a typical message of each run and topic."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from hearsay.pipeline.output.tables import SPREAD
from hearsay.report import thinning
from hearsay.report.figure import Figure, place
from hearsay.report.radial_tree import radial_tree
from hearsay.report.runs import Run
from hearsay.trace.folder.arrow_compute import compute

ID = "spread"
MAX_DELIVERIES = 1000
SIDE = 1000
TURN = 8192
"""Parts of a full turn."""
DIFFERENT = (
    "Each run starts with the message whose median latency is typical, and these are different messages with other "
    "publishers: compare how the rings fill, not the places of nodes."
)
HOPS = "Rings are hops away from the publisher."
HOPS_UNKNOWN = "Rings follow the senders in the traces; real nodes do not measure hops."


def spread_of_a_message(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    shown: dict[int, set[int]] = {}
    unknown = any(run.why_not("hops") for run in runs)
    for run in runs:
        table = run.read(SPREAD, "topic", "message", "node", "remote", "after_us", "hops", "via")
        for view in run.topic_views:
            rows = view.rows(table)
            if not len(rows):
                continue
            typical = drawn_spread(rows)
            series.append({**place(view), "messages": [typical]})
            shown.setdefault(view.place, set()).add(typical["number"])
    different = any(len(each) > 1 for each in shown.values())
    return Figure(
        id=ID,
        title="How one message spread",
        question=f"Which node sent it to which, and when? {HOPS_UNKNOWN if unknown else HOPS}",
        kind="spread",
        of_one_topic=True,
        source=SPREAD,
        series=series,
        remark=DIFFERENT if different else "",
        wide=True,
    )


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
