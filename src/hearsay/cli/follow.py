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
    from pyspark.sql import SparkSession

    from hearsay.pipeline.spark.place import Where


def follow(options: dict[str, Any], window_us: int | None) -> None:
    """Follow one run until it is complete, or for ever."""
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
        raise WrongInput(f"{place}: there is no folder {place.resolve().parent}")
    waiting = Event()
    try:
        with work_folder() as scratch, ExitStack() as opened:
            is_claimed = False

            def own_output() -> None:
                """Before its trace is there, a run's folder is its writer's alone."""
                nonlocal is_claimed
                if not is_claimed and (has_begun(source.path) or not is_same(source.path, output.path)):
                    opened.enter_context(output.claim(source.path))
                    is_claimed = True

            def session(rows: int) -> SparkSession:
                started = opened.enter_context(spark_session(where, rows, _say))
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
                spark or session(_rows_so_far(source.path)), source, output, window_us, _say, dict(where.conf)
            )
            _say(f"following {source}")
            while (run := follower.tick()) is None or not options["until_complete"]:
                waiting.wait(options["interval"])
                own_output()
            carry(source.path, output)
            answers = headlines([run], {run.name: output})
            show_answers(answers, [output], options["as_json"])
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    if not run.manifest.complete:
        raise CommandFailed(f"{source}: the run was interrupted; the tables are of what it left")


def _rows_so_far(path: Path) -> int:
    """Guessed from the sizes of the files: a row takes about seven bytes."""
    return sum(file.stat().st_size for file in path.glob("trace/class=*/part-*.parquet")) // 7


def _say(text: str) -> None:
    click.echo(f"spark: {text}", err=True)
