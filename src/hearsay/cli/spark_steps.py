"""A Spark session for a command, with a word on what there is to wait for: a bar on a terminal, plain lines else."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from hearsay.cli.main import CommandFailed

if TYPE_CHECKING:
    from rich.progress import Progress

    from hearsay.pipeline.session import Where


@dataclass(slots=True)
class SparkWork:
    """An open session and its progress."""

    session: Any
    started: float
    progress: Progress | None
    task: Any
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def step(self, text: str) -> None:
        self.seconds[text] = monotonic() - self.started
        if self.progress is None:
            print(f"spark: {text} ({monotonic() - self.started:.0f} s)", file=sys.stderr)
        else:
            self.progress.update(self.task, advance=1, text=text)


@contextmanager
def spark_steps(where: Where, rows: int, steps: int | None = None) -> Generator[SparkWork]:
    """Open a session for `rows` trace rows; closes it in the end."""
    from hearsay.pipeline.analyze import STEPS
    from hearsay.pipeline.session import SparkUnavailable, spark_session

    started = monotonic()
    progress, task = _bar(steps or STEPS) if sys.stderr.isatty() else (None, None)
    work = SparkWork(None, started, progress, task)
    try:
        if progress is not None:
            progress.start()
        with spark_session(where, rows, work.step) as session:
            work.session = session
            yield work
    except SparkUnavailable as error:
        raise CommandFailed(str(error)) from None
    finally:
        if progress is not None:
            progress.stop()


def _bar(steps: int) -> tuple[Progress, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("spark"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    return progress, progress.add_task("", total=steps + 1, text="")
