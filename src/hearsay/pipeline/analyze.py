"""From traces to tables: read the rows, compute all tables, and publish them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hearsay import metrics
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.output.tables import TABLES
from hearsay.pipeline.rows import trace_of
from hearsay.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[str], None]
STEPS = 4
_OF_ROWS = ("drawn", "messages", "percentiles", "traffic", "parts", "spread", "changes")
"""Tables computed from the rows of the large classes; all other tables are computed from these."""


def analyze(spark: SparkSession, runs: Sequence[RunFacts], outputs: Mapping[str, Folder], step: Step) -> None:
    """Compute all tables of `runs` into `outputs` (by run name). `step` is called with each step before it begins."""
    store = TableStore(outputs)
    try:
        tables = Tables(trace_of(spark, runs), store.scratch)
        step(f"reading {sum(run.rows for run in runs):,} rows")
        tables.compute(_OF_ROWS)
        step("meshes, disturbances and the answers")
        tables.compute(list(TABLES))
        step("putting the tables into place")
        for name in TABLES:
            if name in tables.arrow:
                store.write(name, tables.arrow[name])
            else:
                store.write_with_spark(name, tables[name])
        store.publish()
    finally:
        store.discard()


def headlines(runs: Sequence[RunFacts], outputs: Mapping[str, Folder]) -> list[dict[str, Any]]:
    """Return the objects of `hearsay analyze --json`: one per run and topic."""
    lines: list[dict[str, Any]] = []
    for run in runs:
        rows: list[dict[str, Any]] = read_table(outputs[run.name].path, "headline").to_pylist()
        lines.extend(_json_of(row) for row in sorted(rows, key=lambda row: row["topic"]))
    return lines


def _json_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "topic": row["topic_name"],
        **{name: row[name] for name in ("router", "nodes", "messages", "eligible", "delivered")},
        **metrics.nested(row),
        "resilience": {
            "before": row["ratio_before"],
            "during": row["ratio_during"],
            "after": row["ratio_after"],
            "heal_s": None if row["heal_us"] is None else row["heal_us"] / 1_000_000,
        },
    }
