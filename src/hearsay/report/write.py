"""Write the report of analysed runs as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hearsay.report.carried_messages import carry_messages
from hearsay.report.figure import Figure
from hearsay.report.figures_cost import control_overhead, copies_per_delivery, load_per_node, state_per_node
from hearsay.report.figures_delivery import delivery_cdf, delivery_over_time, latency_over_time, spread_of_a_message
from hearsay.report.figures_mesh import degree_over_time, degrees_at_the_end, mesh_picture
from hearsay.report.figures_standing import (
    connected_by_exchange,
    promises_over_time,
    saved_by_idontwant,
    scores_over_time,
)
from hearsay.report.html import ReportError, require_report_or_nothing, write_report_file
from hearsay.report.run_page import run_page
from hearsay.report.runs import Run, open_runs
from hearsay.report.worth_explaining import worth_explaining
from hearsay.trace.folder.own_folders import held_by

FIGURES = (
    delivery_cdf,
    delivery_over_time,
    latency_over_time,
    copies_per_delivery,
    control_overhead,
    load_per_node,
    state_per_node,
    degree_over_time,
    degrees_at_the_end,
    scores_over_time,
    promises_over_time,
    saved_by_idontwant,
    connected_by_exchange,
    spread_of_a_message,
    mesh_picture,
)

OPTIONAL = ("scores", "promises", "idontwant", "exchange")
"""Figures that only some routers have. Without data, they are omitted."""

MEASURED_AS = {
    "control": "bytes_out",
    "load": "bytes_out",
    "state": "state",
    "mesh": "mesh_shape",
    "degrees": "mesh_shape",
    "picture": "mesh_shape",
    "churn": "nodes_up",
}
"""Rows of the table `measured` that explain missing figures."""

REPORT = "report.html"


def write_report(
    runs: Sequence[Path], out: Path | None, *, explain: bool = False, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the report of runs (default: into the folder of the first), and return its path.

    `explain` adds explanations for large runs and several runs. `say` gets the progress of explanations.
    """
    target = runs[0] / REPORT if out is None else out
    require_report_or_nothing(target)
    selection = open_runs(runs)
    if out is None and held_by(runs[0].resolve()) is None:
        raise ReportError(f"{runs[0]}: is not a folder of Hearsay; give --out")
    figures = figures_of(selection.runs)
    carry_messages(figures, selection.runs)
    explained = worth_explaining(selection, explain, say)
    write_report_file(target, run_page(selection, figures, explained))
    return target


def figures_of(runs: Sequence[Run]) -> list[Figure]:
    """Return the figures. Figures that no trace has are left out; runs without one show the reason."""
    figures = [build(runs) for build in FIGURES]
    figures = [each for each in figures if each.series or each.id not in OPTIONAL]
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
