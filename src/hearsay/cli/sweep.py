"""`hearsay sweep`: execute all runs of a study, and write tables and a report of the results.

The commands of studies share functions: they execute runs, show the progress, and print messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.cli.progress import shown_progress
from hearsay.cli.spark import spark_options

if TYPE_CHECKING:
    from hearsay.pipeline.spark.settings import Where
    from hearsay.studies.packs import Row
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.runner import Progress, Sweep, Swept

FOLDER = "sweeps"
"""The folder that contains the folders of studies without `--out`, relative to the working directory."""
PLAIN_EVERY_S = 5.0
MOST_ERRORS = 5
"""Maximum number of different errors that `print_failures` prints."""
_REPEATED = {"vary": "--vary", "bounds": "--bound", "settings": "--set", "axes": "--axis"}


@click.command("sweep")
@click.argument("study", type=GivenPath(path_type=Path))
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of runs, tables and the report (default: {FOLDER}/STUDY).")  # fmt: skip
@click.option("--seeds", type=Whole(1, 100_000), metavar="N", help="Use the seeds 1 to N.")
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the base scenario; can be repeated.")  # fmt: skip
@click.option("--axis", "axes", multiple=True, metavar="SECTION.KEY=[VALUES]",
              help="Use these values on the axis that has this key; can be repeated.")  # fmt: skip
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), help="Replace the engine of the study.")
@click.option("--figure", "figures", multiple=True, metavar="NAME",
              help="Print this metric and its 95 % interval, not the usual metrics; can be repeated.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Repeat failed runs.")
@click.option("--dry-run", is_flag=True, help="Print the planned runs and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Run every combination of the values of a study's axes with every seed. Finished runs are not repeated."""
    from hearsay.report.study_page import write_study_report
    from hearsay.sim.scenario.reading import read_text
    from hearsay.studies.points import points_of
    from hearsay.studies.results import StudyFolder
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
        print_plan(sweep, options["where"])
        return
    swept = make_runs(sweep, options["where"])
    report = folder.path / "report.html"
    command = command_given("sweep", options["study"], options, ("seeds", "engine"))
    write_study_report(swept, report, folder.path / "pictures", command)
    _print_result(swept, folder.path, report, options)
    print_failures(swept.failures)
    if swept.failures:
        raise CommandFailed(f"{len(swept.failures)} of {sweep.runs} runs failed; --retry makes them again")


def _require_figures(names: Sequence[str]) -> None:
    from hearsay.studies.packs import BY_NAME

    for name in names:
        if name not in BY_NAME:
            raise WrongInput(f"--figure {name}: no such figure; there are {', '.join(BY_NAME)}")


def print_plan(sweep: Sweep, where: Where) -> None:
    """Print the axes and the number of runs of a study, and the missing runs."""
    study = sweep.study
    axes = " × ".join(f"{len(axis.steps)} {axis.name}" for axis in study.axes) or "one point"
    click.echo(f"{study.title}: {axes} × {len(study.seeds)} seeds: {sweep.runs} runs")
    print_missing_runs(sweep, where)


def _print_result(swept: Swept, folder: Path, report: Path, options: dict[str, Any]) -> None:
    if options["as_json"]:
        from hearsay.api.studies import SweepResult

        first = {"study": swept.study.name, "folder": str(folder), "report": str(report)}
        print_json({**first, **SweepResult(folder, swept).to_json()})
        return
    from hearsay.studies.study_text import points_text

    click.echo(points_text(swept, options["figures"]))
    click.echo(f"tables: {folder / 'tables'}")
    click.echo(f"report: {report}")


def make_runs(sweep: Sweep, where: Where) -> Swept:
    """Execute the missing runs of a study, and show the progress.

    The rows of finished runs stay in the folder even if an error or a signal ends the command.
    """
    from hearsay.studies.processes import choose_pack_maker

    open_maker = choose_pack_maker(sweep.study, where, say)
    before = sweep.runs - len(sweep.missing)
    if before:
        say(f"{before} of {sweep.runs} runs are there already")

    def kept() -> str:
        return f"{len(sweep.swept().results)} of {sweep.runs} runs"

    with progress_of(len(sweep.missing), kept, sweep.folder.path) as listen:
        return sweep.run(open_maker, listen)


