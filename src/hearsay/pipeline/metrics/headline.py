"""The answers: one line per run and topic, joined from the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.metrics.messages import quotient
from hearsay.pipeline.output.tables import HEADLINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = ["run", "topic"]


def headline_table(
    runs: DataFrame,
    topic_names: DataFrame,
    nodes: DataFrame,
    messages: DataFrame,
    speed: DataFrame,
    control_share: DataFrame,
    balance: DataFrame,
    state: DataFrame,
    resilience: DataFrame,
) -> DataFrame:
    """The table `headline`; `nodes` is (run, nodes), the others are the tables of their modules;
    of `resilience` the lines about all disturbances together."""
    delivery = messages.groupBy(*_KEY).agg(
        F.count("*").alias("messages"),
        F.sum("eligible").alias("eligible"),
        F.sum("delivered_eligible").alias("delivered"),
        quotient(F.sum("hops_sum"), F.sum(F.when(F.col("hops_sum").isNotNull(), F.col("away")))).alias("hops_mean"),
        F.max("hops_max").alias("hops_max"),
        quotient(F.sum("copies"), F.sum("away")).alias("copies_per_delivery"),
    )
    sampled = state.groupBy("run").agg(
        quotient(F.sum(F.col("bytes_mean") * F.col("nodes")), F.sum("nodes")).alias("state_bytes_mean"),
        F.max("bytes_max").alias("state_bytes_max"),
    )
    spread = _loads(topic_names, balance).select(
        *_KEY,
        "bytes_max",
        F.col("bytes_mean").alias("bytes_out_mean"),
        F.col("max_over_mean").alias("bytes_out_max_over_mean"),
        F.col("gini").alias("bytes_out_gini"),
    )
    joined = topic_names.join(F.broadcast(runs), "run").join(F.broadcast(nodes), "run", "left")
    for other in (delivery, speed, control_share, spread, resilience):
        joined = joined.join(other, _KEY, "left")
    seconds = (F.col("end_us") - F.col("start_us")) / 1_000_000
    could_send = F.col("uplink_bits_per_s") / 8 * seconds
    figures = joined.join(sampled, "run", "left").withColumns(
        {
            "messages": F.coalesce("messages", F.lit(0)),
            "delivery_ratio": quotient(F.col("delivered"), F.col("eligible")),
            "seconds": seconds,
            "uplink_share_mean": quotient(F.col("bytes_out_mean"), could_send),
            "uplink_share_max": quotient(F.col("bytes_max"), could_send),
        }
    )
    return figures.select(*(F.col(name).cast(kind) for name, kind in HEADLINE.columns))


def _loads(topic_names: DataFrame, balance: DataFrame) -> DataFrame:
    """The lines of `balance` by topic. With one topic that of the run: what names no topic (IWANT) is the topic's."""
    alone = topic_names.groupBy("run").agg(F.min("topic").alias("alone"), F.count("*").alias("topics"))
    alone = alone.where(F.col("topics") == 1).select("run", "alone")
    found = balance.join(F.broadcast(alone), "run", "left")
    several = F.col("alone").isNull()
    kept = found.where((several & F.col("topic").isNotNull()) | (~several & F.col("topic").isNull()))
    return kept.withColumn("topic", F.coalesce("topic", "alone")).drop("alone")
