"""`hearsay sweep`: make all runs of a study, and write tables and a report of the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.cli.spark_steps import spark_options
from hearsay.cli.study_session import (
    FOLDER,
    command_given,
    make_runs,
    print_damaged_files,
    print_failures,
    print_missing_runs,
)

if TYPE_CHECKING:
    from hearsay.studies.runner import Sweep, Swept


@click.command("sweep")
@click.argument("study", type=GivenPath(path_type=Path))
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of the study (default: {FOLDER}/STUDY). Its finished runs are kept.")  # fmt: skip
@click.option("--seeds", type=Whole(1, 100_000), metavar="N", help="Seeds 1…N instead of the study's.")
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the base scenario.")  # fmt: skip
@click.option("--axis", "axes", multiple=True, metavar="SECTION.KEY=[VALUES]",
              help="Other values for an axis of the study.")  # fmt: skip
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), help="Overrides the study's engine.")
@click.option("--figure", "figures", multiple=True, metavar="NAME",
              help="Print this metric with its 95 % interval instead of the usual means.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Repeat failed runs.")
@click.option("--dry-run", is_flag=True, help="Print the planned runs and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Run every combination of a study's axes with every seed; existing runs are kept."""
    from hearsay.report.study_page import write_study_report
    from hearsay.sim.scenario.tables import read_text
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.points import points_of
    from hearsay.studies.runner import Sweep
    from hearsay.studies.study_file import load_study

    _require_figures(options["figures"])
    path: Path = options["study"]
    axes, settings = settings_of(options["axes"], "--axis"), settings_of(options["settings"])
    seeds = None if options["seeds"] is None else tuple(range(1, options["seeds"] + 1))
    study = load_study(path).changed(axes, settings, seeds, options["engine"])
    points = points_of(study)
    place: Path = options["out"] or Path(FOLDER) / study.name
    folder = StudyFolder.open_for_reading(place) if options["dry_run"] else StudyFolder.open(place)
    sweep = Sweep(study, points, folder, again=options["retry"])
    if not options["dry_run"]:
        folder.write_text("study.toml", read_text(path))
    print_damaged_files(folder)
    if options["dry_run"]:
        _print_plan(sweep)
        return
    swept = make_runs(sweep, options["where"])
    report = folder.path / "report.html"
    command = command_given("sweep", options["study"], options, ("seeds", "engine"))
    write_study_report(swept, report, folder.path / "pictures", command)
    _tell(swept, folder.path, report, options)
    print_failures(swept.failures)
    if swept.failures:
        raise CommandFailed(f"{len(swept.failures)} of {sweep.runs} runs failed; --retry makes them again")


def _require_figures(names: Sequence[str]) -> None:
    from hearsay.studies.packs import BY_NAME

    for name in names:
        if name not in BY_NAME:
            raise WrongInput(f"--figure {name}: no such figure; there are {', '.join(BY_NAME)}")


def _print_plan(sweep: Sweep) -> None:
    study = sweep.study
    axes = " × ".join(f"{len(axis.steps)} {axis.name}" for axis in study.axes) or "one point"
    click.echo(f"{study.title}: {axes} × {len(study.seeds)} seeds: {sweep.runs} runs")
    print_missing_runs(sweep)


def _tell(swept: Swept, folder: Path, report: Path, options: dict[str, Any]) -> None:
    if options["as_json"]:
        from hearsay.api.sweeps import SweepResult

        first = {"study": swept.study.name, "folder": str(folder), "report": str(report)}
        print_json({**first, **SweepResult(folder, swept).to_json()})
        return
    from hearsay.studies.study_text import points_text

    click.echo(points_text(swept, options["figures"]))
    click.echo(f"tables: {folder / 'tables'}")
    click.echo(f"report: {report}")
