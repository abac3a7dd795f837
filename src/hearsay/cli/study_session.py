"""Commands that make many runs: the place of runs, progress, and the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.spark_steps import bars_can_be_drawn, require_spark_at

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where
    from hearsay.studies.packs import Row
    from hearsay.studies.runner import Progress
    from hearsay.studies.study_file import Study
    from hearsay.studies.sweep import Sweep, Swept

PLAIN_EVERY_S = 5.0
MOST_ERRORS = 5


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say where Spark runs."""
    remote = click.option(
        "--remote", metavar="URL", help="Spark Connect server: sc://…, or local[N] on this machine."
    )
    master = click.option(
        "--master", metavar="URL", help="Spark cluster: spark://…, yarn, k8s://… (default: this machine)."
    )
    return master(remote(command))


def make_runs(sweep: Sweep, where: Where) -> Swept:
    """Make the missing runs, with progress; what is kept survives all that may happen."""
    from hearsay.pipeline.spark.place import SparkUnavailable
    from hearsay.studies.processes import is_on_spark, place_of_runs

    wanted = sweep.study.cores_per_task
    require_cores(sweep.study, where)
    try:
        if sweep.missing and is_on_spark(where):
            require_spark_at(where)
        with _progress(sweep) as listen:
            return sweep.run(place_of_runs(where, wanted, say), listen)
    except (SparkUnavailable, CommandFailed) as error:
        raise CommandFailed(f"{error}; {_kept(sweep)}") from None
    except KeyboardInterrupt as stopped:
        stopped.add_note(_kept(sweep))
        raise


def require_cores(study: Study, where: Where) -> None:
    """A run must not ask for more cores than there are here."""
    from hearsay.pipeline.spark.place import cores

    wanted = study.cores_per_task
    if where.master is None and where.remote is None and wanted > cores():
        raise WrongInput(f"{study.name}: cores_per_task = {wanted}: there are {cores()} cores here")


def tell_missing(sweep: Sweep) -> None:
    """How many runs there are to make, and what they will take."""
    from hearsay.studies.runner import RunQueue

    queue = RunQueue(sweep.missing, {point.name: point.estimated_s for point in sweep.points})
    click.echo(f"to make: {len(sweep.missing)}, about {queue.seconds_left():.0f} s of one core")


def say(text: str) -> None:
    print(f"sweep: {text}", file=sys.stderr, flush=True)


def tell_failures(failures: Sequence[Row]) -> None:
    """Name the errors of runs that failed."""
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


def _kept(sweep: Sweep) -> str:
    kept = len(sweep.swept().results)
    return f"{kept} of {sweep.runs} runs are kept in {sweep.folder.path}; the same command goes on from there"


@contextmanager
def _progress(sweep: Sweep) -> Generator[Callable[[Progress], None]]:
    before = sweep.runs - len(sweep.missing)
    if before:
        say(f"{before} of {sweep.runs} runs are there already")
    with progress_of(len(sweep.missing)) as listen:
        yield listen


@contextmanager
def progress_of(runs: int) -> Generator[Callable[[Progress], None]]:
    """Report progress in runs."""
    if runs and bars_can_be_drawn():
        with _bar(runs) as listen:
            yield listen
    else:
        yield _plain()


def _progress_text(progress: Progress) -> str:
    left = "" if progress.seconds_left is None else f", about {_span(progress.seconds_left)} left"
    return f"{progress.running} running, {progress.failed} failed{left}"


def _plain() -> Callable[[Progress], None]:
    last = 0.0

    def listen(progress: Progress) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S or progress.done == progress.total:
            last = monotonic()
            say(f"{progress.done} of {progress.total} runs done, {_progress_text(progress)}")

    return listen


@contextmanager
def _bar(runs: int) -> Generator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("runs"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} done, {task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=runs, text="starting")
        yield lambda progress: bar.update(
            task, total=progress.total, completed=progress.done, text=_progress_text(progress)
        )


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
