"""What the large classes of the trace, messages and RPCs, say: the input of most tables.

A batch analysis reads every file (`scan_files`); one that follows a run (`hearsay.pipeline.stream`) reads what is new
and has the rest from earlier. Both hand over the same thing, so the tables are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics import quality, whole_files
from hearsay.pipeline.metrics.messages import latencies_of_rows, messages_table, rounded_down
from hearsay.pipeline.metrics.speed import pairs_of
from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ScanResult:
    messages: DataFrame
    """The table `messages`."""
    latency_pairs: DataFrame
    """(run, topic, pairs), see `metrics.speed`."""
    by_hops: DataFrame
    """(run, topic, latency_us, hops, deliveries), latencies rounded down, not added up yet."""
    traffic: DataFrame
    """The table `traffic`."""
    repeated: DataFrame
    """(run, rows): deliveries of a message at a node beyond the first."""
    part_counts: DataFrame
    """(run, second, fate_kind, via_reason, rows, count, bytes), see `metrics.bargains`."""
    sizes: DataFrame
    """(run, sent, received): parts of which the trace tells the bytes."""
    reader_checks: tuple[quality.Line, ...]
    """Lines for the table `quality` that are known already."""
    rows_of: Callable[[DataFrame], DataFrame]
    """Rows of the class message that hold all rows of these (run, message)."""
    release: Callable[[], object]
    """Gives back what was kept in memory."""


_LOOKED_UP = 100

Scan = Callable[["DataFrame", Mapping[str, str]], ScanResult]
"""From the memberships, and where they lie by run."""


def scan_files(
    spark: SparkSession,
    runs: Sequence[RunFacts],
    facts: DataFrame,
    members: DataFrame,
    folders: Mapping[str, str],
) -> ScanResult:
    """Read all files of the runs."""
    message_rows = trace_rows(spark, runs, "message")
    parts = whole_files.scan(spark, runs, folders).persist()
    messages, repeated = whole_files.messages_of(parts), whole_files.repeated_of(parts)
    pairs, by_hops = whole_files.latency_pairs_of(parts), whole_files.latencies_of(parts)
    spanning = _spanning(spark, runs, message_rows)
    if spanning is not None:
        messages = messages.unionByName(messages_table(spanning, members, facts))
        repeated = repeated.unionByName(quality.repeated_deliveries(spanning))
        slow = latencies_of_rows(spanning, facts)
        pairs = pairs.unionByName(pairs_of(slow))
        by_hops = by_hops.unionByName(rounded_down(slow))
    return ScanResult(
        messages,
        pairs,
        by_hops,
        whole_files.traffic_table(parts),
        repeated.groupBy("run").agg(F.sum("rows").alias("rows")),
        whole_files.counts_of_parts(parts),
        whole_files.sizes_of_parts(parts),
        (),
        lambda typical: _rows_of(message_rows, typical),
        parts.unpersist,
    )


def _rows_of(message_rows: DataFrame, typical: DataFrame) -> DataFrame:
    """Few messages are looked up: Parquet's statistics then spare most row groups."""
    wanted = {int(row["message"]) for row in typical.select("message").collect()}
    return message_rows.where(F.col("message").isin(wanted)) if len(wanted) <= _LOOKED_UP else message_rows


def _spanning(spark: SparkSession, runs: Sequence[RunFacts], message_rows: DataFrame) -> DataFrame | None:
    """The rows of messages that do not lie whole in a file; they take a shuffle."""
    listed = [(run.name, message) for run in runs for message in run.manifest.trace.spanning_messages]
    if not listed:
        return None
    names = local_lines(spark, listed, "run string, message bigint")
    return message_rows.join(F.broadcast(names), ["run", "message"], "semi")
