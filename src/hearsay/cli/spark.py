"""`hearsay spark`: check that Spark can run, and prepare a faster start.

Other commands use the Spark session of this module: its options choose where Spark runs, and it shows the progress of
the steps.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import settings_of
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.progress import shown_progress
from hearsay.number_text import count, plain, plural, seconds, size
from hearsay.text import table_text
from hearsay.user_errors import require_extra

if TYPE_CHECKING:
    from hearsay.pipeline.spark.settings import Where

_PLACES = ("spark.master", "spark.remote")
_REMOTE = re.compile(r"sc://.*|local(\[(\d+|\*)\])?")
_MASTER = re.compile(r"(spark|k8s)://.+|yarn|local(\[(\d+|\*)(, *\d+)?\]|-cluster\[[\d, ]+\])?")
_SMALL_RUN = [("network.nodes", "20"), ("workload.messages", "5")]
# `memory` is the largest memory of a task, `time` the sum over all tasks, and `skew` the time of a stage's longest
# task divided by the mean time of its tasks.
_HEAD = ("step", "tasks", "rows read", "shuffled", "spilled", "memory", "time", "skew")
_OPTIONS = (
    click.option("--conf", multiple=True, metavar="spark.NAME=VALUE", help="A setting of Spark; can be repeated."),
    click.option("--remote", metavar="URL", help="Spark Connect server: sc://…, or local[N] on this machine."),
    click.option("--master", metavar="URL", help="Spark cluster: spark://…, yarn, k8s://… (default: this machine)."),
)


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --master, --remote and --conf to a command. The command gets their values as the argument
    `where`.
    """

    @wraps(command)
    def with_where(
        *arguments: Any, master: str | None, remote: str | None, conf: tuple[str, ...], **options: Any
    ) -> None:
        command(*arguments, where=_where(master, remote, conf), **options)

    for option in _OPTIONS:
        with_where = option(with_where)
    return with_where


def _where(master: str | None, remote: str | None, conf: tuple[str, ...]) -> Where:
    from hearsay.pipeline.spark.settings import Where

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


@click.group("spark")
def command() -> None:
    """Check Spark, or prepare a faster start."""


@command.command("doctor")
@spark_options
@click.option("--no-start", is_flag=True, help="Do not start a session for the check.")
def doctor(where: Where, no_start: bool) -> None:
    """Check whether Spark can run here.

    The checks concern Java, versions of packages, memory and the cluster. Print how to fix each problem.
    """
    from hearsay.pipeline.spark.doctor import Finding, findings, try_session

    def show(found: Finding) -> None:
        click.echo(f"{'ok  ' if found.good else 'BAD '} {found.what}: {found.text}")
        if not found.good and found.fix:
            click.echo(f"     fix: {found.fix}")

    bad = 0
    for found in findings():
        show(found)
        bad += not found.good
    if not bad and not no_start:
        found = try_session(where)
        show(found)
        bad += not found.good
    if bad:
        raise CommandFailed(f"Spark cannot run here: {plain(plural(bad, 'check'))} failed")


@command.command("prepare")
@click.option("--again", is_flag=True, help="Prepare again, even if this has been done.")
def prepare(again: bool) -> None:
    """Prepare a faster start of embedded Spark.

    Store the classes that the JVM loads, so that Spark starts in half the time.
    Run this once for each version of Java and Spark.
    """
    from hearsay.pipeline.spark.java import file_to_make, store_file
    from hearsay.pipeline.spark.settings import SparkUnavailable, Where
    from hearsay.sim.scenario.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.folder.run_folder import RunFolder

    require_spark_at(Where())
    try:
        file = file_to_make()
    except SparkUnavailable as error:
        raise CommandFailed(f"not prepared, and Spark starts as before: {error}") from None
    if file.exists() and not again:
        click.echo(f"there already: {file}")
        return
    file.unlink(missing_ok=True)
    with TemporaryDirectory(prefix=".new-", dir=file.parent) as work:
        run, made = Path(work) / "run", Path(work) / file.name
        Simulation(load_scenario(None, "r1", _SMALL_RUN, router="gossipsub"), folder=RunFolder.create(run)).run()
        click.echo("spark: running an analysis, and storing the classes that the JVM loads", err=True)
        option = f'spark.driver.extraJavaOptions="-XX:AOTCacheOutput={made}"'
        done = subprocess.run(
            [sys.executable, "-m", "hearsay", "analyze", run, "--conf", option], capture_output=True, text=True
        )  # the JVM inherits the pipes, so `run` waits until the JVM has written the file
        if done.returncode or not made.exists():
            raise CommandFailed(f"not prepared, and Spark starts as before: {done.stderr.strip()[-200:]}")
        store_file(made, file)
    click.echo(f"{file} ({file.stat().st_size >> 20} MiB)")


def require_spark_at(where: Where) -> None:
    """Raise an error if a check without a session shows that no session can be opened."""
    from hearsay.pipeline.spark.session import require_spark
    from hearsay.pipeline.spark.settings import heap

    require_extra("spark")
    if where.remote is None:
        heap()
    require_spark(where)


def start_spark_ahead(where: Where, runs: Sequence[Path]) -> None:
    """Start Spark in the background, so that the command can check the runs at the same time.

    Do nothing if the manifest of one of the runs cannot be read.
    """
    from hearsay.pipeline.spark.session import start_ahead
    from hearsay.trace.folder.manifest import RunFolderError, load_manifest

    try:
        rows = sum(file.rows for run in runs for file in load_manifest(run).trace.files)
    except RunFolderError:
        return
    start_ahead(where, rows)


@dataclass(slots=True)
class SparkWork:
    """An open Spark session, and a function that shows the progress of the work in it."""

    session: Any
    step: Callable[[str], None]
    """A function that shows that a step begins. Its argument is the name of the step."""


@contextmanager
def spark_steps(where: Where, rows: int, steps: int | None = None) -> Generator[SparkWork]:
    """Yield an open session whose settings suit `rows` trace rows, with a function that shows the progress of the
    work. Close the session at the end of the block. `steps` is the number of steps of the work; None is that of an
    analysis.
    """
    from hearsay.pipeline.analyze import STEPS
    from hearsay.pipeline.spark.session import spark_session

    started = monotonic()
    begun = 0

    def step(text: str) -> None:
        nonlocal begun
        begun += 1
        show(begun, (steps or STEPS) + 1, lambda: f"{text} ({monotonic() - started:.0f} s)", now=True)

    with shown_progress("spark", "spark: ") as show, spark_session(where, rows, step) as session:
        yield SparkWork(session, step)


def say(text: str) -> None:
    print(f"spark: {text}", file=sys.stderr, flush=True)


@contextmanager
def counted(where: Where) -> Generator[Where]:
    """Yield `where` with settings with which Spark writes an event log. At the end of the block, print the counters
    in the log by step. Raise `WrongInput` for --remote.
    """
    if where.remote:
        raise WrongInput("--stats cannot be used with --remote; the web page of the server has its counters")
    with TemporaryDirectory(prefix="hearsay-events-") as folder:
        log = {"enabled": "true", "compress": "false", "dir": Path(folder).as_uri()}
        yield replace(where, conf=(*where.conf, *((f"spark.eventLog.{name}", value) for name, value in log.items())))
        click.echo(_counters_text(Path(folder)), err=True)


def _counters_text(folder: Path) -> str:
    """Return a table of the counters in the event logs of a folder, with a row for each step."""
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
