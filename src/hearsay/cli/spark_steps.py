"""A Spark session for a command, with progress: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import settings_of
from hearsay.cli.ending import WrongInput
from hearsay.extras import require_extra
from hearsay.text.numbers import count, seconds, size
from hearsay.text.tables import table_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from hearsay.pipeline.spark.place import Where
    from hearsay.sim.simulate import Simulation


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose where Spark runs; the command gets them as the argument `where`."""

    @wraps(command)
    def with_where(
        *arguments: Any, master: str | None, remote: str | None, conf: tuple[str, ...], **options: Any
    ) -> None:
        command(*arguments, where=_where(master, remote, conf), **options)

    for option in _OPTIONS:
        with_where = option(with_where)
    return with_where


_OPTIONS = (
    click.option("--conf", multiple=True, metavar="spark.NAME=VALUE", help="A setting of Spark; may be repeated."),
    click.option("--remote", metavar="URL", help="Spark Connect server: sc://…, or local[N] on this machine."),
    click.option("--master", metavar="URL", help="Spark cluster: spark://…, yarn, k8s://… (default: this machine)."),
)


def _where(master: str | None, remote: str | None, conf: tuple[str, ...]) -> Where:
    from hearsay.pipeline.spark.place import Where

    if master and remote:
        raise WrongInput("give --master or --remote, not both")
    if master is not None and not _MASTER.fullmatch(master):
        raise WrongInput(f"--master {master}: must be spark://HOST:PORT, yarn, k8s://URL or local[CORES]")
    if remote is not None and not _REMOTE.fullmatch(remote):
        raise WrongInput(f"--remote {remote}: must be sc://HOST:PORT or local[CORES]")
    settings = settings_of(conf, "--conf", "spark.NAME=VALUE")
    for name, _ in settings:
        if not name.startswith("spark.") or name in _PLACES:
            instead = "use --master or --remote" if name in _PLACES else "must be spark.NAME=VALUE"
            raise WrongInput(f"--conf {name}: {instead}")
    return Where(master, remote, tuple(settings))


def require_spark_at(where: Where) -> None:
    """Raise an error before any work if it is certain that no session can be opened."""
    from hearsay.pipeline.spark.place import heap
    from hearsay.pipeline.spark.session import require_spark

    require_extra("spark")
    if where.remote is None:
        heap()
    require_spark(where)


_PLACES = ("spark.master", "spark.remote")
_REMOTE = re.compile(r"sc://.*|local(\[(\d+|\*)\])?")
_MASTER = re.compile(r"(spark|k8s)://.+|yarn|local(\[(\d+|\*)(, *\d+)?\]|-cluster\[[\d, ]+\])?")


def start_spark_ahead(where: Where, runs: Sequence[Path]) -> None:
    """Start Spark in the background, while the runs are checked. Do nothing if a manifest cannot be read."""
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
    """An open Spark session, and the progress of the work in it."""

    session: Any
    started: float
    progress: Progress | None
    task: Any
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds from the start until each step began, by the step's text."""

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
    """Open a session for `rows` trace rows, show the progress of its `steps`, and close it at the end."""
    from hearsay.pipeline.analyze import STEPS
    from hearsay.pipeline.spark.session import spark_session

    started = monotonic()
    progress = progress_bar("spark", "{task.fields[text]}") if bars_can_be_drawn() else None
    task = progress and progress.add_task("", total=(steps or STEPS) + 1, text="starting Spark")
    work = SparkWork(None, started, progress, task)
    try:
        if progress is not None:
            progress.start()
        with spark_session(where, rows, work.step) as session:
            work.session = session
            yield work
    finally:
        if progress is not None:
            progress.stop()


def progress_bar(what: str, *texts: str) -> Progress:
    """Return a progress bar on stderr, followed by texts and the elapsed time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn

    return Progress(what, BarColumn(), *texts, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


REFRESH_S = 0.1
PLAIN_EVERY_S = 10.0


def bars_can_be_drawn() -> bool:
    """Return whether stderr is a terminal that can overwrite a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


@contextmanager
def simulated_time(simulation: Simulation) -> Generator[Callable[[int], None]]:
    """Yield a callback that shows the simulated time, given in microseconds."""
    if bars_can_be_drawn():
        with _time_bar(simulation) as update:
            yield update
    else:
        yield _plain(simulation)


@contextmanager
def _time_bar(simulation: Simulation) -> Generator[Callable[[int], None]]:
    end_s = simulation.plan.end_us / 1e6
    texts = "{task.completed:.1f} of {task.total:.1f} s", "{task.fields[delivered]:,} delivered"
    last = 0.0
    with progress_bar("simulating", *texts) as progress:
        task = progress.add_task("", total=end_s, delivered=0)

        def update(now_us: int) -> None:
            nonlocal last
            if monotonic() - last >= REFRESH_S:
                last = monotonic()
                progress.update(task, completed=now_us / 1e6, delivered=simulation.delivered)

        yield update


def _plain(simulation: Simulation) -> Callable[[int], None]:
    end_s = simulation.plan.end_us / 1e6
    last = monotonic()

    def update(now_us: int) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S:
            last = monotonic()
            delivered = simulation.delivered
            print(f"simulated {now_us / 1e6:.1f} of {end_s:.1f} s, {delivered:,} delivered", file=sys.stderr)

    return update


# `memory` is the largest of a task, `time` the sum of all tasks, `skew` the longest task of a stage over the mean.
_HEAD = ("step", "tasks", "rows read", "shuffled", "spilled", "memory", "time", "skew")


@contextmanager
def counted(where: Where) -> Generator[Where]:
    """Yield `where` with Spark's event log switched on, and print the log's counters by step at the end."""
    if where.remote:
        raise WrongInput("--stats: must go without --remote; the web page of the server has its counters")
    with TemporaryDirectory(prefix="hearsay-events-") as folder:
        log = {"enabled": "true", "compress": "false", "dir": Path(folder).as_uri()}
        yield replace(where, conf=(*where.conf, *((f"spark.eventLog.{name}", value) for name, value in log.items())))
        click.echo(_text(Path(folder)), err=True)


def _text(folder: Path) -> str:
    from hearsay.pipeline.spark.event_log import counters_of

    rows = [
        (
            step or "(writing)", str(each.tasks), count(each.rows_read), size(each.shuffled_bytes),
            size(each.spilled_bytes), size(each.peak_bytes), seconds(sum(map(sum, each.seconds.values()))),
            f"{each.longest_over_mean:.1f}",
        )
        for step, each in counters_of(folder).items()
        if each.tasks
    ]  # fmt: skip
    return table_text(_HEAD, rows)
