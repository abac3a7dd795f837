"""`hearsay analyze --stats`: Spark's own counters, step by step."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from hearsay.cli.ending import WrongInput
from hearsay.text.numbers import count, seconds, size
from hearsay.text.tables import table_text

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where

# Memory is that of one task, time that of all. Skew is the longest task of the longest stage over the mean.
_HEAD = ("step", "tasks", "rows read", "shuffled", "spilled", "memory", "time", "skew")


@contextmanager
def counted(where: Where) -> Generator[Where]:
    """Have Spark log what it does, and print its counters when the session has ended."""
    if where.remote:
        raise WrongInput("--stats: must go without --remote; the web page of the server has its counters")
    with TemporaryDirectory(prefix="hearsay-events-") as folder:
        log = {"enabled": "true", "compress": "false", "dir": Path(folder).as_uri()}
        yield replace(where, conf=(*where.conf, *((f"spark.eventLog.{name}", value) for name, value in log.items())))
        click.echo(_text(Path(folder)), err=True)


def _text(folder: Path) -> str:
    from hearsay.pipeline.spark.event_log import counters_of

    rows = [
        (
            step or "(writing)", str(each.tasks), count(each.rows_read), size(each.shuffled_bytes),
            size(each.spilled_bytes), size(each.peak_bytes), seconds(sum(map(sum, each.seconds.values()))),
            f"{each.longest_over_mean:.1f}",
        )
        for step, each in counters_of(folder).items()
        if each.tasks
    ]  # fmt: skip
    return table_text(_HEAD, rows)
