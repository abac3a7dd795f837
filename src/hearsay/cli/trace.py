"""`hearsay trace`: show and compare traces, join traces of several nodes, and import traces of real networks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, PathOrUri, Real, Whole, require_distinct
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.spark import SparkWork, require_spark_at, spark_options, spark_steps
from hearsay.number_text import plain, plural

if TYPE_CHECKING:
    from hearsay.ingest.import_traces import ImportResult
    from hearsay.ingest.source_record import SourceRecord
    from hearsay.pipeline.spark.settings import Where
    from hearsay.trace.folder.run_folder import RunFolder
    from hearsay.trace.language.schema import TraceEvent

IN_THIS_PROCESS_BYTES = 512 << 20
LEAST_BYTES_PER_EVENT = 20
FORMATS = ("go-json", "go-pb", "traced", "hermes")
MAX_CLOCKS_SHOWN = 20


@click.group("trace")
def command() -> None:
    """Show, compare, join and import traces."""


@command.command("show")
@click.argument("run", type=GivenPath(path_type=Path))
@click.option("--node", "nodes", multiple=True, metavar="NODE", help="Show only rows of this node (number or name).")
@click.option("--remote", "remotes", multiple=True, metavar="NODE",
              help="Show only rows in which this node is the other end.")  # fmt: skip
@click.option("--event", "events", multiple=True, metavar="NAME",
              help="Show only rows of this event, such as deliver or graft.")  # fmt: skip
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Show only rows of this topic.")
@click.option("--message", "messages", type=Whole(), multiple=True, metavar="N", help="Show only rows of message N.")
@click.option("--from", "since", type=Real(), metavar="SECONDS", help="Show only rows from this time on.")
@click.option("--to", "until", type=Real(), metavar="SECONDS", help="Show only rows before this time.")
@click.option("--limit", type=Whole(1), default=100, show_default=True, help="Maximum number of rows to show.")
@click.option("--derive", is_flag=True, help="Also show receives and duplicates, which are derived from sends.")
def show_command(run: Path, **options: Any) -> None:
    """Show the rows of RUN in order of time.

    A line shows one row. The exit code is 1 if there is no row.

    Repeat --node, --remote, --event, --topic or --message to accept several values. With --node, rows about
    connections and subscriptions are shown only if you also give --event, such as --event add_peer.
    """
    from hearsay.trace.language.schema import NONE, PartKind, TraceEvent
    from hearsay.trace.reader import RowFilter, iter_rows, load_names, show

    chosen_events, kinds, limit = _events(options["events"]), None, options["limit"]
    if options["nodes"] and chosen_events is None:
        chosen_events = set(TraceEvent) - {TraceEvent.ADD_PEER, TraceEvent.REMOVE_PEER}
        kinds = {NONE, *PartKind} - {PartKind.CONNECT, PartKind.SUBSCRIBE, PartKind.UNSUBSCRIBE}
    names = load_names(run)
    chosen = RowFilter(
        chosen_events,
        kinds,
        _known(run, "--node", "peer", options["nodes"], names.find_peer),
        _known(run, "--remote", "peer", options["remotes"], names.find_peer),
        _known(run, "--topic", "topic", options["topics"], names.find_topic),
        _known(run, "--message", "message", options["messages"], int),
        _micros(options["since"]),
        _micros(options["until"]),
    )
    shown = list(iter_rows(run, chosen, derive=options["derive"], first=limit + 1))
    for row in shown[:limit]:
        click.echo(show(row, names))
    if not shown:
        raise CommandFailed(f"{run}: no row meets these conditions")
    if len(shown) > limit:
        click.echo(f"… more rows; --limit shows more than {limit}", err=True)


@command.command("diff")
@click.argument("a", type=GivenPath(path_type=Path))
@click.argument("b", type=GivenPath(path_type=Path))
@click.option("--context", type=Whole(0), default=10, show_default=True, help="Number of rows before the difference.")
def diff_command(a: Path, b: Path, context: int) -> None:
    """Compare the traces of runs A and B. If they differ, show the first difference and exit 1."""
    from hearsay.trace.compare_runs import diff_runs, render
    from hearsay.trace.reader import load_names

    difference = diff_runs(a, b, context=context)
    names = load_names(a)
    if difference is None:
        click.echo("the traces are equal")
        return
    click.echo(render(difference, names))
    raise click.exceptions.Exit(1)


@command.command("import")
@click.argument("files", type=GivenPath(path_type=Path, exists=True, dir_okay=False), nargs=-1, required=True)
@click.option("--out", type=PathOrUri(path_type=Path), metavar="DIR", required=True, help="Folder of the new run.")
@click.option("--format", "wanted", type=click.Choice(FORMATS),
              help="Format of FILES: JSON or protobuf of go-libp2p-pubsub's tracer, files of its collector traced, "
              "or files of hermes [default: by their content].")  # fmt: skip
@spark_options
@click.option("--allow-bad", is_flag=True, help="Exit 0 even if some files could not be imported.")
def import_command(
    files: tuple[Path, ...], out: Path | str, wanted: str | None, where: Where, allow_bad: bool
) -> None:
    """Import FILES, traces of go-libp2p-pubsub or hermes, as one run.

    Larger inputs (above half a gigabyte or three million records) are imported on embedded Spark.
    """
    from hearsay.cli.analyze import store_session
    from hearsay.ingest.import_traces import import_traces
    from hearsay.pipeline.output.hadoop_folder import folder_at, send_run
    from hearsay.pipeline.spark.work_folder import work_folder
    from hearsay.trace.folder.manifest import MANIFEST

    require_distinct(files)
    if isinstance(out, str) and where.master is not None and not where.master.startswith("local"):
        raise WrongInput(f"{out}: with --master, give a folder that all machines share")
    size = sum(file.stat().st_size for file in files)
    on_spark = not where.is_embedded or size > IN_THIS_PROCESS_BYTES
    if on_spark:
        require_spark_at(where)
    with work_folder() as scratch, store_session(where, [out]) as opened:
        target = folder_at(out, opened and opened.session, scratch)
        if isinstance(out, str) and target.files(MANIFEST):
            raise CommandFailed(f"{out} already holds a run; choose another --out or remove it")
        with _new_run(target.path, "imported") as run:
            work = partial(import_traces, files, run, wanted=wanted)
            rows = size // LEAST_BYTES_PER_EVENT
            imported = _on_spark(work, where, rows, opened) if on_spark else _here_or_on_spark(work, opened)
        if isinstance(out, str):
            send_run(target)
    _print_quarantined(imported.record, "quarantined")
    _print_import(imported, out)
    if imported.record.quarantined and not allow_bad:
        raise click.exceptions.Exit(1)


@command.command("join")
@click.argument("runs", type=GivenPath(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR", required=True, help="Folder of the new run.")
def join_command(runs: tuple[Path, ...], out: Path) -> None:
    """Join traces of several real nodes into one run. RUNS are folders of `hearsay node --trace` and `hearsay trace
    import`.

    Peers, topics and messages get common numbers. Wrong clocks are corrected if messages went both ways between the
    nodes. skew.parquet has the corrections.
    """
    from hearsay.ingest.import_traces import join_runs
    from hearsay.ingest.live_runs import folders_to_join

    folders_to_join(runs)
    with _new_run(out, "joined", "cannot be joined") as run:
        joined = _here_or_on_spark(partial(join_runs, runs, run))
    counts = (
        f"{plural(len(runs), 'trace')} of {plural(len(joined.clocks), 'node')}, "
        f"{plural(joined.rows, 'row')}, {plural(joined.peers, 'peer')}, {plural(joined.messages, 'message')}"
    )
    click.echo(f"{out}: {plain(counts)}")
    _print_clock_errors(joined, out, "were off and are corrected", "corrected")


@contextmanager
def _new_run(out: Path, done: str, problem: str = "quarantined") -> Generator[RunFolder]:
    """Yield a new run folder for an import or join. Discard it after `RunFolderError` or `CommandFailed`.

    If nothing is imported, discard the folder, print a line with `problem` and the reason for each file, and raise
    `CommandFailed` with a message that ends in the participle `done`, such as "imported".
    """
    from hearsay.ingest.import_traces import NothingImported
    from hearsay.trace.folder.manifest import RunFolderError
    from hearsay.trace.folder.run_folder import RunFolder

    run = RunFolder.create(out)
    try:
        yield run
    except NothingImported as nothing:
        run.discard()
        _print_quarantined(nothing.record, problem)
        raise CommandFailed(f"nothing was {done}") from None
    except (RunFolderError, CommandFailed):
        run.discard()
        raise
    except OSError as error:
        raise CommandFailed(f"{out}: cannot write a run here ({error.strerror or error})") from None


def _here_or_on_spark(work: Callable[..., ImportResult], opened: SparkWork | None = None) -> ImportResult:
    """Do an import or join in this process or, if it has more than `MAX_RECORDS_HERE` records, on embedded Spark."""
    from hearsay.ingest.import_traces import MAX_RECORDS_HERE, TooManyRecords
    from hearsay.pipeline.spark.settings import Where

    try:
        return work()
    except TooManyRecords:
        require_spark_at(Where())
    return _on_spark(work, Where(), MAX_RECORDS_HERE, opened)


def _on_spark(work: Callable[..., ImportResult], where: Where, rows: int, opened: SparkWork | None) -> ImportResult:
    """Do an import or join in the session `opened`. If that is None, open a session whose settings suit `rows` trace
    rows.
    """
    from hearsay.ingest.import_traces import NothingImported
    from hearsay.pipeline.spark.failures import in_one_line
    from hearsay.trace.folder.manifest import RunFolderError

    try:
        with spark_steps(where, rows, 1) if opened is None else nullcontext(opened) as spark:
            from hearsay.ingest.spark_import import read_with_spark

            spark.step("importing")
            return work(read=read_with_spark(spark.session))
    except (NothingImported, OSError, CommandFailed, RunFolderError):
        raise
    except Exception as error:
        raise CommandFailed(f"the import failed: {in_one_line(error)}") from None


def _print_quarantined(record: SourceRecord, what: str) -> None:
    from hearsay.text import escape

    for file in record.quarantined:
        click.echo(f"hearsay: {escape(file.name)}: {what}: {escape(file.reason or '')}", err=True)


def _print_import(imported: ImportResult, out: Path | str) -> None:
    files = imported.record.files
    good = len(files) - len(imported.record.quarantined)
    events = sum(file.events for file in files)
    click.echo(
        f"{out}: {good} of {len(files)} files, {events:,} events, {imported.rows:,} rows, "
        f"{imported.peers:,} peers, {imported.messages:,} messages"
    )
    _print_clock_errors(imported, out, "are off, and latencies too", "off")


def _print_clock_errors(result: ImportResult, out: Path | str, are_off: str, mark: str) -> None:
    """Print the number of wrong clocks, the largest error, and the number of clocks whose error is unknown.

    If there are 2 to `MAX_CLOCKS_SHOWN` clocks, and the run is in a local folder, first print a table of the clocks.
    """
    clocks = result.clocks
    if isinstance(out, Path) and 1 < len(clocks) <= MAX_CLOCKS_SHOWN:
        _show_clocks(result, out, mark)
    off = [abs(clock.offset_us or 0) for clock in clocks if clock.flagged]
    if off:
        most = f"{max(off) / 1000:,.1f} ms"
        click.echo(f"the clocks of {len(off)} of {len(clocks)} nodes {are_off}, by up to {most}; see skew.parquet")
    unknown = sum(clock.offset_us is None for clock in clocks)
    if unknown and len(clocks) > 1:
        click.echo(f"clock offset unknown for {unknown} of {len(clocks)} nodes: no messages went both ways")


def _show_clocks(result: ImportResult, run: Path, mark: str) -> None:
    from hearsay.text import table_text
    from hearsay.trace.reader import load_names

    names = load_names(run)
    lines = [
        (names.short_peer(clock.peer), f"{offset / 1000:z,.1f} ms", f"{(clock.uncertainty_us or 0) / 1000:,.1f} ms",
         "reference" if clock.peer == clock.reference else mark if clock.flagged else "")
        for clock in result.clocks
        if (offset := clock.offset_us) is not None
    ]  # fmt: skip
    if lines:
        click.echo(table_text(("node", "clock ahead by", "±", ""), lines))


def _events(given: tuple[str, ...]) -> set[TraceEvent] | None:
    from hearsay.trace.language.schema import TraceEvent

    by_name = {event.name.lower(): event for event in TraceEvent}
    unknown = [name for name in given if name not in by_name]
    if unknown:
        raise WrongInput(*(f"--event {name}: there are {', '.join(by_name)}" for name in unknown))
    return {by_name[name] for name in given} or None


def _known(
    run: Path, option: str, what: str, given: Sequence[int | str], find: Callable[[int | str], int]
) -> set[int] | None:
    """Return the numbers for an option's values, which are names or numbers; None if the option was not given.

    Raise `WrongInput` for a name or number that is not in the run's dictionary.
    """
    from hearsay.trace.folder.manifest import RunFolderError
    from hearsay.trace.reader import known_numbers

    if not given:
        return None
    known = known_numbers(run, f"{what}s", what)
    thing = option.removeprefix("--")
    numbers: set[int] = set()
    problems: list[str] = []
    for one in given:
        try:
            number = find(one)
        except RunFolderError as error:
            problems.append(f"{option} {one}: {error}")
            continue
        numbers.add(number)
        if known is not None and number not in known:
            there = f"there are {min(known)}…{max(known)}" if known else "there are none"
            problems.append(f"{option} {one}: no such {thing} in {run}; {there}")
    if problems:
        raise WrongInput(*problems)
    return numbers


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
