"""`hearsay report`: analysed runs as one HTML file to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.given_paths import GivenPath, require_distinct


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="The file to write; RUN/report.html for one run, required for several.")  # fmt: skip
def command(runs: Sequence[Path], out: Path | None) -> None:
    """Write a report of analysed runs: one HTML file that needs no network; several runs stand side by side."""
    from hearsay.report.errors import ReportError
    from hearsay.report.write import write_report
    from hearsay.trace.language.errors import RunFolderError

    if out is None and len(runs) > 1:
        raise WrongInput("several runs need --out FILE: where shall the report go?")
    require_distinct(runs)
    try:
        written = write_report(runs, out)
    except (ReportError, RunFolderError) as error:
        raise CommandFailed(str(error)) from None
    click.echo(f"report: {written}")
