"""The mesh, or neighbours and tree: degrees over time and at the end, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np

from hearsay.graph_layout import force_layout, sample_of_nodes
from hearsay.pipeline.output.tables import TREE_LAYER
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel
from hearsay.report.runs import US_PER_S, Row, Run, column
from hearsay.text.numbers import count, percent, plural
from hearsay.trace.folder.arrow_compute import compute

NO_MESH = "no mesh: no node has a link."
NO_MESH_ROWS = ": floodsub and randomsub have no mesh, or it was not measured"
_LINKS, _TREE = 0, 1
_PANELS = (
    Panel(Axis("links per node (mean and range)", "number")),
    Panel(Axis("tree links per node (mean and range)", "number")),
)


def degree_over_time(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="mesh",
        title="Mesh degree over time",
        question="Does the mesh form, and does it last? Episub has neighbours and a tree instead.",
        kind="lines",
        of_one_topic=True,
        why_empty=NO_MESH_ROWS,
        source="mesh",
        x=Axis("time", "s"),
    )
    for run in runs:
        table = run.read("mesh")
        for view in run.topic_views:
            for panel, rows in ((_LINKS, links_in(view.rows(table))), (_TREE, tree_in(view.rows(table)))):
                if not len(rows):
                    continue
                rows = rows.sort_by("time_us")
                if not compute.max(rows.column("degree_max")).as_py():
                    figure.lack(view, NO_MESH)
                    continue
                look = _last_look(rows.slice(len(rows) - 1).to_pylist()[0])
                figure.note(view, f"tree {look}" if panel == _TREE else look)
                rows = rows.take(thinning.evenly(len(rows), thinning.BUCKETS))
                degrees = {"y": "degree_mean", "low": "degree_min", "high": "degree_max"}
                lines = {name: column(rows, degree) for name, degree in degrees.items()}
                figure.add(view, panel=panel, x=(column(rows, "time_us") - run.start_us) / US_PER_S, **lines)
    figure.panels = _PANELS[: 1 + max((one["panel"] for one in figure.series), default=_LINKS)]
    return figure


def degrees_at_the_end(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="degrees",
        title="Mesh degrees at the end",
        question="What share of the nodes has at most this many links?",
        kind="lines",
        of_one_topic=True,
        why_empty=NO_MESH_ROWS,
        source="degrees",
        x=Axis("links of a node at the last sampled time", "count"),
        panels=[Panel(Axis("share of the nodes", "percent", top=1))],
    )
    for run in runs:
        table = run.read("degrees", "topic", "layer", "time_us", "degree", "nodes")
        for view in run.topic_views:
            rows = links_in(view.rows(table))
            if not len(rows):
                continue
            last = rows.filter(compute.equal(rows.column("time_us"), compute.max(rows.column("time_us"))))
            degrees, shares = thinning.cdf(column(last, "degree"), column(last, "nodes"))
            if degrees.any():
                figure.add(view, x=[float(degrees[0]), *degrees], y=[0.0, *shares], step=True)
            else:
                figure.lack(view, NO_MESH)
    return figure


def links_in(rows: Any) -> Any:
    """Return the rows about all links: of the mesh, or between active neighbours."""
    return rows.filter(compute.not_equal(rows.column("layer"), TREE_LAYER))


def tree_in(rows: Any) -> Any:
    """Return the rows about the links of a tree."""
    return rows.filter(compute.equal(rows.column("layer"), TREE_LAYER))


def _last_look(row: Row) -> str:
    parts: list[str] = []
    if row["components"] is not None:
        parts.append("connected" if row["components"] == 1 else plural(row["components"], "component"))
        if row["components"] != 1 and row["largest_share"] is not None:
            parts[-1] += f", the largest with {percent(row['largest_share'])} of the nodes"
    if row["diameter"] is not None:
        parts.append(f"diameter {row['diameter']}")
    if row["symmetric_share"] is not None and not isnan(row["symmetric_share"]):
        parts.append(f"{percent(row['symmetric_share'])} of the links are mutual")
    return "at the end: " + "; ".join(parts) if parts else "its shape was not measured"


MAX_NODES = 400
SIDE = 1000


def mesh_picture(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="picture",
        title="The mesh at the end",
        question="The mesh, or the tree of episub. Hover over a node to see its links.",
        kind="mesh",
        of_one_topic=True,
        why_empty=NO_MESH_ROWS,
        source="mesh_links",
        wide=True,
    )
    for run in runs:
        links = run.read("mesh_links", "topic", "layer", "node", "remote")
        members = run.read("mesh", "topic", "layer", "time_us", "members", "degree_max")
        for view in run.topic_views:
            tree = tree_in(view.rows(links))
            drawn = _picture(tree if len(tree) else links_in(view.rows(links)))
            last = links_in(view.rows(members)).sort_by("time_us").to_pylist()[-1:]
            if drawn is None:
                if last and not last[0]["degree_max"]:
                    figure.lack(view, NO_MESH)
                continue
            figure.add(view, **drawn)
            nodes = len(drawn["nodes"])
            if last and (last[0]["members"] or 0) > nodes:
                total = count(last[0]["members"])
                figure.note(view, f"{count(nodes)} of {total} nodes are drawn: a sample of those with links")
    return figure


def _picture(links: Any) -> dict[str, Any] | None:
    pairs = np.stack([column(links, "node"), column(links, "remote")], axis=1).astype(np.int64)
    names = sample_of_nodes(np.unique(pairs), MAX_NODES)
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
