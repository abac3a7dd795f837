"""`hearsay analyze`: traces to tables on Spark, and the answers."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.analysis import analyzed_on_spark, failures_in_one_line, load_readable, show_answers, store_session
from hearsay.cli.arguments import PathOrUri, Real, require_distinct
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.spark_steps import counted, say, spark_options, start_spark_ahead
from hearsay.extras import require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hearsay.pipeline.spark.place import Where


@click.command("analyze")
@click.argument("runs", nargs=-1, required=True, type=PathOrUri(path_type=Path))
@spark_options
@click.option("--out", type=PathOrUri(path_type=Path), metavar="DIR",
              help="Write to DIR/RUN instead of the run folders.")  # fmt: skip
@click.option("--window", type=Real(min=0.001), metavar="SECONDS",
              help="A node counts only if it stays this long after a message; "
              "default: linger_s of the scenario, or 30.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Update the tables of one run while it is written.")
@click.option("--interval", type=Real(min=0.05), default=2.0, show_default=True, metavar="SECONDS",
              help="With --follow: time between two searches for new files.")  # fmt: skip
@click.option("--until-complete", is_flag=True, help="With --follow: end when the run is complete.")
@click.option("--allow-bad", is_flag=True, help="Skip unreadable runs and exit 0.")
@click.option("--format", "shape", type=click.Choice(["answers", "tracestat"]), default="answers",
              help="tracestat: the output format of go-libp2p's tracestat.")  # fmt: skip
@click.option("--stats", is_flag=True, help="Print Spark's counters of each step on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Analyse run folders: metric tables in RUN/metrics, the answers on the terminal."""
    if options["shape"] == "tracestat":
        if options["follow"]:
            raise WrongInput("--follow and --format tracestat: give one; tracestat writes no tables")
        if options["as_json"]:
            raise WrongInput("--json and --format tracestat: give one; tracestat prints text")
        _tracestat(options["runs"], options["allow_bad"])
        return
    from hearsay.pipeline.spark.place import heap

    where = options["where"]
    require_extra("spark")
    if where.remote is None:
        heap()
    window = options["window"]
    window_us = None if window is None else round(window * 1_000_000)
    if options["follow"]:
        if options["stats"]:
            raise WrongInput("--stats: must go without --follow")
        follow(options, window_us)
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
    from hearsay.pipeline.output.hadoop_folder import folder_at, within
    from hearsay.pipeline.output.outputs import claimed_outputs
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
    from hearsay.ingest.tracestat import tracestat
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
    """Print the problems of unreadable runs now, because the start of Spark takes a while."""
    for problem in bad:
        click.echo(f"hearsay: left out: {problem}", err=True)


def _fail_if_bad(bad: list[str], good: int, allow_bad: bool) -> None:
    if bad and not allow_bad:
        raise CommandFailed(f"{len(bad)} of {len(bad) + good} runs could not be read; --allow-bad accepts that")


def follow(options: dict[str, Any], window_us: int | None) -> None:
    """Follow one run until a signal; with --until-complete, until the run is complete."""
    from hearsay.pipeline.analyze import headlines
    from hearsay.pipeline.follow import Follower, has_begun, of_a_run
    from hearsay.pipeline.output.folders import is_same
    from hearsay.pipeline.output.hadoop_folder import folder_at, within
    from hearsay.pipeline.output.outputs import carry
    from hearsay.pipeline.spark.place import SparkUnavailable
    from hearsay.pipeline.spark.session import spark_session
    from hearsay.pipeline.spark.settings import SMALL_ROWS
    from hearsay.pipeline.spark.work_folder import work_folder
    from hearsay.trace.folder.manifest import MANIFEST, load_manifest

    if len(options["runs"]) != 1:
        raise WrongInput("--follow takes one run folder")
    where: Where = options["where"]
    if where.remote:
        raise WrongInput(
            "--follow runs embedded or with --master: over --remote the files would be another machine's"
        )
    (place,) = options["runs"]
    out = options["out"]
    in_a_store = isinstance(place, str) or isinstance(out, str)
    if isinstance(place, Path) and not place.resolve().parent.is_dir():
        raise WrongInput(f"{place}: the folder {place.resolve().parent} does not exist")
    waiting = Event()
    try:
        with work_folder() as scratch, ExitStack() as opened:
            is_claimed = False

            def own_output() -> None:
                """Claim the output, a run folder only when it has a trace: before that, it belongs to its writer."""
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
            own_output()
            follower = Follower(
                spark or session(_rows_so_far(source.path)), source, output, window_us, say, dict(where.conf)
            )
            say(f"following {source}")
            while (run := follower.update()) is None or not options["until_complete"]:
                waiting.wait(options["interval"])
                own_output()
            carry(source.path, output)
            answers = headlines([run], {run.name: output})
            show_answers(answers, [output], options["as_json"])
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    if not run.manifest.complete:
        raise CommandFailed(f"{source}: the run was interrupted; the tables cover the rows that it wrote")


def _rows_so_far(path: Path) -> int:
    """Return an estimate of the number of trace rows in a run folder. A row takes about seven bytes."""
    return sum(file.stat().st_size for file in path.glob("trace/class=*/part-*.parquet")) // 7
