"""The way in: analysed runs to one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hearsay.report.carried_messages import carry_messages
from hearsay.report.errors import ReportError
from hearsay.report.explain.worth_explaining import worth_explaining
from hearsay.report.figure import Figure
from hearsay.report.figures.churn import churn_timeline
from hearsay.report.figures.efficiency import control_overhead, copies_per_delivery
from hearsay.report.figures.latency import delivery_cdf, latency_over_time
from hearsay.report.figures.load import load_per_node, state_per_node
from hearsay.report.figures.mesh import degree_histogram, degree_over_time
from hearsay.report.figures.pictures import mesh_picture
from hearsay.report.figures.spread import spread_of_a_message
from hearsay.report.figures.standing import (
    connected_by_exchange,
    promises_over_time,
    saved_by_idontwant,
    scores_over_time,
)
from hearsay.report.page import page
from hearsay.report.report_file import require_report_or_nothing, write_report_file
from hearsay.report.run import Run, open_runs
from hearsay.report.run_names import named
from hearsay.trace.folder.own_folders import held_by

FIGURES = (
    delivery_cdf,
    latency_over_time,
    copies_per_delivery,
    control_overhead,
    load_per_node,
    state_per_node,
    degree_over_time,
    degree_histogram,
    churn_timeline,
    scores_over_time,
    promises_over_time,
    saved_by_idontwant,
    connected_by_exchange,
    spread_of_a_message,
    mesh_picture,
)

OF_SOME_ROUTERS = ("scores", "promises", "idontwant", "exchange")
"""Figures of what not every router does: they are there if a run has something to say."""

MEASURED_AS = {
    "control": "bytes_out",
    "load": "bytes_out",
    "state": "state",
    "mesh": "mesh_shape",
    "degrees": "mesh_shape",
    "picture": "mesh_shape",
    "churn": "nodes_up",
}
"""Which line of the table `measured` says why a figure has nothing to show."""

REPORT = "report.html"


def write_report(
    runs: Sequence[Path], out: Path | None, *, explain: bool = False, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the report of the runs in these folders, or into the folder of the first; returns where it is.

    The file appears whole or not at all. `explain` has the messages that are worth it explained also where that takes
    long; `say` hears what takes its time.
    """
    target = runs[0] / REPORT if out is None else out
    require_report_or_nothing(target)
    selection = open_runs(runs)
    if out is None and held_by(runs[0].resolve()) is None:
        raise ReportError(f"{runs[0]}: is no folder of hearsay's; say with --out where the report shall go")
    figures = figures_of(selection.runs)
    carry_messages(figures, selection.runs)
    explained = worth_explaining(selection, lambda run: named(selection, run), explain, say)
    write_report_file(target, page(selection, figures, explained))
    return target


def figures_of(runs: Sequence[Run]) -> list[Figure]:
    """What real nodes' traces cannot tell has no figure; beside runs that can tell it, the reason stands there."""
    figures = [build(runs) for build in FIGURES]
    figures = [each for each in figures if each.series or each.id not in OF_SOME_ROUTERS]
    if all(run.of_real_nodes for run in runs):
        figures = [each for each in figures if each.series]
    for each in figures:
        there = {(one["run"], one["topic"]) for one in each.series} | {
            (view.run, view.place) for view, _ in each.absent
        }
        for run in runs:
            reason = run.why_not(MEASURED_AS.get(each.id, ""))
            each.absent.extend(
                (view, f"not measured: {reason}.")
                for view in run.views
                if reason is not None and (view.run, view.place) not in there
            )
    return figures
