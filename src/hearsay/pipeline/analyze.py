"""From traces to tables: the order of the work.

One pass over the large classes of the trace (`scan`) makes the large tables; everything else is made of these and of
the small classes, by tasks that are one job together (`run_tasks`). All runs go through the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hearsay.pipeline.input.rows import run_table, trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics import bargains, knowledge, traffic
from hearsay.pipeline.metrics.memberships import memberships
from hearsay.pipeline.metrics.messages import with_due_known
from hearsay.pipeline.metrics.peer_exchange import exchange_lines
from hearsay.pipeline.metrics.scores import score_lines
from hearsay.pipeline.metrics.speed import latency_table, speeds_by_run
from hearsay.pipeline.metrics.tallies import tallies_by_run
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.run_tasks import AnswersOf, MeshOf, SpreadOf, Stored, Task, tables_of
from hearsay.pipeline.scan import Scan, scan_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[str], None]
STEPS = 6
_MESH_TASKS = 64
_OF_TASKS = (
    tables.CONTROL,
    tables.BALANCE,
    tables.MESH,
    tables.DEGREES,
    tables.MESH_LINKS,
    tables.CHURN,
    tables.DISTURBANCES,
    tables.RESILIENCE,
    tables.STATE,
    tables.QUALITY,
    tables.SPREAD,
    tables.HEADLINE,
)


def analyze(
    spark: SparkSession, runs: Sequence[RunFacts], outputs: dict[str, Path], step: Step, scan: Scan | None = None
) -> None:
    """Compute all tables of `runs` into `outputs` (by run name); `step` hears what comes next.

    `scan` stands in for the reading of messages and RPCs; without it all files are read.
    """
    store = TableStore(spark, runs, outputs)
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
    facts = run_table(spark, runs)
    mesh_rows, node_rows = (trace_rows(spark, runs, trace_class) for trace_class in ("mesh", "node"))
    step("who was in which topic")
    members = store.write(tables.MEMBERSHIPS, memberships(mesh_rows, node_rows, facts))
    seen = knowledge.seen_in(spark, runs)
    step("reading the trace: messages and traffic")
    folders = {run.name: str(store.folder_of(tables.MEMBERSHIPS, run)) for run in runs}
    scanned = scan(members, folders) if scan is not None else scan_files(spark, runs, facts, members, folders)
    tallies = tallies_by_run((row.asDict() for row in scanned.tallies.collect()), runs)
    known = {
        name: knowledge.knowledge_of(run, seen[name], tallies[name].sent_sizes, tallies[name].received_sizes)
        for name, run in {run.name: run for run in runs}.items()
    }
    store.write_lines(tables.MEASURED, knowledge.measured_lines(known))
    step("messages, latencies and bytes")
    store.write(tables.MESSAGES, with_due_known(scanned.messages, known))
    store.write(tables.LATENCY, latency_table(scanned.by_hops))
    store.write(tables.TRAFFIC, traffic.with_sizes_known(scanned.traffic, known))
    speeds = speeds_by_run(scanned.latency_pairs)
    scanned.release()
    step("what peers think of each other")
    _write_standing(spark, runs, store, [one for run in runs for one in tallies[run.name].counts])
    step("meshes, disturbances and the answers")
    tasks: list[Task] = []
    for run in runs:
        stored = Stored(
            *(str(store.folder_of(table, run)) for table in (tables.MESSAGES, tables.MEMBERSHIPS, tables.TRAFFIC))
        )
        checks, files_of = scanned.reader_checks, scanned.files_of[run.name]
        tasks += [
            AnswersOf(run, known[run.name], stored, tallies[run.name], speeds.get(run.name, {}), checks),
            *(MeshOf(run, known[run.name], stored, topics) for topics in _shares(sorted(run.topics))),
            SpreadOf(run, stored, files_of),
        ]
    store.write_made(_OF_TASKS, tables_of(spark, tasks))


def _shares(topics: Sequence[int]) -> list[Sequence[int]]:
    """The topics of each task about meshes."""
    count = min(len(topics), _MESH_TASKS)
    return [topics[place::count] for place in range(count)]


def _write_standing(
    spark: SparkSession, runs: Sequence[RunFacts], store: TableStore, counts: Sequence[bargains.PartCount]
) -> None:
    """What peers think of each other, and what they do and refuse for it."""
    store.write_lines(tables.REFUSALS, bargains.refusals(counts))
    store.write_lines(tables.PROMISES, bargains.promises(counts, runs))
    store.write_lines(tables.IDONTWANT, bargains.idontwant(counts))
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
