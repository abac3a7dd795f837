"""From traces to tables: the order of the work.

A run of few rows is one task, and all such runs are one job (`small_runs`); the others are divided (`large_runs`).
What tasks compute with is imported where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hearsay import metrics
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.small_runs import WHOLE_BELOW, WholeRun
from hearsay.pipeline.task_tables import tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hearsay.pipeline.scan import Scan

Step = Callable[[str], None]
STEPS = 4


def analyze(
    spark: SparkSession, runs: Sequence[RunFacts], outputs: dict[str, Path], step: Step, scan: Scan | None = None
) -> None:
    """Compute all tables of `runs` into `outputs` (by run name); `step` hears what comes next.

    `scan` stands in for the reading of messages and RPCs; without it all files are read.
    """
    store = TableStore(runs, outputs)
    try:
        _compute(spark, runs, store, scan, step)
        step("putting the tables into place")
        store.publish()
    finally:
        store.discard()


def headlines(runs: Sequence[RunFacts], outputs: dict[str, Path]) -> list[dict[str, Any]]:
    """The contract of `hearsay analyze --json`: one object per run and topic."""
    lines: list[dict[str, Any]] = []
    for run in runs:
        rows: list[dict[str, Any]] = read_table(outputs[run.name], tables.HEADLINE).to_pylist()
        lines.extend(_json_of(row) for row in sorted(rows, key=lambda row: row["topic"]))
    return lines


def _compute(spark: SparkSession, runs: Sequence[RunFacts], store: TableStore, scan: Scan | None, step: Step) -> None:
    small = [run for run in runs if scan is None and run.rows < WHOLE_BELOW]
    large = [run for run in runs if run not in small]
    if small:
        step(f"all tables of {_counted(len(small))}")
        store.write(tables_of(spark, [_as_one_task(run, store) for run in small]))
    if large:
        from hearsay.pipeline.large_runs import compute_in_parts

        compute_in_parts(spark, large, store, scan, step)


def _as_one_task(run: RunFacts, store: TableStore) -> WholeRun:
    wholes = (tables.MEMBERSHIPS, tables.MESSAGES, tables.TRAFFIC)
    return WholeRun(
        run, str(store.scratch_of(run.name)), {table.name: store.new_file(table, run.name) for table in wholes}
    )


def _counted(runs: int) -> str:
    return "the run" if runs == 1 else f"{runs} runs"


def _json_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "topic": row["topic_name"],
        "router": row["router"],
        "nodes": row["nodes"],
        "messages": row["messages"],
        "eligible": row["eligible"],
        "delivered": row["delivered"],
        **metrics.nested(row),
        "resilience": {
            "before": row["ratio_before"],
            "during": row["ratio_during"],
            "after": row["ratio_after"],
            "heal_s": None if row["heal_us"] is None else row["heal_us"] / 1_000_000,
        },
    }
