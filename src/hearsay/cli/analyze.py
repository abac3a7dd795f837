"""`hearsay analyze`: compute the result tables of runs on Spark, and print the main metrics.

The answers of an analysis are its main metrics: a JSON object for each topic of each run. The commands `demo`,
`report` and `trace` share functions of this module, which load runs, write result tables, and open stores.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import PathOrUri, Real, require_distinct
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.cli.spark import SparkWork, counted, say, spark_options, spark_steps, start_spark_ahead
from hearsay.metrics import Metric, shown_in, value_at, without_unknown
from hearsay.number_text import text_of
from hearsay.text import prose, table_text
from hearsay.user_errors import Failure, InvalidInput, require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hearsay.pipeline.output.folders import Folder
    from hearsay.pipeline.run_facts import RunFacts
    from hearsay.pipeline.spark.settings import Where

_NAMES = ("run", "topic", "router")
_NOT_MEASURED = "n/m"
_TOPIC_BYTES = "sent per node: the parts of each topic, without IWANT, which names no topic"
_MAX_NAME_LENGTH = 40
BYTES_PER_ROW = 7
"""Approximate size of a trace row in a file."""


@click.command("analyze")
@click.argument("runs", nargs=-1, required=True, type=PathOrUri(path_type=Path))
@spark_options
@click.option("--out", type=PathOrUri(path_type=Path), metavar="DIR",
              help="Write the tables to DIR/RUN/metrics instead of RUN/metrics.")  # fmt: skip
@click.option("--window", type=Real(min=0.001), metavar="SECONDS",
              help="A node counts for a message only if it stays in the topic this long after the publication; "
              "default: linger_s of the scenario, or 30.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Update the tables of one run while it is written.")
@click.option("--interval", type=Real(min=0.05), default=2.0, show_default=True, metavar="SECONDS",
              help="With --follow: time between two searches for new files.")  # fmt: skip
@click.option("--until-complete", is_flag=True, help="With --follow: end when the run is complete.")
@click.option("--allow-bad", is_flag=True, help="Skip unreadable runs, and exit 0 in spite of them.")
@click.option("--format", "shape", type=click.Choice(["answers", "tracestat"]), default="answers", show_default=True,
              help="answers: a table of main metrics; tracestat: the output of Go's tool tracestat.")  # fmt: skip
@click.option("--stats", is_flag=True, help="Print the counters of Spark for each step on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Analyse run folders. Write metric tables to RUN/metrics, and print the main metrics."""
    if options["shape"] == "tracestat":
        if options["follow"]:
            raise WrongInput("--follow and --format tracestat: give one; tracestat writes no tables")
        if options["as_json"]:
            raise WrongInput("--json and --format tracestat: give one; tracestat prints text")
        _tracestat(options["runs"], options["allow_bad"])
        return
    from hearsay.pipeline.spark.settings import heap

    where = options["where"]
    require_extra("spark")
    if where.remote is None:
        heap()
    window = options["window"]
    window_us = None if window is None else round(window * 1_000_000)
    if options["follow"]:
        if options["stats"]:
            raise WrongInput("--stats cannot be used with --follow")
        _follow(options, window_us)
        return
    if options["until_complete"]:
        raise WrongInput("--until-complete needs --follow")
    with counted(where) if options["stats"] else nullcontext(where) as counting:
        _analyze(counting, window_us, options)


def _analyze(where: Where, window_us: int | None, options: dict[str, Any]) -> None:
    places, out = options["runs"], options["out"]
    require_distinct(places)
    if not any(isinstance(place, str) for place in (*places, out)):
        start_spark_ahead(where, places)
    from hearsay.pipeline.output.folders import claimed_outputs
    from hearsay.pipeline.output.hadoop_folder import folder_at, within
    from hearsay.pipeline.spark.work_folder import work_folder

    with work_folder() as scratch, store_session(where, [*places, out]) as opened:
        spark = opened and opened.session
        runs, bad = load_readable([folder_at(place, spark, scratch) for place in places], window_us)
        _print_bad(bad)
        outputs = {
            run.name: folder if out is None else folder_at(within(out, run.name), spark, scratch)
            for folder, run in runs.items()
        }
        lines: list[dict[str, Any]] = []
        if runs:
            with claimed_outputs({run.name: run.path for run in runs.values()}, outputs):
                lines = analyzed_on_spark(where, [*runs.values()], outputs, opened)
        show_answers(lines, [*outputs.values()], options["as_json"])
    _fail_if_bad(bad, len(runs), options["allow_bad"])


def _tracestat(paths: tuple[Path | str, ...], allow_bad: bool) -> None:
    from hearsay.ingest.source_record import tracestat
    from hearsay.pipeline.output.folders import Folder

    require_distinct(paths)
    uri = next((path for path in paths if isinstance(path, str)), None)
    if uri is not None:
        raise WrongInput(f"{uri}: --format tracestat reads folders of this machine; copy the run")
    runs, bad = load_readable([Folder(Path(path)) for path in paths], None)
    _print_bad(bad)
    for run in runs.values():
        if len(paths) > 1:
            click.echo(f"== {run.name}")
        click.echo(tracestat(run.path), nl=False)
    _fail_if_bad(bad, len(runs), allow_bad)


