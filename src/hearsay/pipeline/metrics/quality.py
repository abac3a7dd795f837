"""What is odd about a trace, check by check; a check that finds nothing says 0.

| check | rows it counts |
| --- | --- |
| rows | all rows of the trace |
| incomplete | 1 for a run that was interrupted |
| orphan_deliveries | deliveries of messages that nobody published |
| unpublished_messages | messages with rows but without a publish row |
| repeated_deliveries | deliveries of a message at a node beyond the first |
| negative_latencies | messages whose median latency is negative: clocks disagree |
| unknown_eligible | messages of which nobody knows who is eligible: no member of the topic is known |
| drop_REASON | parts of RPCs dropped for that reason |
| late_rows | only in tables kept fresh while a run writes: rows of messages that had counted as final |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.local_tables import local_lines
from hearsay.pipeline.run_facts import RunFacts
from hearsay.pipeline.tables import QUALITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Line = tuple[str, str, int, str | None]
"""run, check, rows, detail"""


def quality_table(
    spark: SparkSession,
    runs: Sequence[RunFacts],
    messages: DataFrame,
    repeated: DataFrame,
    dropped: DataFrame,
    told: Sequence[Line] = (),
) -> DataFrame:
    """The table from the table `messages`, `repeated_deliveries`, `drops` and lines that are known already."""
    lines: list[Line] = [(run.name, "rows", run.rows, None) for run in runs]
    lines += [(run.name, "incomplete", int(not run.manifest.complete), None) for run in runs]
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
    reason = F.concat(F.lit("drop_"), F.coalesce("reason", F.lit("unknown"))).alias("check")
    whole = counted.unionByName(long).unionByName(again).unionByName(dropped.select("run", reason, "rows", detail))
    return whole.select(*(F.col(name).cast(kind) for name, kind in QUALITY.columns))


def repeated_deliveries(message_rows: DataFrame) -> DataFrame:
    """(run, rows): deliveries of a message at a node beyond the first."""
    deliveries = message_rows.where((F.col("event") == "deliver") & F.col("message").isNotNull())
    per_node = deliveries.groupBy("run", "message", "peer").agg((F.count("*") - 1).alias("more"))
    return per_node.groupBy("run").agg(F.sum("more").alias("rows"))