@contextmanager
def progress_of(runs: int, kept: Callable[[], str], folder: Path) -> Generator[Callable[[Progress], None]]:
    """Yield a function that shows the progress of runs. `runs` is their number, which is shown at the start.

    If Spark fails or a signal arrives in the block, add to the message the number of runs that are not lost, and the
    folder with their results. `kept` returns this number as text, such as "3 of 20 runs".
    """
    from hearsay.pipeline.spark.settings import SparkUnavailable
    from hearsay.sim.plan.engines import time_span

    def text_of(progress: Progress) -> str:
        left = "" if progress.seconds_left is None else f", about {time_span(progress.seconds_left)} left"
        done = f"{progress.done} of {progress.total} runs done"
        return f"{done}, {progress.running} running, {progress.failed} failed{left}"

    def words() -> str:
        return f"{kept()} are kept in {folder}; the same command continues from there"

    first = f"0 of {runs} done, starting"
    try:
        with shown_progress("runs", "sweep: ", PLAIN_EVERY_S, first=first) as show:
            yield lambda progress: show(
                progress.done, progress.total, partial(text_of, progress), now=progress.done == progress.total
            )
    except SparkUnavailable as error:
        raise CommandFailed(f"{error}; {words()}") from None
    except KeyboardInterrupt as stopped:
        stopped.add_note(words())
        raise


def command_given(name: str, file: object, options: Mapping[str, Any], single: Sequence[str]) -> str:
    """Return the command line that makes the same runs again. `options` are the options of the command `name`;
    `single` are the names of those that have at most one value.
    """
    from hearsay.studies.settings import command_of

    words: list[object] = [name, file]
    for option, written in _REPEATED.items():
        words += [word for given in options.get(option, ()) for word in (written, given)]
    for option in single:
        words += [] if options[option] is None else [f"--{option.replace('_', '-')}", options[option]]
    return command_of(words)


def print_damaged_files(folder: StudyFolder) -> None:
    """Print a line for each file of results that could not be read."""
    for file in folder.damaged:
        click.echo(f"hearsay: {file}: cannot be read; its runs are made again", err=True)


def print_missing_runs(sweep: Sweep, where: Where) -> None:
    """Print the number of missing runs, and the estimated time of these runs on one core."""
    from hearsay.studies.runner import RunQueue

    queue = RunQueue(sweep.missing, {point.name: point.estimated_s for point in sweep.points})
    click.echo(f"to make: {len(sweep.missing)}, about {queue.seconds_left():.0f} s of one core{spark_start(where)}")


def spark_start(where: Where) -> str:
    """Return the end of an estimate: that Spark starts first, or an empty text without Spark."""
    from hearsay.studies.processes import is_on_spark

    return ", plus the start of Spark" if is_on_spark(where) else ""


def print_failures(failures: Sequence[Row]) -> None:
    """Print the errors of failed runs, at most `MOST_ERRORS` different errors: for each the first run with this
    error, and the number of further runs with it.
    """
    runs_by_error: dict[str, list[str]] = {}
    for row in failures:
        runs_by_error.setdefault(row["error"], []).append(row["run"])
    for error, runs in list(runs_by_error.items())[:MOST_ERRORS]:
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        click.echo(f"hearsay: run {runs[0]}{more} failed: {error}", err=True)
    if len(runs_by_error) > MOST_ERRORS:
        click.echo(
            f"hearsay: and {len(runs_by_error) - MOST_ERRORS} other errors; see the column error of runs", err=True
        )


def say(text: str) -> None:
    print(f"sweep: {text}", file=sys.stderr, flush=True)
