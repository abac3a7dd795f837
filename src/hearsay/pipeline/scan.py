"""What the large classes of the trace, messages and RPCs, say: the input of most tables.

A batch analysis reads every file (`scan_files`); one that follows a run (`hearsay.pipeline.stream`) reads what is new
and has the rest from earlier. Both hand over the same thing, so the tables are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.local_tables import local_lines
from hearsay.pipeline.metrics import quality, whole_files
from hearsay.pipeline.metrics.messages import in_milliseconds, latencies_of_rows, messages_table
from hearsay.pipeline.rows import trace_rows
from hearsay.pipeline.run_facts import RunFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Scanned:
    messages: DataFrame
    """The table `messages`."""
    exact: DataFrame
    """(run, topic, latency_us, deliveries)"""
    by_hops: DataFrame
    """(run, topic, latency_ms, hops, deliveries), not added up yet."""
    traffic: DataFrame
    """The table `traffic`."""
    repeated: DataFrame
    """(run, rows): deliveries of a message at a node beyond the first."""
    drops: DataFrame
    """(run, reason, rows)"""
    told_checks: tuple[quality.Line, ...]
    """Lines for the table `quality` that are known already."""
    rows_of: Callable[[DataFrame], DataFrame]
    """Rows of the class message that hold all rows of these (run, message)."""
    release: Callable[[], object]
    """Gives back what was kept in memory."""


Scan = Callable[["DataFrame", Mapping[str, str]], Scanned]
"""From the memberships, and where they lie by run."""


def scan_files(
    spark: SparkSession,
    runs: Sequence[RunFacts],
    facts: DataFrame,
    members: DataFrame,
    folders: Mapping[str, str],
) -> Scanned:
    """Read all files of the runs."""
    message_rows, rpc_rows = (trace_rows(spark, runs, trace_class) for trace_class in ("message", "rpc"))
    parts = whole_files.scan(spark, runs, folders).persist()
    messages = whole_files.messages_of(parts)
    exact, by_hops = whole_files.exact_latencies_of(parts), whole_files.latencies_of(parts)
    spanning = _spanning(spark, runs, message_rows)
    if spanning is not None:
        messages = messages.unionByName(messages_table(spanning, members, facts))
        slow = latencies_of_rows(spanning, facts)
        exact = exact.unionByName(slow.drop("hops"))
        by_hops = by_hops.unionByName(in_milliseconds(slow))
    return Scanned(
        messages,
        exact,
        by_hops,
        whole_files.traffic_table(parts),
        quality.repeated_deliveries(message_rows),
        quality.drops(message_rows, rpc_rows),
        (),
        lambda _typical: message_rows,
        parts.unpersist,
    )


def _spanning(spark: SparkSession, runs: Sequence[RunFacts], message_rows: DataFrame) -> DataFrame | None:
    """The rows of messages that do not lie whole in a file; they take a shuffle."""
    listed = [(run.name, message) for run in runs for message in run.manifest.trace.spanning_messages]
    if not listed:
        return None
    names = local_lines(spark, listed, "run string, message bigint")
    return message_rows.join(F.broadcast(names), ["run", "message"], "semi")
