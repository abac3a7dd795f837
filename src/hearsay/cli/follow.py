"""`hearsay analyze --follow`: tables kept fresh while a run is written."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.analysis import failures_in_one_line, show_answers
from hearsay.cli.ending import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where


def follow(options: dict[str, Any], window_us: int | None) -> None:
    """Follow one run until it is complete, or for ever."""
    from hearsay.pipeline.analyze import headlines
    from hearsay.pipeline.follow import Follower, has_begun
    from hearsay.pipeline.output.outputs import carry, claim_output, is_same
    from hearsay.pipeline.spark.place import SparkUnavailable
    from hearsay.pipeline.spark.session import spark_session
    from hearsay.trace.folder.manifest import MANIFEST, load_manifest

    if len(options["runs"]) != 1:
        raise WrongInput("--follow takes one run folder")
    where: Where = options["where"]
    if where.remote:
        raise WrongInput(
            "--follow runs embedded or with --master: over --remote the files would be another machine's"
        )
    (path,) = options["runs"]
    if not path.resolve().parent.is_dir():
        raise WrongInput(f"{path}: there is no folder {path.resolve().parent}")
    output: Path = path if options["out"] is None else options["out"] / path.resolve().name
    waiting = Event()
    with ExitStack() as claimed:
        is_claimed = False

        def own_output() -> None:
            """Before its trace is there, a run's folder is its writer's alone."""
            nonlocal is_claimed
            if not is_claimed and (has_begun(path) or not is_same(path, output)):
                claimed.enter_context(claim_output(path, output))
                is_claimed = True

        try:
            if (path / MANIFEST).exists():
                load_manifest(path)
            own_output()
            with spark_session(where, _rows_so_far(path), _say) as spark, failures_in_one_line():
                follower = Follower(spark, path, output, window_us, _say, dict(where.conf))
                _say(f"following {path}")
                while (run := follower.tick()) is None or not options["until_complete"]:
                    waiting.wait(options["interval"])
                    own_output()
                carry(path, output)
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
