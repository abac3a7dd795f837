"""`hearsay trace`: look at the traces of runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hearsay.cli.main import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.trace.schema import TraceEvent


@click.group("trace")
def command() -> None:
    """Look at traces: show one, compare two."""


@command.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--node", metavar="NODE", help="Only rows of this node, by number or name.")
@click.option("--event", metavar="NAME", help="Only rows of this event, such as deliver or graft.")
@click.option("--topic", metavar="NAME", help="Only rows of this topic.")
@click.option("--message", type=int, metavar="N", help="Only rows of this message.")
@click.option("--from", "since", type=float, metavar="SECONDS", help="Only rows from this time on.")
@click.option("--to", "until", type=float, metavar="SECONDS", help="Only rows up to this time.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows to show.")
@click.option("--derive", is_flag=True, help="Show receives and duplicates too, which follow from the sends.")
def show_command(
    run: Path,
    node: str | None,
    event: str | None,
    topic: str | None,
    message: int | None,
    since: float | None,
    until: float | None,
    limit: int,
    derive: bool,
) -> None:
    """Show the rows of RUN in order, one line each."""
    from itertools import islice

    from hearsay.trace.names import load_names
    from hearsay.trace.reader import iter_rows
    from hearsay.trace.show import show

    events = _events(event)
    with _readable():
        names = load_names(run)
        rows = iter_rows(
            run,
            events=events,
            peer=_number_or_name(node),
            topic=topic,
            message=message,
            from_us=_micros(since),
            before_us=_micros(until),
            derive=derive,
        )
        shown = list(islice(rows, limit + 1))
    for row in shown[:limit]:
        click.echo(show(row, names))
    if len(shown) > limit:
        click.echo(f"… more rows; --limit shows more than {limit}", err=True)


@command.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--context", type=click.IntRange(0), default=10, show_default=True, help="Rows before the divergence.")
def diff_command(a: Path, b: Path, context: int) -> None:
    """Compare the traces of runs A and B; exit 1 and name the first divergence if they differ."""
    from hearsay.trace.diff import diff_runs, render
    from hearsay.trace.names import load_names

    with _readable():
        difference = diff_runs(a, b, context=context)
        names = load_names(a)
    if difference is None:
        click.echo("the traces are equal")
        return
    click.echo(render(difference, names))
    raise click.exceptions.Exit(1)


@contextmanager
def _readable() -> Generator[None]:
    """A folder that cannot be read is a failure with one line."""
    from hearsay.trace.errors import RunFolderError

    try:
        yield
    except RunFolderError as error:
        raise CommandFailed(str(error)) from None


def _events(name: str | None) -> set[TraceEvent] | None:
    from hearsay.trace.schema import TraceEvent

    if name is None:
        return None
    by_name = {event.name.lower(): event for event in TraceEvent}
    if name not in by_name:
        raise WrongInput(f"--event {name}: there are {', '.join(by_name)}")
    return {by_name[name]}


def _number_or_name(node: str | None) -> int | str | None:
    return int(node) if node is not None and node.isdigit() else node


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
