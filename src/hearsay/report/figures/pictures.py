"""The mesh as a picture, and the spread of one message as an animation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hearsay.graph_layout import force_layout
from hearsay.pipeline.output.tables import MESH, MESH_LINKS, SPREAD
from hearsay.report import thinning
from hearsay.report.figure import Figure, column, numbers, place
from hearsay.report.figures.mesh import NO_MESH, links_in, tree_in
from hearsay.report.layout import radial_tree
from hearsay.report.run import Run, View
from hearsay.text.numbers import count, plural

MOST_NODES = 400
MOST_SPREAD = 1000
SIDE = 1000
DIFFERENT = (
    "Each run shows the message whose median latency is typical of it, and these are different messages: "
    "they have other publishers, so compare how the rings fill, not where nodes stand."
)

ANY_MESSAGE = (
    "`hearsay watch RUN` plays any message of a run; `hearsay explain RUN --message M --node N` says why a node got "
    "it when it did."
)
HOPS = "Rings are hops away from the publisher."
HOPS_UNKNOWN = "Rings follow who passed it on, as far as the traces tell; real nodes do not measure hops."


def mesh_picture(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    notes: list[tuple[View, str]] = []
    absent: list[tuple[View, str]] = []
    for run in runs:
        links = run.read(MESH_LINKS, "topic", "layer", "node", "remote")
        members = run.read(MESH, "topic", "layer", "time_us", "members", "degree_max")
        for view in run.topic_views:
            tree = tree_in(view.rows(links))
            drawn = _picture(tree if len(tree) else links_in(view.rows(links)))
            last = links_in(view.rows(members)).sort_by("time_us").to_pylist()[-1:]
            if drawn is None:
                if last and not last[0]["degree_max"]:
                    absent.append((view, NO_MESH))
                continue
            series.append({**place(view), **drawn})
            nodes = len(drawn["nodes"])
            if last and (last[0]["members"] or 0) > nodes:
                total = count(last[0]["members"])
                notes.append(
                    (view, f"{count(nodes)} of {total} nodes drawn; not those without links or beyond the sample")
                )
    return Figure(
        id="picture",
        title="The mesh in the end",
        question="What does the mesh, or episub's tree, look like? Point at a node to see its links.",
        kind="mesh",
        of_one_topic=True,
        source=MESH_LINKS,
        series=series,
        notes=notes,
        absent=absent,
        wide=True,
    )


def spread_of_a_message(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    notes: list[tuple[View, str]] = []
    shown: dict[int, set[int]] = {}
    unknown = any(run.why_not("hops") for run in runs)
    for run in runs:
        table = run.read(SPREAD, "topic", "message", "node", "remote", "after_us", "hops", "via")
        for view in run.topic_views:
            rows = view.rows(table)
            if not len(rows):
                continue
            rows = rows.sort_by([("after_us", "ascending"), ("node", "ascending")])
            drawn = rows.take(thinning.evenly(len(rows), MOST_SPREAD))
            message = rows.column("message")[0].as_py()
            series.append({**place(view), **_spread(drawn), "caption": f"message {message}"})
            deliveries = plural(len(drawn), "delivery", "deliveries")
            explained = f"`hearsay explain RUN --message {message}` says why the slowest were slow"
            notes.append((view, f"message {message}, {deliveries} drawn; {explained}"))
            shown.setdefault(view.place, set()).add(message)
    return Figure(
        id="spread",
        title="How one message spread",
        question=f"Who got it from whom, and when? {HOPS_UNKNOWN if unknown else HOPS}",
        kind="spread",
        of_one_topic=True,
        source=SPREAD,
        series=series,
        notes=notes,
        remark=f"{DIFFERENT} {ANY_MESSAGE}" if any(len(each) > 1 for each in shown.values()) else ANY_MESSAGE,
        wide=True,
    )


def _picture(links: Any) -> dict[str, Any] | None:
    pairs = np.stack([column(links, "node"), column(links, "remote")], axis=1).astype(np.int64)
    names = _sampled(np.unique(pairs), MOST_NODES)
    pairs = pairs[np.isin(pairs, names).all(axis=1)]
    if not len(pairs):
        return None
    ends = np.unique(np.sort(np.searchsorted(names, pairs), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    places = force_layout(len(names), ends)
    degrees = np.bincount(ends.ravel(), minlength=len(names))
    return {
        "nodes": names.tolist(),
        "x": (places[:, 0] * SIDE).round().astype(int).tolist(),
        "y": (places[:, 1] * SIDE).round().astype(int).tolist(),
        "degree": degrees.tolist(),
        "links": ends.ravel().tolist(),
    }


def _sampled(names: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """At most so many nodes, chosen by a hash of their numbers."""
    if len(names) <= most:
        return names
    mixed = names.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.sort(names[np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")[:most]])


def _spread(rows: Any) -> dict[str, Any]:
    nodes = rows.column("node").to_pylist()
    parents: list[int] = []
    # A node that restarted may get a message again: who passes it on is the last delivery before.
    latest: dict[int, int] = {}
    for number, (node, remote) in enumerate(zip(nodes, rows.column("remote").to_pylist(), strict=True)):
        parents.append(latest.get(remote, -1))
        latest[node] = number
    tree = radial_tree(parents, rows.column("hops").to_pylist())
    vias = rows.column("via").to_pylist()
    kinds = sorted({via or "unknown" for via in vias})
    return {
        "nodes": nodes,
        "parents": parents,
        "x": (tree.x * SIDE).round().astype(int).tolist(),
        "y": (tree.y * SIDE).round().astype(int).tolist(),
        "ring": tree.ring.tolist(),
        "rings": (tree.radii * SIDE).round().astype(int).tolist(),
        "after": numbers(column(rows, "after_us") / 1000),
        "vias": kinds,
        "via": [kinds.index(via or "unknown") for via in vias],
    }
