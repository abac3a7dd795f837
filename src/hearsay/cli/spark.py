"""`hearsay spark`: check what Spark needs, and prepare a faster start."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from hearsay.cli.ending import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.group("spark")
def command() -> None:
    """Check Spark, or prepare a faster start."""


@command.command("doctor")
@click.option("--master", metavar="URL", help="Try this cluster.")
@click.option("--remote", metavar="URL", help="Try this Spark Connect server, or local[N].")
@click.option("--no-start", is_flag=True, help="Check without starting a session.")
def doctor(master: str | None, remote: str | None, no_start: bool) -> None:
    """Show what is installed (Java, versions, memory, cluster) and how to install what is missing."""
    from hearsay.cli.spark_steps import chosen_place
    from hearsay.pipeline.spark.doctor import Finding, findings, try_session

    where = chosen_place(master, remote)

    def show(found: Finding) -> None:
        click.echo(f"{'ok  ' if found.good else 'BAD '} {found.what}: {found.text}")
        if not found.good and found.mend:
            click.echo(f"     mend: {found.mend}")

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
    from hearsay.cli.spark_steps import require_spark_at
    from hearsay.pipeline.spark.jvm import find_java
    from hearsay.pipeline.spark.place import SparkUnavailable, Where
    from hearsay.pipeline.spark.session import prepare as make
    from hearsay.pipeline.spark.started_jvm import kept_file

    require_spark_at(Where())
    kept = kept_file(find_java())
    if kept is not None and not again:
        click.echo(f"there already: {kept}")
        return
    try:
        kept = make(_small_analyses, lambda text: click.echo(f"spark: {text}", err=True))
    except SparkUnavailable as error:
        raise CommandFailed(f"not prepared, and Spark starts as before: {error}") from None
    click.echo(f"{kept} ({kept.stat().st_size >> 20} MiB)")


def _small_analyses(session: SparkSession) -> None:
    """Load what an analysis loads."""
    from hearsay.pipeline.analyze import analyze
    from hearsay.pipeline.input.run_facts import load_runs
    from hearsay.sim.scenario.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.write.run_folder import RunFolder

    with TemporaryDirectory(prefix="hearsay-prepare-") as work:
        run = Path(work) / "run"
        sizes = [("network.nodes", "20"), ("workload.messages", "5")]
        Simulation(load_scenario(None, "r1", sizes, router="gossipsub"), folder=RunFolder.create(run)).run()
        runs = load_runs([run])
        analyze(session, runs, {"run": Path(work) / "tables"}, lambda _: None)
