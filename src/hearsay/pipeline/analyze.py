"""From traces to tables: the order of the work.

One pass over the large classes of the trace (`whole_files.scan`), a few queries over the small ones, and everything
else from tables that are already there. All runs go through the same queries together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hearsay.pipeline import tables
from hearsay.pipeline.local_tables import local_lines
from hearsay.pipeline.metrics import churn, mesh, state, traffic, whole_files
from hearsay.pipeline.metrics.headline import headline_table
from hearsay.pipeline.metrics.memberships import memberships
from hearsay.pipeline.metrics.messages import in_milliseconds, latencies_of_rows, messages_table
from hearsay.pipeline.metrics.quality import quality_table
from hearsay.pipeline.metrics.spread import spread_table
from hearsay.pipeline.rows import run_table, topic_names, trace_rows
from hearsay.pipeline.run_facts import RunFacts
from hearsay.pipeline.table_store import TableStore, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = Callable[[str], None]
STEPS = 9


def analyze(spark: SparkSession, runs: Sequence[RunFacts], outputs: dict[str, Path], step: Step) -> None:
    """Compute all tables of `runs` into `outputs` (by run name); `step` hears what comes next."""
    store = TableStore(spark, runs, outputs)
    try:
        _compute(spark, runs, store, step)
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


def _compute(spark: SparkSession, runs: Sequence[RunFacts], store: TableStore, step: Step) -> None:
    facts = run_table(spark, runs)
    message_rows, rpc_rows, mesh_rows, node_rows = (
        trace_rows(spark, runs, trace_class) for trace_class in ("message", "rpc", "mesh", "node")
    )
    step("who was in which topic")
    members = store.write(tables.MEMBERSHIPS, memberships(mesh_rows, node_rows, facts))
    step("reading the trace: messages and traffic")
    folders = {run.name: str(store.folder_of(tables.MEMBERSHIPS, run)) for run in runs}
    parts = whole_files.scan(spark, runs, folders).persist()
    exact, by_hops = whole_files.exact_latencies_of(parts), whole_files.latencies_of(parts)
    told = whole_files.messages_of(parts)
    spanning = _spanning(spark, runs, message_rows)
    if spanning is not None:
        told = told.unionByName(messages_table(spanning, members, facts))
        slow = latencies_of_rows(spanning, facts)
        exact = exact.unionByName(slow.drop("hops"))
        by_hops = by_hops.unionByName(in_milliseconds(slow))
    messages = store.write(tables.MESSAGES, told)
    step("latencies and bytes")
    store.write(
        tables.LATENCY,
        by_hops.groupBy("run", "topic", "latency_ms", "hops").agg(F.sum("deliveries").alias("deliveries")),
    )
    sent = store.write(tables.TRAFFIC, whole_files.traffic_table(parts))
    store.write(tables.CONTROL, traffic.control_table(sent))
    balance = store.write(tables.BALANCE, traffic.balance_table(spark, sent, members, runs))
    step("the mesh over time")
    seen = mesh.mesh_parts(mesh_rows, node_rows, members, runs).persist()
    store.write(tables.MESH, mesh.mesh_table(seen))
    store.write(tables.DEGREES, mesh.degrees_table(seen))
    store.write(tables.MESH_LINKS, mesh.mesh_links_table(seen))
    step("churn and recovery")
    store.write(tables.CHURN, churn.churn_table(node_rows, messages, facts))
    resilience = store.write(tables.RESILIENCE, churn.resilience_table(node_rows, messages, facts))
    step("what nodes keep, and the trace's quality")
    kept = store.write(tables.STATE, state.state_table(node_rows))
    store.write(tables.QUALITY, quality_table(spark, runs, message_rows, rpc_rows, messages))
    step("how a message spread")
    store.write(tables.SPREAD, spread_table(message_rows, messages))
    step("the answers")
    nodes = local_lines(spark, [(run.name, len(run.nodes)) for run in runs], "run string, nodes bigint")
    answers = headline_table(
        facts,
        topic_names(spark, runs),
        nodes,
        messages,
        exact,
        traffic.control_share(sent),
        balance,
        kept,
        resilience,
    )
    store.write(tables.HEADLINE, answers)
    parts.unpersist()
    seen.unpersist()


def _spanning(spark: SparkSession, runs: Sequence[RunFacts], message_rows: DataFrame) -> DataFrame | None:
    """The rows of messages that do not lie whole in a file; they take a shuffle."""
    listed = [(run.name, message) for run in runs for message in run.manifest.trace.spanning_messages]
    if not listed:
        return None
    names = local_lines(spark, listed, "run string, message bigint")
    return message_rows.join(F.broadcast(names), ["run", "message"], "semi")


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
        "state_bytes": {"mean": row["state_bytes_mean"], "max": row["state_bytes_max"]},
        "resilience": {
            "before": row["ratio_before"],
            "during": row["ratio_during"],
            "after": row["ratio_after"],
            "heal_s": None if row["heal_us"] is None else row["heal_us"] / 1_000_000,
        },
    }
