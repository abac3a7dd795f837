"""Charts of the mesh (for episub, of neighbours and the tree) over time and as a picture, and charts of scores,
promises, IDONTWANT and peer exchange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.graph_layout import force_layout, sample_of_nodes
from hearsay.number_text import count, figure, percent, plural
from hearsay.pipeline.output.tables import TABLES, TREE_LAYER
from hearsay.pipeline.run_facts import scenario_of, thresholds_in
from hearsay.report.figure import BUCKETS, Figure, buckets, cdf, evenly
from hearsay.report.runs import US_PER_S, Row, Run, View, column
from hearsay.trace.folder.arrow_compute import compute

NO_MESH = "no mesh: no node has a link."
_LINKS, _TREE = 0, 1


def degree_over_time(chart: Figure, runs: Sequence[Run]) -> None:
    for run, view, found in chart.rows(runs):
        for panel, rows in ((_LINKS, links_in(found)), (_TREE, tree_in(found))):
            if not len(rows):
                continue
            rows = rows.sort_by("time_us")
            if not compute.max(rows.column("degree_max")).as_py():
                chart.absent.append((view, NO_MESH))
                continue
            shape = _shape_words(rows.slice(len(rows) - 1).to_pylist()[0])
            chart.notes.append((view, f"tree {shape}" if panel == _TREE else shape))
            rows = rows.take(evenly(len(rows), BUCKETS))
            degrees = {"y": "degree_mean", "low": "degree_min", "high": "degree_max"}
            lines = {name: column(rows, degree) for name, degree in degrees.items()}
            chart.add(view, panel=panel, x=(column(rows, "time_us") - run.start_us) / US_PER_S, **lines)
    chart.panels = chart.panels[: 1 + max((one["panel"] for one in chart.series), default=_LINKS)]


def degrees_at_the_end(chart: Figure, runs: Sequence[Run]) -> None:
    for _, view, found in chart.rows(runs, "topic", "layer", "time_us", "degree", "nodes"):
        rows = links_in(found)
        if not len(rows):
            continue
        last = rows.filter(compute.equal(rows.column("time_us"), compute.max(rows.column("time_us"))))
        degrees, shares = cdf(column(last, "degree"), column(last, "nodes"))
        if degrees.any():
            chart.add(view, x=[float(degrees[0]), *degrees], y=[0.0, *shares], step=True)
        else:
            chart.absent.append((view, NO_MESH))


def links_in(rows: Any) -> Any:
    """Return the rows about links of the mesh or, for episub, links between active neighbours."""
    return rows.filter(compute.not_equal(rows.column("layer"), TREE_LAYER))


def tree_in(rows: Any) -> Any:
    """Return the rows about links of a tree (episub)."""
    return rows.filter(compute.equal(rows.column("layer"), TREE_LAYER))


def _shape_words(row: Row) -> str:
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


def mesh_picture(chart: Figure, runs: Sequence[Run]) -> None:
    members = {run.label: run.read("mesh", "topic", "layer", "time_us", "members", "degree_max") for run in runs}
    for run, view, links in chart.rows(runs, "topic", "layer", "node", "remote"):
        tree = tree_in(links)
        drawn = _picture(tree if len(tree) else links_in(links))
        last = links_in(view.rows(members[run.label])).sort_by("time_us").to_pylist()[-1:]
        if drawn is None:
            if last and not last[0]["degree_max"]:
                chart.absent.append((view, NO_MESH))
            continue
        chart.add(view, **drawn)
        nodes = len(drawn["nodes"])
        if last and (last[0]["members"] or 0) > nodes:
            whole = count(last[0]["members"])
            chart.notes.append((view, f"{count(nodes)} of {whole} nodes are drawn: a sample of those with links"))


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


_SCORE, _BELOW = 0, 1
_MEDIAN, _LOWEST, _THRESHOLD = range(3)
_NEAR = 2
"""A threshold below this multiple of the lowest score is not drawn, because it would flatten the curves."""


def scores_over_time(chart: Figure, runs: Sequence[Run]) -> None:
    for run in runs:
        table = run.read("scores")
        totals = table.filter(compute.equal(table.column("part"), "score")).sort_by("time_us")
        if not len(totals):
            continue
        thresholds = thresholds_in(scenario_of(run.folder))
        bounds = {} if thresholds is None else asdict(thresholds)
        note = _at_the_end(totals.slice(len(totals) - 1).to_pylist()[0], bounds)
        rows = totals.take(evenly(len(totals), BUCKETS))
        for view in run.views:
            chart.notes.append((view, note))
            _add_scores(chart, view, rows, run.start_us, bounds)


def _add_scores(chart: Figure, view: View, rows: Any, start_us: int, bounds: Mapping[str, float]) -> None:
    times = (column(rows, "time_us") - start_us) / US_PER_S
    median, lowest, low, high = (column(rows, name) for name in ("median", "lowest", "p5", "p95"))
    chart.add(view, panel=_SCORE, measure=_MEDIAN, x=times, y=median, low=low, high=high)
    chart.add(view, panel=_SCORE, measure=_LOWEST, x=times, y=lowest)
    chart.add(view, panel=_BELOW, x=times, y=column(rows, "below_zero"))
    for bound in sorted({bound for bound in bounds.values() if bound >= _NEAR * lowest.min()}):
        chart.add(view, panel=_SCORE, measure=_THRESHOLD, x=times, y=[bound] * len(times))


def _at_the_end(last: Row, bounds: Mapping[str, float]) -> str:
    """Return a note with the shares of scores below 0, and below each threshold, at the end of the run."""
    parts = [f"at the end {percent(last['below_zero'])} of {plural(last['pairs'], 'score')} are below 0"]
    for name, bound in bounds.items():
        parts.append(f"{percent(last[f'below_{name}'])} below {figure(bound)} ({name})")
    return ", ".join(parts)


COLUMNS_OVER_TIME = {
    "promises": ("asked", "answered", "broken"),
    "idontwant": ("withheld_bytes", "withdrawn_bytes"),
    "exchange": ("dials", "connections"),
}
"""The columns that are drawn over time, one line for each column, by result table."""


def amounts_over_time(chart: Figure, runs: Sequence[Run]) -> None:
    """Add a line for each amount per second, and a note with the sums. Leave out runs without rows and, in the chart
    of promises, runs without a broken promise.
    """
    names = COLUMNS_OVER_TIME[chart.source]
    for run in runs:
        rows = run.read(chart.source).sort_by("second")
        total = {name: float(column(rows, name).sum()) for name in TABLES[chart.source].names[3:]}
        if not len(rows) or total.get("broken") == 0:
            continue
        times, values = _stretches(rows, names)
        groups = buckets(times)
        x = [float(times[group][0]) for group in groups]
        known = [f"{name} {count(value)}" for name, value in total.items() if not np.isnan(value)]
        for view in run.views:
            chart.notes.append((view, f"in all: {', '.join(known)}"))
            for measure, name in enumerate(names):
                if not np.isnan(total[name]):
                    chart.add(view, measure=measure, x=x, y=[float(values[name][group].mean()) for group in groups])


def _stretches(rows: Any, names: Sequence[str]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return all times from the first to the last row, and for each column the amount per second at each time. The
    amount is 0 at a time without a row.
    """
    width = rows.column("seconds")[0].as_py()
    places = (column(rows, "second") / width).astype(int)
    places -= places[0]
    times = column(rows, "second")[0] + width * np.arange(places[-1] + 1, dtype=np.float64)
    values = {name: np.zeros(len(times)) for name in names}
    for name in names:
        values[name][places] = column(rows, name) / width
    return times, values
