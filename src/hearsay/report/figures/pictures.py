"""The mesh as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hearsay.graph_layout import force_layout, sample_of_nodes
from hearsay.pipeline.output.tables import MESH, MESH_LINKS
from hearsay.report.figure import Figure, column, place
from hearsay.report.figures.mesh import NO_MESH, links_in, tree_in
from hearsay.report.run import Run, View
from hearsay.text.numbers import count

MOST_NODES = 400
SIDE = 1000


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


def _picture(links: Any) -> dict[str, Any] | None:
    pairs = np.stack([column(links, "node"), column(links, "remote")], axis=1).astype(np.int64)
    names = sample_of_nodes(np.unique(pairs), MOST_NODES)
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
