"""`hearsay report`: write a report of analysed runs as one HTML file, or draw figures of runs or of a study for a
paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hearsay.cli.arguments import GivenPath, PathOrUri, require_distinct
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.spark import spark_options
from hearsay.user_errors import require_extra

if TYPE_CHECKING:
    from hearsay.pipeline.spark.settings import Where
    from hearsay.studies.runner import Swept

STUDY = "study.toml"
TUNING = "tune.toml"


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=PathOrUri(path_type=Path))
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="Output file (default for one run: RUN/report.html).")  # fmt: skip
@click.option("--figures", type=GivenPath(path_type=Path, file_okay=False), metavar="DIR",
              help="Write figures for a paper as PNG and PDF, no report; RUNS may be a study's folder.")  # fmt: skip
@click.option("--explain", is_flag=True,
              help="Explain the slowest and the least delivered messages also of several runs, and of a run with "
              "more than a million rows.")  # fmt: skip
@spark_options
def command(runs: Sequence[Path | str], out: Path | None, figures: Path | None, explain: bool, where: Where) -> None:
    """Write a report of analysed runs as one HTML file, with several runs side by side.

    With --figures, write figures of the runs or of a study for a paper (needs the extra `figures`). Spark is needed
    only for runs in a store.
    """
    here = [run for run in runs if isinstance(run, Path)]
    if figures is None and out is None and (len(runs) > 1 or not here):
        raise WrongInput("several runs need --out FILE" if len(runs) > 1 else "a run in a store needs --out FILE")
    require_distinct(runs)
    if len(here) == len(runs):
        _write(here, out, figures, explain)
        return
    from hearsay.cli.analyze import copied_runs

    with copied_runs(where, runs) as folders:
        _write(folders, out, figures, explain)


def _write(runs: Sequence[Path], out: Path | None, figures: Path | None, explain: bool) -> None:
    for folder in runs:
        _require_no_report_of_its_own(folder, drawn=figures is not None)
    if figures is None:
        click.echo(f"report: {_report(runs, out, explain)}")
    elif explain:
        raise WrongInput("--figures and --explain: give one; explanations are part of a report")
    elif out is not None:
        raise WrongInput("--figures and --out: give one; use one command for the figures and one for the report")
    else:
        click.echo(f"figures: {_figures(runs, figures)} in {figures}")


def _require_no_report_of_its_own(folder: Path, *, drawn: bool) -> None:
    """Raise `WrongInput` if the folder is the folder of a study or tuning, because `sweep` or `tune` has written its
    report.

    With `drawn`, figures are drawn instead of a report, and the folder of a study is accepted.
    """
    if (folder / TUNING).is_file():
        maker, more = "tune", ""
    elif (folder / STUDY).is_file() and not drawn:
        maker, more = "sweep", "; for a paper: --figures DIR"
    else:
        return
    own = f"writes {folder / 'report.html'} and pictures in the same folder"
    raise WrongInput(f"{folder}: is a folder of hearsay {maker}, which {own}{more}")


def _report(runs: Sequence[Path], out: Path | None, explain: bool) -> Path:
    from hearsay.report.run_page import write_report

    def say(words: str) -> None:
        if explain:
            click.echo(f"hearsay: {words}", err=True)

    return write_report(runs, out, explain=explain, log=say)


def _figures(folders: Sequence[Path], where: Path) -> int:
    """Write the figures to `where`, each as a PNG and a PDF file. Return the number of figures."""
    from hearsay.report.paper import KINDS
    from hearsay.report.paper_runs import write_run_figures
    from hearsay.report.paper_studies import write_study_figures

    require_extra("figures")
    studies = [folder for folder in folders if (folder / STUDY).is_file()]
    if not studies:
        return len(write_run_figures(folders, where)) // len(KINDS)
    if len(folders) > 1:
        raise WrongInput(f"{studies[0]}: is the folder of a study; give it alone")
    return len(write_study_figures(_swept(studies[0]), where)) // len(KINDS)


def _swept(folder: Path) -> Swept:
    """Return the results of the study in a folder. Raise `CommandFailed` if the folder has no runs of the study."""
    from hearsay.studies.points import points_of
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.runner import Sweep
    from hearsay.studies.study_file import load_study

    study = load_study(folder / STUDY)
    sweep = Sweep(study, points_of(study), StudyFolder.open_for_reading(folder))
    swept = sweep.swept()
    if not swept.results:
        raise CommandFailed(f"{folder}: has no runs of its study.toml; run `hearsay sweep {folder / STUDY}` first")
    if len(swept.results) < sweep.runs:
        click.echo(f"hearsay: {len(swept.results)} of {sweep.runs} runs exist; the figures show only these", err=True)
    return swept
