"""Runs of many rows: one pass over the large classes of the trace, and all tables of what it says.

The partial sums of the pass (`scan`) are added up by Spark; tables are made of these and of the small classes, by
tasks that are one job together (`run_tasks`). All such runs go through the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.spark_sums import add_up
from hearsay.pipeline.metrics.summed_parts import SummedParts
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.run_tasks import MembershipsOf, Scanned, Task, tasks_of_run
from hearsay.pipeline.scan import Scan, scan_files
from hearsay.pipeline.task_tables import tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compute_in_parts(
    spark: SparkSession, runs: Sequence[RunFacts], store: TableStore, scan: Scan | None, step: Callable[[str], None]
) -> None:
    step("who was in which topic")
    store.write(tables_of(spark, [MembershipsOf(run, store.new_file(tables.MEMBERSHIPS, run.name)) for run in runs]))
    folders = {run.name: str(store.folder_of(tables.MEMBERSHIPS, run.name)) for run in runs}
    step("reading the trace: messages and traffic")
    scanned = scan(folders) if scan is not None else scan_files(spark, runs, folders)
    parts = scanned.parts.persist()
    add_up(parts, [run.name for run in runs], store.scratch)
    parts.unpersist()
    step("meshes, disturbances and the answers")
    tasks: list[Task] = []
    for number, run in enumerate(runs):
        known = Scanned(run, SummedParts(str(store.scratch), number), folders[run.name])
        new_file = partial(store.new_file, run=run.name)
        tasks += tasks_of_run(known, scanned.files_of[run.name], scanned.reader_checks, new_file)
    store.write(tables_of(spark, tasks))