def _print_bad(bad: list[str]) -> None:
    """Print the problems of the runs that cannot be read. This precedes the start of Spark, which takes seconds."""
    for problem in bad:
        click.echo(f"hearsay: left out: {problem}", err=True)


def _fail_if_bad(bad: list[str], good: int, allow_bad: bool) -> None:
    if bad and not allow_bad:
        raise CommandFailed(f"{len(bad)} of {len(bad) + good} runs could not be read; --allow-bad accepts that")


def _follow(options: dict[str, Any], window_us: int | None) -> None:
    """Update the tables of one run until a signal or, with --until-complete, until the run is complete."""
    from hearsay.pipeline.analyze import Follower, has_begun, headlines, of_a_run
    from hearsay.pipeline.output.folders import carry, is_same
    from hearsay.pipeline.output.hadoop_folder import folder_at, within
    from hearsay.pipeline.spark.session import spark_session
    from hearsay.pipeline.spark.settings import SMALL_ROWS, SparkUnavailable
    from hearsay.pipeline.spark.work_folder import work_folder
    from hearsay.trace.folder.manifest import MANIFEST, load_manifest

    if len(options["runs"]) != 1:
        raise WrongInput("--follow takes one run folder")
    where: Where = options["where"]
    if where.remote:
        raise WrongInput("--follow cannot be used with --remote: the server cannot read new files of this machine")
    (place,) = options["runs"]
    out = options["out"]
    in_a_store = isinstance(place, str) or isinstance(out, str)
    if isinstance(place, Path) and not place.resolve().parent.is_dir():
        raise WrongInput(f"{place}: the folder {place.resolve().parent} does not exist")
    waiting = Event()
    try:
        with work_folder() as scratch, ExitStack() as opened:
            is_claimed = False

            def claim_output() -> None:
                """Claim the output unless it is claimed. If the output is the run folder, do nothing until the folder
                has a trace, because the writer of the run claims the folder first.
                """
                nonlocal is_claimed
                if not is_claimed and (has_begun(source.path) or not is_same(source.path, output.path)):
                    opened.enter_context(output.claim(source.path))
                    is_claimed = True

            def session(rows: int) -> SparkSession:
                started = opened.enter_context(spark_session(where, rows, say))
                opened.enter_context(failures_in_one_line())
                return started

            spark = session(SMALL_ROWS) if in_a_store else None
            source = folder_at(place, spark, scratch)
            name = source.path.resolve().name
            output = source if out is None else folder_at(within(out, name), spark, scratch)
            source.refresh(of_a_run)
            if (source.path / MANIFEST).exists():
                load_manifest(source.path)
            claim_output()
            follower = Follower(
                spark or session(_rows_so_far(source.path)), source, output, window_us, say, dict(where.conf)
            )
            say(f"following {source}")
            while (run := follower.update()) is None or not options["until_complete"]:
                waiting.wait(options["interval"])
                claim_output()
            carry(source.path, output)
            answers = headlines([run], {run.name: output})
            show_answers(answers, [output], options["as_json"])
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    if not run.manifest.complete:
        raise CommandFailed(f"{source}: the run was interrupted; the tables cover the rows that it wrote")


def _rows_so_far(path: Path) -> int:
    """Return an estimate of the number of trace rows in a run folder, from the size of its files."""
    return sum(file.stat().st_size for file in path.glob("trace/class=*/part-*.parquet")) // BYTES_PER_ROW


def load_readable(folders: Sequence[Folder], window_us: int | None) -> tuple[dict[Folder, RunFacts], list[str]]:
    """Return the facts of the runs that can be read, by folder, and a line for each problem of the other runs.

    `window_us` is the time that a node must stay in the topic after a publication to be eligible for the message;
    None is the default.
    """
    from hearsay.pipeline.output.folders import load_folders
    from hearsay.trace.folder.manifest import RunFolderError

    good: list[Folder] = []
    bad: list[str] = []
    for folder in folders:
        try:
            problems = folder.problems()
            if not problems:
                load_folders([folder])
        except RunFolderError as error:
            problems = [str(error).replace(str(folder.path), str(folder))]
        if problems:
            bad.extend(problem if str(folder) in problem else f"{folder}: {problem}" for problem in problems)
        else:
            good.append(folder)
    return dict(zip(good, load_folders(good, window_us), strict=True)), bad


@contextmanager
def store_session(where: Where, places: Sequence[Path | str | None]) -> Generator[SparkWork | None]:
    """Yield an open Spark session if one of these places is the URI of a store, because only Spark reads stores;
    otherwise yield None. Raise `WrongInput` for a store with --remote.
    """
    from hearsay.pipeline.spark.settings import SMALL_ROWS

    uri = next((place for place in places if isinstance(place, str)), None)
    if uri is None:
        yield None
    elif where.remote is not None:
        raise WrongInput(f"{uri}: --remote does not reach stores; use --master or embedded Spark")
    else:
        with spark_steps(where, SMALL_ROWS) as work, failures_in_one_line():
            yield work


