"""What the large classes of the trace, messages and RPCs, say: the input of most tables.

A batch analysis reads every file (`scan_files`); one that follows a run (`hearsay.pipeline.stream`) reads what is new
and has the rest from earlier. Both hand over the same thing, so the tables are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.rows import trace_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics import whole_files
from hearsay.pipeline.metrics.messages import latencies_of_rows, messages_table, repeated_deliveries, rounded_down
from hearsay.pipeline.metrics.quality import Line
from hearsay.pipeline.metrics.speed import pairs_of
from hearsay.pipeline.run_tasks import FilesOf
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
    tallies: DataFrame
    """See `whole_files.tallies_of`."""
    reader_checks: tuple[Line, ...]
    """Lines for the table `quality` that are known already, of every run."""
    files_of: Mapping[str, FilesOf]
    """By run."""
    release: Callable[[], object]
    """Gives back what was kept in memory."""


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
    messages, tallies = whole_files.messages_of(parts), whole_files.tallies_of(parts)
    pairs, by_hops = whole_files.latency_pairs_of(parts), whole_files.latencies_of(parts)
    spanning = _spanning(spark, runs, message_rows)
    if spanning is not None:
        messages = messages.unionByName(messages_table(spanning, members, facts))
        tallies = tallies.unionByName(_repeated(spanning))
        slow = latencies_of_rows(spanning, facts)
        pairs = pairs.unionByName(pairs_of(slow))
        by_hops = by_hops.unionByName(rounded_down(slow))
    return ScanResult(
        messages,
        pairs,
        by_hops,
        whole_files.traffic_table(parts),
        tallies,
        (),
        {run.name: partial(_all_files, [file.name for file in run.files("message")]) for run in runs},
        parts.unpersist,
    )


def _all_files(names: list[str], _messages: Sequence[int]) -> list[str]:
    """Files say themselves which of their rows need not be read."""
    return names


def _repeated(spanning: DataFrame) -> DataFrame:
    nothing = F.lit(0).cast("bigint")
    return repeated_deliveries(spanning).select(
        F.lit(whole_files.REPEATED).alias("what"),
        "run",
        *(nothing.alias(name) for name in ("k0", "k1", "k2")),
        F.col("rows").alias("first"),
        *(nothing.alias(name) for name in ("second", "third")),
    )


def _spanning(spark: SparkSession, runs: Sequence[RunFacts], message_rows: DataFrame) -> DataFrame | None:
    """The rows of messages that do not lie whole in a file; they take a shuffle."""
    listed = [(run.name, message) for run in runs for message in run.manifest.trace.spanning_messages]
    if not listed:
        return None
    names = local_lines(spark, listed, "run string, message bigint")
    return message_rows.join(F.broadcast(names), ["run", "message"], "semi")
