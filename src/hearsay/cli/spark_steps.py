"""A Spark session for a command, with a word on what there is to wait for: a bar on a terminal, plain lines else."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.progress import bars_can_be_drawn
from hearsay.extras import require_extra

if TYPE_CHECKING:
    from rich.progress import Progress

    from hearsay.pipeline.spark.place import Where


def chosen_place(master: str | None, remote: str | None) -> Where:
    """Where Spark shall run, by the two options that say it."""
    from hearsay.pipeline.spark.place import Where

    if master and remote:
        raise WrongInput("give --master or --remote, not both")
    if master is not None and not _MASTER.fullmatch(master):
        raise WrongInput(f"--master {master}: must be spark://HOST:PORT, yarn, k8s://URL or local[CORES]")
    if remote is not None and not _REMOTE.fullmatch(remote):
        raise WrongInput(f"--remote {remote}: must be sc://HOST:PORT or local[CORES]")
    return Where(master, remote)


def require_settings(where: Where) -> None:
    """What the user's environment sets for a JVM here must be usable."""
    from hearsay.pipeline.spark.place import WrongSetting, heap

    if where.remote is not None:
        return
    try:
        heap()
    except WrongSetting as error:
        raise WrongInput(str(error)) from None


def require_spark_at(where: Where) -> None:
    """Fail before anything is begun if there can be no session."""
    from hearsay.pipeline.spark.place import SparkUnavailable
    from hearsay.pipeline.spark.session import require_spark

    require_extra("spark")
    require_settings(where)
    try:
        require_spark(where)
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None


_REMOTE = re.compile(r"sc://.*|local(\[(\d+|\*)\])?")
_MASTER = re.compile(r"(spark|k8s)://.+|yarn|local(\[(\d+|\*)(, *\d+)?\]|-cluster\[[\d, ]+\])?")


def start_spark_ahead(where: Where, runs: Sequence[Path]) -> None:
    """Have Spark start while these runs are looked at, as far as one can tell so early that they can be analysed."""
    from hearsay.pipeline.spark.session import start_ahead
    from hearsay.trace.folder.manifest import load_manifest
    from hearsay.trace.language.errors import RunFolderError

    try:
        rows = sum(file.rows for run in runs for file in load_manifest(run).trace.files)
    except RunFolderError:
        return
    start_ahead(where, rows)


def say(text: str) -> None:
    print(f"spark: {text}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class SparkWork:
    """An open session and its progress."""

    session: Any
    started: float
    progress: Progress | None
    task: Any
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def step(self, text: str) -> None:
        self.seconds[text] = monotonic() - self.started
        if self.progress is None:
            print(f"spark: {text} ({monotonic() - self.started:.0f} s)", file=sys.stderr)
        else:
            self.progress.update(self.task, advance=1, text=text)


@contextmanager
def spark_steps(
    where: Where,
    rows: int,
    steps: int | None = None,
) -> Generator[SparkWork]:
    """Open a session for `rows` trace rows, and close it in the end."""
    from hearsay.pipeline.analyze import STEPS
    from hearsay.pipeline.spark.place import SparkUnavailable
    from hearsay.pipeline.spark.session import spark_session

    started = monotonic()
    progress, task = _bar(steps or STEPS) if bars_can_be_drawn() else (None, None)
    work = SparkWork(None, started, progress, task)
    try:
        if progress is not None:
            progress.start()
        with spark_session(where, rows, work.step) as session:
            work.session = session
            yield work
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    finally:
        if progress is not None:
            progress.stop()


def _bar(steps: int) -> tuple[Progress, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("spark"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    return progress, progress.add_task("", total=steps + 1, text="starting Spark")
