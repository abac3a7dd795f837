"""`hearsay spark`: check that Spark can run, and prepare a faster start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from hearsay.cli.ending import CommandFailed
from hearsay.cli.spark_steps import require_spark_at, spark_options

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where

_SMALL_RUN = [("network.nodes", "20"), ("workload.messages", "5")]


@click.group("spark")
def command() -> None:
    """Check Spark, or prepare a faster start."""


@command.command("doctor")
@spark_options
@click.option("--no-start", is_flag=True, help="Check without starting a session.")
def doctor(where: Where, no_start: bool) -> None:
    """Show what is installed (Java, versions, memory, cluster) and how to install what is missing."""
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
        raise CommandFailed("Spark cannot run here as it is")


@command.command("prepare")
@click.option("--again", is_flag=True, help="Repeat the preparation.")
def prepare(again: bool) -> None:
    """Store loaded classes of the JVM, so that embedded Spark starts in half the time.

    This is needed once for each version of Java and Spark.
    """
    from hearsay.pipeline.spark.aot_cache import file_to_make, keep
    from hearsay.pipeline.spark.place import SparkUnavailable, Where
    from hearsay.sim.scenario.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.write.run_folder import RunFolder

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
        click.echo("spark: watching an analysis, and writing what the JVM loads for it", err=True)
        option = f'spark.driver.extraJavaOptions="-XX:AOTCacheOutput={made}"'
        done = subprocess.run(
            [sys.executable, "-m", "hearsay", "analyze", run, "--conf", option], capture_output=True, text=True
        )  # the JVM inherits the pipes, so `run` waits until the JVM has written the file
        if done.returncode or not made.exists():
            raise CommandFailed(f"not prepared, and Spark starts as before: {done.stderr.strip()[-200:]}")
        keep(made, file)
    click.echo(f"{file} ({file.stat().st_size >> 20} MiB)")
