"""`hearsay analyze --follow`: tables kept fresh while a run is written."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import click

from hearsay.cli.analyze import carry, failures_in_one_line, require_outputs, show_answers
from hearsay.cli.main import CommandFailed, WrongInput


def follow(options: dict[str, Any], window_us: int | None) -> None:
    """Follow one run until it is complete, or for ever."""
    from hearsay.pipeline.analyze import headlines
    from hearsay.pipeline.session import SparkUnavailable, Where, spark_session
    from hearsay.pipeline.stream.follow import Follower

    if len(options["runs"]) != 1:
        raise WrongInput("--follow takes one run folder")
    if options["remote"]:
        raise WrongInput(
            "--follow runs embedded or with --master: over --remote the files would be another machine's"
        )
    (path,) = options["runs"]
    if not path.resolve().parent.is_dir():
        raise WrongInput(f"{path}: there is no folder {path.resolve().parent}")
    output: Path = path if options["out"] is None else options["out"] / path.resolve().name
    if path.exists() or output != path:
        require_outputs([output])
    waiting = Event()
    try:
        with spark_session(Where(options["master"]), _rows_so_far(path), _say) as spark, failures_in_one_line():
            follower = Follower(spark, path, output, window_us, _say)
            _say(f"following {path}")
            while (run := follower.tick()) is None or not options["until_complete"]:
                waiting.wait(options["interval"])
            carry(run, output)
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    show_answers(headlines([run], {run.name: output}), [output], options["as_json"])
    if not run.manifest.complete:
        raise CommandFailed(f"{path}: the run was interrupted; the tables are of what it left")


def _rows_so_far(path: Path) -> int:
    """Guessed from the sizes of the files: a row takes about seven bytes."""
    return sum(file.stat().st_size for file in path.glob("trace/class=*/part-*.parquet")) // 7


def _say(text: str) -> None:
    click.echo(f"spark: {text}", err=True)
