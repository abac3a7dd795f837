"""From traces to tables: the order of the work.

One pass over the large classes of the trace (`scan`), a few queries over the small ones, and everything
else from tables that are already there. All runs go through the same queries together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import run_table, topic_names, trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics import bargains, churn, knowledge, mesh, resilience, state, traffic
from hearsay.pipeline.metrics.headline import headline_table
from hearsay.pipeline.metrics.memberships import memberships
from hearsay.pipeline.metrics.messages import with_due_known
from hearsay.pipeline.metrics.peer_exchange import exchange_lines
from hearsay.pipeline.metrics.quality import drop_lines, few_due, nodes_without_goodbye, quality_table
from hearsay.pipeline.metrics.scores import score_lines
from hearsay.pipeline.metrics.speed import latency_table, speed_table
from hearsay.pipeline.metrics.spread import spread_table, typical_messages
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.scan import Scan, scan_files
from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[str], None]
STEPS = 10


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
    sizes = knowledge.sizes_known(scanned.sizes)
    known = {run.name: knowledge.knowledge_of(run, seen[run.name], *sizes.get(run.name, (0, 0))) for run in runs}
    store.write(tables.MEASURED, knowledge.measured_table(spark, known))
    messages = store.write(tables.MESSAGES, with_due_known(scanned.messages, known))
    step("latencies and bytes")
    store.write(tables.LATENCY, latency_table(scanned.by_hops))
    sent = store.write(tables.TRAFFIC, traffic.with_sizes_known(scanned.traffic, known))
    store.write(tables.CONTROL, traffic.control_table(sent))
    balance = store.write(tables.BALANCE, traffic.balance_table(spark, sent, members, known))
    step("the mesh over time")
    drawn = mesh.mesh_parts(mesh_rows, node_rows, members, runs, known).persist()
    store.write(tables.MESH, mesh.mesh_table(drawn))
    store.write(tables.DEGREES, mesh.degrees_table(drawn))
    store.write(tables.MESH_LINKS, mesh.mesh_links_table(drawn))
    step("churn and recovery")
    store.write(tables.CHURN, churn.churn_table(spark, node_rows, messages, runs, known))
    disturbed = resilience.disturbances_of(node_rows, messages, runs)
    store.write(tables.DISTURBANCES, resilience.disturbances_table(spark, disturbed))
    recovery = resilience.resilience_table(spark, node_rows, messages, facts, runs, disturbed)
    recovery = store.write(tables.RESILIENCE, recovery)
    step("what peers think of each other")
    counts = bargains.counts_of(scanned.part_counts, runs)
    _write_standing(spark, runs, store, counts)
    step("what nodes keep, and the trace's quality")
    kept = store.write(tables.STATE, state.state_table(node_rows))
    of_rows = [*nodes_without_goodbye(node_rows, runs), *drop_lines(counts)]
    checks = quality_table(
        spark, runs, messages, scanned.repeated, [*scanned.reader_checks, *of_rows, *few_due(messages, runs)]
    )
    store.write(tables.QUALITY, checks)
    step("how a message spread")
    typical = typical_messages(messages)
    store.write(tables.SPREAD, spread_table(scanned.rows_of(typical), typical))
    step("the answers")
    observers = [(name, len(knows.observers)) for name, knows in known.items()]
    nodes = local_lines(spark, observers, "run string, nodes bigint")
    answers = headline_table(
        facts,
        topic_names(spark, runs),
        nodes,
        messages,
        speed_table(scanned.latency_pairs),
        traffic.control_share(sent),
        balance,
        kept,
        recovery.where(F.col("disturbance").isNull()),
    )
    store.write(tables.HEADLINE, answers)
    scanned.release()
    drawn.unpersist()


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
