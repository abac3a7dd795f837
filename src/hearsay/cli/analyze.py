"""`hearsay analyze`: traces to tables on Spark, and the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.extras import require_extra
from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.given_paths import GivenPath, require_distinct
from hearsay.cli.numbers import Real

if TYPE_CHECKING:
    from hearsay.pipeline.input.run_facts import RunFacts


@click.command("analyze")
@click.argument("runs", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option("--master", metavar="URL", help="A Spark cluster: spark://…, yarn, k8s://…; embedded without.")
@click.option("--remote", metavar="URL", help="A Spark Connect server: sc://…")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help="Write to DIR/RUN instead of the run folders.")  # fmt: skip
@click.option("--window", type=Real(min=0.001), metavar="SECONDS",
              help="How long a node must stay to be eligible; else the scenario's linger_s, or 30.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Keep the tables of one run fresh while it is written.")
@click.option("--interval", type=Real(min=0.05), default=2.0, show_default=True, metavar="SECONDS",
              help="With --follow: how often to look for new files.")  # fmt: skip
@click.option("--until-complete", is_flag=True, help="With --follow: end when the run is complete.")
@click.option("--allow-bad", is_flag=True, help="Leave out runs that cannot be read, and still exit 0.")
@click.option("--format", "shape", type=click.Choice(["answers", "tracestat"]), default="answers",
              help="tracestat: the figures of go-libp2p's tracestat as it prints them.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The answers as JSON on stdout, and nothing else there.")
def command(**options: Any) -> None:
    """Analyse run folders: metric tables in RUN/metrics, the answers on the terminal."""
    from hearsay.cli.spark_steps import chosen_place, require_heap, spark_steps

    if options["shape"] == "tracestat" and options["follow"]:
        raise WrongInput("--follow keeps tables fresh; --format tracestat makes none")
    if options["shape"] == "tracestat" and options["as_json"]:
        raise WrongInput("--json gives the answers; --format tracestat is text alone")
    if options["shape"] == "tracestat":
        _tracestat(options["runs"], options["allow_bad"])
        return
    where = chosen_place(options["master"], options["remote"])
    require_extra("spark")
    require_heap(where)
    window = options["window"]
    window_us = None if window is None else round(window * 1_000_000)
    if options["follow"]:
        from hearsay.cli.follow import follow

        follow(options, window_us)
        return
    if options["until_complete"]:
        raise WrongInput("--until-complete goes with --follow")
    runs, bad = load_readable(options["runs"], window_us)
    outputs = _outputs(runs, options["out"])
    lines: list[dict[str, Any]] = []
    _name_bad(bad)
    if runs:
        with own_outputs(runs, outputs), spark_steps(where, sum(run.rows for run in runs)) as work:
            lines = analyzed(work, runs, outputs)
    show_answers(lines, [outputs[run.name] for run in runs], options["as_json"])
    _answer_for(bad, len(runs), options["allow_bad"])


def _tracestat(paths: tuple[Path, ...], allow_bad: bool) -> None:
    from hearsay.ingest.run.tracestat import tracestat

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


def show_answers(lines: list[dict[str, Any]], outputs: Sequence[Path], as_json: bool) -> None:
    """The answers on stdout, for a program or for people."""
    if as_json:
        json.dump(lines, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from hearsay.cli.answers_text import answers_text
    from hearsay.pipeline.output.table_store import read_table
    from hearsay.pipeline.output.tables import QUALITY

    if lines:
        click.echo(answers_text(lines))
    for output in outputs:
        for check in read_table(output, QUALITY).to_pylist():
            if check["check"] == "not_due":
                click.echo(f"{output.resolve().name}: {check['detail']}")
    for output in outputs:
        click.echo(f"tables: {output / 'metrics'}")


def load_readable(paths: tuple[Path, ...], window_us: int | None) -> tuple[list[RunFacts], list[str]]:
    """The facts of the runs that are what their manifests say, and what is wrong with the others."""
    from hearsay.pipeline.input.run_facts import load_runs
    from hearsay.trace.language.errors import RunFolderError
    from hearsay.trace.read.verify import verify

    require_distinct(paths)
    good: list[Path] = []
    bad: list[str] = []
    for path in paths:
        try:
            problems = verify(path)
            if not problems:
                load_runs([path])
        except RunFolderError as error:
            problems = [str(error)]
        if problems:
            bad.extend(problem if str(path) in problem else f"{path}: {problem}" for problem in problems)
        else:
            good.append(path)
    return load_runs(good, window_us), bad


@contextmanager
def own_outputs(runs: Sequence[RunFacts], outputs: dict[str, Path]) -> Generator[None]:
    """The folders for the tables are ours, and nobody else writes there: said before Spark starts."""
    from hearsay.pipeline.output.outputs import claimed_outputs
    from hearsay.trace.language.errors import RunFolderError

    with ExitStack() as claimed:
        try:
            claimed.enter_context(claimed_outputs({run.name: run.path for run in runs}, outputs))
        except RunFolderError as error:
            raise CommandFailed(str(error)) from None
        yield


@contextmanager
def failures_in_one_line() -> Generator[None]:
    """What goes wrong in an analysis as one line for a person."""
    from hearsay.pipeline.spark.failures import in_one_line
    from hearsay.trace.language.errors import RunFolderError

    try:
        yield
    except (RunFolderError, OSError) as error:
        raise CommandFailed(str(error)) from None
    except Exception as error:
        raise CommandFailed(
            f"the analysis failed: {in_one_line(error)}; tables of earlier analyses are whole"
        ) from None


def analyzed(work: Any, runs: list[RunFacts], outputs: dict[str, Path]) -> list[dict[str, Any]]:
    """Run the analysis in an open Spark session, into outputs that are held; failures as one line."""
    from hearsay.pipeline.analyze import analyze, headlines
    from hearsay.pipeline.output.outputs import carry

    with failures_in_one_line():
        for run in runs:
            carry(run.path, outputs[run.name])
        analyze(work.session, runs, outputs, work.step)
        return headlines(runs, outputs)


def _outputs(runs: list[RunFacts], out: Path | None) -> dict[str, Path]:
    return {run.name: run.path if out is None else out / run.name for run in runs}
