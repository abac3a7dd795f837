"""Functions that commands with many runs share: where runs are made, their progress, and messages at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.ending import CommandFailed
from hearsay.cli.spark_steps import bars_can_be_drawn, progress_bar

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.packs import Row
    from hearsay.studies.runner import Progress, Sweep, Swept

FOLDER = "sweeps"
"""The folder of studies without `--out`."""
PLAIN_EVERY_S = 5.0
MOST_ERRORS = 5


def make_runs(sweep: Sweep, where: Where) -> Swept:
    """Make the missing runs, with progress. Finished runs are kept even if an error or a signal ends the command."""
    from hearsay.studies.processes import choose_pack_maker

    open_maker = choose_pack_maker(sweep.study, where, say)
    before = sweep.runs - len(sweep.missing)
    if before:
        say(f"{before} of {sweep.runs} runs are there already")
    with (
        naming_what_is_kept(lambda: f"{len(sweep.swept().results)} of {sweep.runs} runs", sweep.folder.path),
        progress_of(len(sweep.missing)) as listen,
    ):
        return sweep.run(open_maker, listen)


@contextmanager
def naming_what_is_kept(kept: Callable[[], str], folder: Path) -> Generator[None]:
    """Add to the message of a failure or a signal how many runs are kept (the text of `kept`), and their folder."""
    from hearsay.pipeline.spark.place import SparkUnavailable

    def words() -> str:
        return f"{kept()} are kept in {folder}; the same command goes on from there"

    try:
        yield
    except SparkUnavailable as error:
        raise CommandFailed(f"{error}; {words()}") from None
    except KeyboardInterrupt as stopped:
        stopped.add_note(words())
        raise


_REPEATED = {"vary": "--vary", "bounds": "--bound", "settings": "--set", "axes": "--axis"}


def command_given(name: str, file: object, options: Mapping[str, Any], single: Sequence[str]) -> str:
    """Return the command line with the options that decide what runs; `single` are options with one value."""
    from hearsay.studies.settings import command_of

    words: list[object] = [name, file]
    for option, written in _REPEATED.items():
        words += [word for given in options.get(option, ()) for word in (written, given)]
    for option in single:
        words += [] if options[option] is None else [f"--{option.replace('_', '-')}", options[option]]
    return command_of(words)


def print_damaged_files(folder: StudyFolder) -> None:
    for file in folder.damaged:
        click.echo(f"hearsay: {file}: cannot be read; its runs are made again", err=True)


def print_missing_runs(sweep: Sweep) -> None:
    """Print the number of runs to make, and the time that they will take."""
    from hearsay.studies.runner import RunQueue

    queue = RunQueue(sweep.missing, {point.name: point.estimated_s for point in sweep.points})
    click.echo(f"to make: {len(sweep.missing)}, about {queue.seconds_left():.0f} s of one core")


def say(text: str) -> None:
    print(f"sweep: {text}", file=sys.stderr, flush=True)


def print_failures(failures: Sequence[Row]) -> None:
    """Print each error of failed runs, with the first run that has it and the number of others."""
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


@contextmanager
def progress_of(runs: int) -> Generator[Callable[[Progress], None]]:
    """Yield a callback that reports progress in runs."""
    if runs and bars_can_be_drawn():
        with _bar(runs) as listen:
            yield listen
    else:
        yield _plain()


def _progress_text(progress: Progress) -> str:
    from hearsay.sim.plan.engines import time_span

    left = "" if progress.seconds_left is None else f", about {time_span(progress.seconds_left)} left"
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
    with progress_bar("runs", "{task.completed} of {task.total} done, {task.fields[text]}") as bar:
        task = bar.add_task("", total=runs, text="starting")
        yield lambda progress: bar.update(
            task, total=progress.total, completed=progress.done, text=_progress_text(progress)
        )
