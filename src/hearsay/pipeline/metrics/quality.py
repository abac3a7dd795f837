"""What is odd about a trace, check by check; a check that finds nothing says 0.

| check | rows it counts |
| --- | --- |
| rows | all rows of the trace |
| incomplete | 1 for a run that was interrupted, or whose detail says that it is still being written |
| orphan_deliveries | deliveries of messages that nobody published |
| unpublished_messages | messages with rows but without a publish row |
| repeated_deliveries | deliveries of a message at a node beyond the first |
| negative_latencies | messages whose median latency is negative: clocks disagree |
| unknown_eligible | messages of which nobody knows who is eligible: no member of the topic is known |
| drop_REASON | parts of RPCs dropped for that reason |
| ended_without_goodbye | nodes whose traces stop without a goodbye, and count as down from there; if any |
| not_due | deliveries made that were not due, where these are more than those that were |
| late_rows | only in tables kept fresh while a run writes: rows of messages that had counted as final |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.part_counts import Fate
from hearsay.pipeline.metrics.bargains import PartCount
from hearsay.pipeline.output.tables import QUALITY
from hearsay.pipeline.spark.local_tables import local_lines
from hearsay.trace.language.schema import wire_name
from hearsay.trace.read.names import load_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MOST_NAMED = 10
LEAST_DUE = 0.5
STILL_WRITTEN = "still being written"
Line = tuple[str, str, int, str | None]
"""run, check, rows, detail"""


def quality_table(
    spark: SparkSession,
    runs: Sequence[RunFacts],
    messages: DataFrame,
    repeated: DataFrame,
    told: Sequence[Line] = (),
) -> DataFrame:
    """The table from the table `messages`, `repeated_deliveries` and lines that are known already."""
    lines: list[Line] = [(run.name, "rows", run.rows, None) for run in runs]
    for run in runs:
        lines.append(
            (run.name, "incomplete", int(not run.manifest.complete), STILL_WRITTEN if run.still_written else None)
        )
    counted = local_lines(spark, [*lines, *told], QUALITY.ddl)
    checks = {
        "orphan_deliveries": F.sum(F.when(F.col("published_us").isNull(), F.col("delivered"))),
        "unpublished_messages": F.count_if(F.col("published_us").isNull()),
        "negative_latencies": F.count_if(F.col("max_us").isNotNull() & (F.col("p50_us") < 0)),
        "unknown_eligible": F.count_if(F.col("eligible").isNull()),
    }
    wide = messages.groupBy("run").agg(*(F.coalesce(check, F.lit(0)).alias(name) for name, check in checks.items()))
    detail = F.lit(None).cast("string").alias("detail")
    long = wide.unpivot("run", list(checks), "check", "rows").withColumn("detail", detail)
    again = repeated.select("run", F.lit("repeated_deliveries").alias("check"), "rows", detail)
    whole = counted.unionByName(long).unionByName(again)
    return whole.select(*(F.col(name).cast(kind) for name, kind in QUALITY.columns))


def drop_lines(counts: Iterable[PartCount]) -> list[Line]:
    """Parts of RPCs that never arrived, by reason."""
    drops: Counter[tuple[str, str]] = Counter()
    for one in counts:
        if one.fate is Fate.DROPPED:
            drops[one.run, "unknown" if one.reason is None else wire_name(one.reason)] += one.rows
    return [(run, f"drop_{reason}", rows, None) for (run, reason), rows in drops.items()]


def nodes_without_goodbye(node_rows: DataFrame, runs: Sequence[RunFacts]) -> list[Line]:
    """Which nodes of real runs were killed, or had not closed their traces yet, and when they were last heard."""
    real = {run.name: run for run in runs if not run.simulated}
    if not real:
        return []
    lost = node_rows.where((F.col("event") == "node_down") & (F.col("reason") == "lost") & F.col("run").isin([*real]))
    by_run: dict[str, list[tuple[int, int]]] = {}
    for row in lost.select("run", "time_us", "peer").collect():
        by_run.setdefault(row["run"], []).append((row["time_us"], row["peer"]))
    return [
        (name, "ended_without_goodbye", len(found), _last_heard(real[name], sorted(found)))
        for name, found in sorted(by_run.items())
    ]


def few_due(messages: DataFrame, runs: Sequence[RunFacts]) -> list[Line]:
    """Real runs of whose deliveries fewer than half were due, as nodes left within the window of a message."""
    real = {run.name: run for run in runs if not run.simulated}
    if not real:
        return []
    judged = messages.where(F.col("run").isin([*real]) & F.col("eligible").isNotNull())
    sums = judged.groupBy("run").agg(F.sum("delivered").alias("made"), F.sum("delivered_eligible").alias("due"))
    return [
        (row["run"], "not_due", row["made"] - row["due"], _window_in_words(real[row["run"]], row["due"], row["made"]))
        for row in sums.orderBy("run").collect()
        if row["due"] < LEAST_DUE * row["made"]
    ]


def _window_in_words(run: RunFacts, due: int, made: int) -> str:
    return (
        f"{due} of the {made} deliveries made were due: a node counts if it stayed "
        f"{run.window_us / 1_000_000:g} s after the message; --window sets it"
    )


def _last_heard(run: RunFacts, found: Sequence[tuple[int, int]]) -> str:
    names = load_names(run.path)
    said = [f"{names.peer(peer)} at {(time - run.start_us) / 1_000_000:.1f} s" for time, peer in found[:MOST_NAMED]]
    return ", ".join(said) + (", …" if len(found) > MOST_NAMED else "")


def repeated_deliveries(message_rows: DataFrame) -> DataFrame:
    """(run, rows): deliveries of a message at a node beyond the first."""
    deliveries = message_rows.where((F.col("event") == "deliver") & F.col("message").isNotNull())
    per_node = deliveries.groupBy("run", "message", "peer").agg((F.count("*") - 1).alias("more"))
    return per_node.groupBy("run").agg(F.sum("more").alias("rows"))
