"""`hearsay report`: analysed runs as one HTML file to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from hearsay.cli.main import CommandFailed, WrongInput

REPORT = "report.html"


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help=f"The file to write; RUN/{REPORT} for one run, required for several.")  # fmt: skip
def command(runs: Sequence[Path], out: Path | None) -> None:
    """Write a report of analysed runs: one HTML file that needs no network; several runs stand side by side."""
    from hearsay.report.errors import ReportError
    from hearsay.report.write import write_report

    if out is None and len(runs) > 1:
        raise WrongInput("several runs need --out FILE: where shall the report go?")
    target = runs[0] / REPORT if out is None else out
    try:
        write_report(runs, target)
    except ReportError as error:
        raise CommandFailed(str(error)) from None
    click.echo(f"report: {target}")
