"""Where the runs of a study are made: on Spark, or without it in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TypeAlias

from hearsay.pipeline.spark.place import Where, cores
from hearsay.pipeline.spark.session import spark_session
from hearsay.studies.needs import Needs
from hearsay.studies.packs import PackMaker
from hearsay.studies.processes import processes
from hearsay.studies.spark_tasks import SparkTasks

OpenPlace: TypeAlias = Callable[[Needs], AbstractContextManager[PackMaker]]
"""Opens a place that has what is needed. If it raises `KeptSessionGone`, the next one is not shared with anybody."""


def is_on_spark(where: Where) -> bool:
    """Spark makes the runs where it is installed, and where one is named."""
    return where != Where() or find_spec("pyspark") is not None


def place_of_runs(where: Where, cores_per_task: int, say: Callable[[str], None]) -> OpenPlace:
    """`say` gets what there is to wait for."""
    is_first = True

    @contextmanager
    def on_spark(needs: Needs) -> Generator[PackMaker]:
        nonlocal is_first
        if not is_first:
            say("the kept Spark session has vanished; what is left is made in one of this command's own")
        may_be_kept, is_first = is_first and needs.may_share, False
        with spark_session(
            where, 0, say, cores_per_task=cores_per_task, modules=needs.modules, may_be_kept=may_be_kept
        ) as session:
            yield SparkTasks(session, where, cores_per_task)

    @contextmanager
    def in_processes(_needs: Needs) -> Generator[PackMaker]:
        slots = max(1, cores() // cores_per_task)
        say(f"Spark is not installed, so runs are made in {slots} processes of this machine")
        with processes(slots) as made:
            yield made

    return on_spark if is_on_spark(where) else in_processes
