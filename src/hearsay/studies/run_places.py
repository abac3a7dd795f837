"""Where the runs of a study are made: on Spark, or without it in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from hearsay.pipeline.spark.place import Where, cores
from hearsay.pipeline.spark.session import spark_session
from hearsay.studies.packs import PackMaker
from hearsay.studies.processes import processes
from hearsay.studies.spark_tasks import SparkTasks

OpenPlace: TypeAlias = Callable[[Sequence[Path]], AbstractContextManager[PackMaker]]
"""Opens a place whose tasks can import these Python files and zips of packages."""


def is_on_spark(where: Where) -> bool:
    """Spark makes the runs where it is installed, and where one is named."""
    return where != Where() or find_spec("pyspark") is not None


def place_of_runs(where: Where, cores_per_task: int, say: Callable[[str], None]) -> OpenPlace:
    """`say` gets what there is to wait for."""

    @contextmanager
    def on_spark(modules: Sequence[Path]) -> Generator[PackMaker]:
        with spark_session(where, 0, say, cores_per_task=cores_per_task, modules=modules) as session:
            yield SparkTasks(session, where, cores_per_task)

    @contextmanager
    def in_processes(_modules: Sequence[Path]) -> Generator[PackMaker]:
        slots = max(1, cores() // cores_per_task)
        say(f"Spark is not installed, so runs are made in {slots} processes of this machine")
        with processes(slots) as made:
            yield made

    return on_spark if is_on_spark(where) else in_processes
