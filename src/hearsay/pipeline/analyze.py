"""From traces to tables: the order of the work.

One pass over the large classes of the trace (`scan`), whose partial sums Spark adds up; all tables are made of these
and of the small classes, by tasks that are one job together (`run_tasks`). All runs go through the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.peer_exchange import exchange_lines
from hearsay.pipeline.metrics.scores import score_lines
from hearsay.pipeline.metrics.summed_parts import SummedParts, add_up
from hearsay.pipeline.metrics.whole_files import MESSAGE, TRAFFIC
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.run_tasks import AnswersOf, LinesOf, MembershipsOf, MeshOf, Scanned, SpreadOf, Task, tables_of
from hearsay.pipeline.scan import Scan, scan_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[str], None]
STEPS = 5
_MESH_TASKS = 64


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
    step("who was in which topic")
    store.write(tables_of(spark, [MembershipsOf(run, store.new_file(tables.MEMBERSHIPS, run.name)) for run in runs]))
    folders = {run.name: str(store.folder_of(tables.MEMBERSHIPS, run.name)) for run in runs}
    step("reading the trace: messages and traffic")
    scanned = scan(folders) if scan is not None else scan_files(spark, runs, folders)
    parts = scanned.parts.persist()
    add_up(parts, [run.name for run in runs], store.scratch)
    parts.unpersist()
    step("what peers think of each other")
    _write_standing(spark, runs, store)
    step("meshes, disturbances and the answers")
    tasks: list[Task] = []
    for number, run in enumerate(runs):
        known = Scanned(run, SummedParts(str(store.scratch), number), folders[run.name])
        tasks += [AnswersOf(known, scanned.reader_checks), SpreadOf(known, scanned.files_of[run.name])]
        tasks += [MeshOf(known, topics) for topics in _shares(sorted(run.topics))]
        for table, what in ((tables.MESSAGES, MESSAGE), (tables.TRAFFIC, TRAFFIC)):
            files = known.parts.files(what)
            tasks += [LinesOf(known, table, file, store.new_file(table, run.name)) for file in files]
    store.write(tables_of(spark, tasks))


def _shares(topics: Sequence[int]) -> list[Sequence[int]]:
    """The topics of each task about meshes."""
    count = min(len(topics), _MESH_TASKS)
    return [topics[place::count] for place in range(count)]


def _write_standing(spark: SparkSession, runs: Sequence[RunFacts], store: TableStore) -> None:
    """What peers think of each other, and whom they met through each other."""
    store.write_lines(tables.EXCHANGE, exchange_lines(spark, runs))
    scores, worst_peers = score_lines(spark, runs)
    store.write_lines(tables.SCORES, scores)
    store.write_lines(tables.WORST_PEERS, worst_peers)


def _json_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "topic": row["topic_name"],
        "router": row["router"],
        "nodes": row["nodes"],
        "messages": row["messages"],
        "eligible": row["eligible"],
        "delivered": row["delivered"],
        "delivery_ratio": row["delivery_ratio"],
        "latency_ms": {name: row[f"latency_{name}_ms"] for name in ("p50", "p90", "p99", "max")},
        "hops": {"mean": row["hops_mean"], "max": row["hops_max"]},
        "copies_per_delivery": row["copies_per_delivery"],
        "control_bytes_share": row["control_bytes_share"],
        "bytes_out": {
            "mean": row["bytes_out_mean"],
            "max_over_mean": row["bytes_out_max_over_mean"],
            "gini": row["bytes_out_gini"],
        },
        "uplink_share": {"mean": row["uplink_share_mean"], "max": row["uplink_share_max"]},
        "state_bytes": {"mean": row["state_bytes_mean"], "max": row["state_bytes_max"]},
        "resilience": {
            "before": row["ratio_before"],
            "during": row["ratio_during"],
            "after": row["ratio_after"],
            "heal_s": None if row["heal_us"] is None else row["heal_us"] / 1_000_000,
        },
    }
