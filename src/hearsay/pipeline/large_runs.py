"""Runs of many rows: one pass over the large classes of the trace, and all tables of what it says.

The pass (`scan`) leaves partial sums. Those of a run are added up by one task, or by Spark where they are many;
tables are made of the sums and of the small classes, by tasks that are one job together (`run_tasks`). All such runs
go through the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.spark_sums import add_up
from hearsay.pipeline.metrics.summed_parts import SummedParts
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.run_tasks import MembershipsOf, Scanned, SumsOf, Task, tasks_of_run
from hearsay.pipeline.scan import Scan, scan_files
from hearsay.pipeline.task_tables import tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDED_UP_BY_ONE_TASK = 5_000_000
"""Lines of partial sums of a run, some seventy bytes each."""


def compute_in_parts(
    spark: SparkSession, runs: Sequence[RunFacts], store: TableStore, scan: Scan | None, step: Callable[[str], None]
) -> None:
    step("who was in which topic")
    members = [MembershipsOf(run, store.new_file(tables.MEMBERSHIPS, run.name)) for run in runs]
    rows = sum(file.rows for run in runs for name in ("mesh", "node") for file in run.files(name))
    store.write(tables_of(spark, members, rows))
    folders = {run.name: str(store.folder_of(tables.MEMBERSHIPS, run.name)) for run in runs}
    step("reading the trace: messages and traffic")
    scratch = store.scratch
    scanned = scan(folders, scratch) if scan is not None else scan_files(spark, runs, folders, scratch)
    parts = added_up(spark, runs, scanned.parts, scratch)
    step("meshes, disturbances and the answers")
    tasks: list[Task] = []
    for run in runs:
        known = Scanned(run, parts[run.name], folders[run.name])
        new_file = partial(store.new_file, run=run.name)
        tasks += tasks_of_run(known, scanned.files_of[run.name], scanned.reader_checks, new_file)
    store.write(tables_of(spark, tasks))


def added_up(
    spark: SparkSession, runs: Sequence[RunFacts], files: Mapping[str, Sequence[str]], scratch: Path
) -> dict[str, SummedParts]:
    """By run, what these files of partial sums say together."""
    parts = {run.name: SummedParts(str(scratch), number, tuple(files[run.name])) for number, run in enumerate(runs)}
    lines = {name: part.lines() for name, part in parts.items()}
    many = [part for name, part in parts.items() if lines[name] > ADDED_UP_BY_ONE_TASK]
    few = [SumsOf(run, parts[run.name]) for run in runs if parts[run.name] not in many]
    for _ in tables_of(spark, few, sum(lines[task.run.name] for task in few)):
        pass
    add_up(spark, many, scratch)
    return parts
