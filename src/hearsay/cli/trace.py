"""`hearsay trace`: look at the traces of runs, and import those of real networks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hearsay.cli.main import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.ingest.importing import Imported
    from hearsay.ingest.source_record import SourceRecord
    from hearsay.trace.run_folder import RunFolder
    from hearsay.trace.schema import TraceEvent

IN_THIS_PROCESS_BYTES = 512 << 20
LEAST_BYTES_PER_EVENT = 20
FORMATS = ("go-json", "go-pb", "traced", "hermes")


@click.group("trace")
def command() -> None:
    """Look at traces: show one, compare two, import those of real networks."""


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
    if not shown:
        click.echo("no row of this run is like that", err=True)
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


@command.command("import")
@click.argument("files", type=click.Path(path_type=Path, exists=True, dir_okay=False), nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="Write a run folder.")
@click.option("--format", "wanted", type=click.Choice(FORMATS), help="What the files are; else each is recognised.")
@click.option("--master", metavar="URL", help="Import on a Spark cluster: spark://…, yarn, k8s://…, local[N].")
@click.option("--remote", metavar="URL", help="Import on a Spark Connect server: sc://…")
@click.option("--allow-bad", is_flag=True, help="Exit 0 although files were quarantined.")
def import_command(
    files: tuple[Path, ...], out: Path, wanted: str | None, master: str | None, remote: str | None, allow_bad: bool
) -> None:
    """Import traces of real networks, FILES of go-libp2p-pubsub or hermes, as one run.

    Up to half a gigabyte is imported in this process, more on embedded Spark.
    """
    from hearsay.ingest.importing import NothingImported
    from hearsay.trace.run_folder import RunFolder

    if master and remote:
        raise WrongInput("give --master or --remote, not both")
    twice = {str(file) for file in files if sum(file.resolve() == other.resolve() for other in files) > 1}
    if twice:
        raise WrongInput(*(f"{file}: given twice" for file in sorted(twice)))
    with _readable():
        run = RunFolder.create(out)
    try:
        imported = _imported(files, run, wanted, master, remote)
    except NothingImported as nothing:
        run.discard()
        _name_quarantined(nothing.record)
        raise CommandFailed("nothing was imported") from None
    except OSError as error:
        raise CommandFailed(f"{out}: cannot write a run here ({error.strerror or error})") from None
    _name_quarantined(imported.record)
    _tell_imported(imported, out)
    if imported.record.quarantined and not allow_bad:
        raise click.exceptions.Exit(1)


def _imported(
    files: tuple[Path, ...], run: RunFolder, wanted: str | None, master: str | None, remote: str | None
) -> Imported:
    from hearsay.ingest.importing import import_traces

    size = sum(file.stat().st_size for file in files)
    if not (master or remote or size > IN_THIS_PROCESS_BYTES):
        return import_traces(files, run, wanted=wanted)
    from hearsay.cli.spark_steps import spark_steps
    from hearsay.ingest.importing import NothingImported
    from hearsay.ingest.spark_job import import_with_spark
    from hearsay.pipeline.failures import in_one_line
    from hearsay.pipeline.session import Where

    try:
        with spark_steps(Where(master, remote), size // LEAST_BYTES_PER_EVENT, steps=1) as work:
            work.step("importing")
            return import_with_spark(work.session, files, run, wanted=wanted)
    except (NothingImported, OSError):
        raise
    except CommandFailed:
        run.discard()
        raise
    except Exception as error:
        run.discard()
        raise CommandFailed(f"the import failed: {in_one_line(error)}") from None


def _name_quarantined(record: SourceRecord) -> None:
    from hearsay.trace.show import escape

    for file in record.quarantined:
        click.echo(f"hearsay: {escape(file.name)}: quarantined: {escape(file.reason or '')}", err=True)


def _tell_imported(imported: Imported, out: Path) -> None:
    files = imported.record.files
    good = len(files) - len(imported.record.quarantined)
    events = sum(file.events for file in files)
    click.echo(
        f"{out}: {good} of {len(files)} files, {events:,} events, {imported.rows:,} rows, "
        f"{imported.peers:,} peers, {imported.messages:,} messages"
    )
    flagged = sum(clock.flagged for clock in imported.clocks)
    if flagged:
        click.echo(f"the clocks of {flagged} of {len(imported.clocks)} peers are off; see skew.parquet")


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
