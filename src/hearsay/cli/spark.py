"""`hearsay spark doctor`: what there is of Spark here, and how to mend it."""

from __future__ import annotations

import click

from hearsay.cli.failures import CommandFailed


@click.group("spark")
def command() -> None:
    """Look after Spark."""


@command.command("doctor")
@click.option("--master", metavar="URL", help="Try this cluster.")
@click.option("--remote", metavar="URL", help="Try this Spark Connect server.")
@click.option("--no-start", is_flag=True, help="Only look, do not start a session.")
def doctor(master: str | None, remote: str | None, no_start: bool) -> None:
    """Say what is found (Java, versions, memory, cluster) and how to mend what is missing."""
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
