"""`hearsay analyze`: traces to tables on Spark, and the answers."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.analysis import analyzed_on_spark, load_readable, show_answers
from hearsay.cli.arguments import GivenPath, Real
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.spark_counters import counted
from hearsay.cli.spark_steps import require_settings, spark_options, start_spark_ahead
from hearsay.extras import require_extra

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where


@click.command("analyze")
@click.argument("runs", nargs=-1, required=True, type=GivenPath(path_type=Path))
@spark_options
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
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
            raise WrongInput("--follow keeps tables fresh; --format tracestat makes none")
        if options["as_json"]:
            raise WrongInput("--json gives the answers; --format tracestat is text alone")
        _tracestat(options["runs"], options["allow_bad"])
        return
    where = options["where"]
    require_extra("spark")
    require_settings(where)
    window = options["window"]
    window_us = None if window is None else round(window * 1_000_000)
    if options["follow"]:
        if options["stats"]:
            raise WrongInput("--stats: must go without --follow")
        from hearsay.cli.follow import follow

        follow(options, window_us)
        return
    if options["until_complete"]:
        raise WrongInput("--until-complete goes with --follow")
    with counted(where) if options["stats"] else nullcontext(where) as counting:
        _analyze(counting, window_us, options)


def _analyze(where: Where, window_us: int | None, options: dict[str, Any]) -> None:
    start_spark_ahead(where, options["runs"])
    runs, bad = load_readable(options["runs"], window_us)
    out = options["out"]
    outputs = {run.name: run.path if out is None else out / run.name for run in runs}
    lines: list[dict[str, Any]] = []
    _name_bad(bad)
    if runs:
        from hearsay.pipeline.output.outputs import claimed_outputs

        with claimed_outputs({run.name: run.path for run in runs}, outputs):
            lines = analyzed_on_spark(where, runs, outputs)
    show_answers(lines, [outputs[run.name] for run in runs], options["as_json"])
    _answer_for(bad, len(runs), options["allow_bad"])


def _tracestat(paths: tuple[Path, ...], allow_bad: bool) -> None:
    from hearsay.ingest.tracestat import tracestat

    runs, bad = load_readable(paths, None)
    _name_bad(bad)
    for run in runs:
        if len(paths) > 1:
            click.echo(f"== {run.name}")
        click.echo(tracestat(run.path), nl=False)
    _answer_for(bad, len(runs), allow_bad)


def _name_bad(bad: list[str]) -> None:
    """At once: who waits for Spark shall know what for."""
    for problem in bad:
        click.echo(f"hearsay: left out: {problem}", err=True)


def _answer_for(bad: list[str], good: int, allow_bad: bool) -> None:
    if bad and not allow_bad:
        raise CommandFailed(f"{len(bad)} of {len(bad) + good} runs could not be read; --allow-bad accepts that")