@contextmanager
def failures_in_one_line() -> Generator[None]:
    """Raise `CommandFailed` with one line in place of an exception of the analysis in the block. `RunFolderError` and
    `OSError` keep their messages. Other exceptions of `Failure`, and `InvalidInput`, are not replaced.
    """
    from hearsay.pipeline.spark.failures import in_one_line
    from hearsay.trace.folder.manifest import RunFolderError

    try:
        yield
    except (RunFolderError, OSError) as error:
        raise CommandFailed(str(error)) from None
    except (Failure, InvalidInput):
        raise
    except Exception as error:
        raise CommandFailed(
            f"the analysis failed: {in_one_line(error)}; tables of earlier analyses are complete"
        ) from None


@contextmanager
def copied_runs(where: Where, places: Sequence[Path | str]) -> Generator[Sequence[Path]]:
    """Yield a local folder for each of these runs. For a run in a store, it has copies of the files that a report
    needs.
    """
    from hearsay.pipeline.output.folders import is_for_a_report
    from hearsay.pipeline.output.hadoop_folder import folder_at
    from hearsay.pipeline.spark.work_folder import work_folder

    require_extra("spark")
    with work_folder() as scratch:
        with store_session(where, places) as opened:
            folders = [folder_at(place, opened and opened.session, scratch) for place in places]
            for folder in folders:
                folder.refresh(is_for_a_report)
        yield [folder.path for folder in folders]


def analyzed_on_spark(
    where: Where, runs: Sequence[RunFacts], outputs: Mapping[str, Folder], opened: SparkWork | None = None
) -> list[dict[str, Any]]:
    """Analyse runs on Spark, write the result tables into the outputs, and return the answers.

    `outputs` has a folder for each run, by the name of the run; the caller has claimed these folders. `opened` is the
    session to use; if it is None, open a new session. Raise `CommandFailed` with one line for a failure.
    """
    from hearsay.pipeline.analyze import analyze, headlines
    from hearsay.pipeline.output.folders import carry
    from hearsay.pipeline.spark.session import adapt

    rows = sum(run.rows for run in runs)
    with spark_steps(where, rows) if opened is None else nullcontext(opened) as work, failures_in_one_line():
        if opened is not None:
            adapt(work.session, rows, dict(where.conf))
        for run in runs:
            carry(run.path, outputs[run.name])
        analyze(work.session, runs, outputs, work.step)
        return headlines(runs, outputs)


def show_answers(lines: list[dict[str, Any]], outputs: Sequence[Folder], as_json: bool) -> None:
    """Print the answers as JSON, or as a table.

    Below the table, print the warnings about each run, and the folders of the result tables.
    """
    if as_json:
        print_json(lines)
        return
    from hearsay.pipeline.output.tables import read_table

    if lines:
        click.echo(answers_text(lines))
    for output in outputs:
        for check in read_table(output.path, "quality").to_pylist():
            name = output.path.resolve().name
            if check["check"] == "not_due":
                click.echo(f"{name}: {check['detail']}")
            elif check["check"] == "incomplete" and check["rows"]:
                ended = f"is {check['detail']}" if check["detail"] else "was interrupted"
                click.echo(f"{name}: INCOMPLETE: the run {ended}, its figures end there")
    for output in outputs:
        click.echo(f"tables: {output}/metrics")


def answers_text(lines: list[dict[str, Any]]) -> str:
    """Return the answers as a table. Leave out the column of topics if all answers are about the same topic, and the
    column of routers if each run has the name of its router.
    """
    known = (metric.name for metric in shown_in("terminal") for line in lines if value_at(line, metric) is not None)
    metrics = without_unknown(shown_in("terminal"), known)
    names = [name for name in _NAMES if name == "run" or not _is_redundant(name, lines)]
    head = [*names, *(metric.heading for metric in metrics)]
    rows = [
        [*(_printable(str(line[name])) for name in names), *(_cell(line, metric) for metric in metrics)]
        for line in lines
    ]
    text = table_text(head, rows, left=len(names))
    notes: list[str] = []
    if len({line["run"] for line in lines}) < len(lines):
        notes.append(prose(_TOPIC_BYTES))
    if any(_NOT_MEASURED in row for row in rows):
        notes.append("n/m: not measured")
    return "\n".join([text, *notes])


def _is_redundant(name: str, lines: list[dict[str, Any]]) -> bool:
    if name == "router":
        return all(line["router"] == line["run"] for line in lines)
    return len({line[name] for line in lines}) == 1


def _cell(line: dict[str, Any], metric: Metric) -> str:
    value = value_at(line, metric)
    return _NOT_MEASURED if value is None else text_of(value, metric.form)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:_MAX_NAME_LENGTH]
