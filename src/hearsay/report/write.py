"""Write the report of analysed runs as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hearsay.report import figures_delivery, figures_mesh
from hearsay.report.carried_messages import carry_messages
from hearsay.report.figure import Figure, declared_figures
from hearsay.report.html import ReportError, require_report_or_nothing, write_report_file
from hearsay.report.run_page import run_page
from hearsay.report.runs import Run, open_runs
from hearsay.report.worth_explaining import worth_explaining
from hearsay.trace.folder.own_folders import held_by

DRAW: Mapping[str, Callable[[Figure, Sequence[Run]], None]] = {
    "latency": figures_delivery.delivery_cdf,
    "churn": figures_delivery.delivery_over_time,
    "latency-over-time": figures_delivery.latency_over_time,
    "copies": figures_delivery.copies_per_delivery,
    "control": figures_delivery.control_overhead,
    "load": figures_delivery.load_per_node,
    "state": figures_delivery.state_per_node,
    "mesh": figures_mesh.degree_over_time,
    "degrees": figures_mesh.degrees_at_the_end,
    "scores": figures_mesh.scores_over_time,
    **dict.fromkeys(figures_mesh.COLUMNS_OVER_TIME, figures_mesh.amounts_over_time),
    "spread": figures_delivery.spread_of_a_message,
    "picture": figures_mesh.mesh_picture,
}
"""Functions that add the series of the charts in `assets/figures.toml`."""

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
    """Return the figures with the series of all runs, and for a run without a figure the reason.

    Optional figures without series are left out; if all runs are of real nodes, all figures without series.
    """
    figures = list(declared_figures())
    for each in figures:
        DRAW[each.id](each, runs)
    figures = [each for each in figures if each.series or not each.optional]
    if all(run.of_real_nodes for run in runs):
        figures = [each for each in figures if each.series]
    for each in figures:
        there = {(one["run"], one["topic"]) for one in each.series} | {
            (view.run, view.place) for view, _ in each.absent
        }
        for run in runs:
            reason = run.why_not(each.measured_as)
            each.absent.extend(
                (view, f"not measured: {reason}.")
                for view in run.views
                if reason is not None and (view.run, view.place) not in there
            )
    return figures
