"""The way in: analysed runs to one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hearsay.report.errors import ReportError
from hearsay.report.figures.churn import churn_timeline
from hearsay.report.figures.efficiency import control_overhead, copies_per_delivery
from hearsay.report.figures.latency import delivery_cdf, latency_over_time
from hearsay.report.figures.load import load_per_node, state_per_node
from hearsay.report.figures.mesh import degree_histogram, degree_over_time
from hearsay.report.figures.pictures import mesh_picture, spread_of_a_message
from hearsay.report.page import page
from hearsay.report.run import open_runs
from hearsay.trace.durable import DurableFile, write_durably

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
    spread_of_a_message,
    mesh_picture,
)


def write_report(runs: Sequence[Path], out: Path) -> None:
    """Write the report of the runs in these folders. The file appears whole or not at all."""
    selection = open_runs(runs)
    html = page(selection, [build(selection.runs) for build in FIGURES])
    data = html.encode("utf-8", "backslashreplace")

    def fill(file: DurableFile) -> None:
        file.write(data)

    try:
        write_durably(out, fill)
    except OSError as error:
        raise ReportError(f"{out}: cannot write the report ({error.strerror or error})") from error
