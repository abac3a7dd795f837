"""Resilience: comings and goings second by second, and delivery before, during and after disturbances.

A disturbance is a node that goes down or comes up after the first message of the topic was published. A message is
published *before* the first of them if its window closes before it, *after* the last if it is published later, and
*during* otherwise. The network has healed when, from then on, every message reaches at least `HEALED` of the ratio
before (of 1 if nothing was published before).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.metrics.messages import quotient
from hearsay.pipeline.tables import CHURN, RESILIENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEALED = 0.99
_SECOND = 1_000_000


def churn_table(node_rows: DataFrame, messages: DataFrame, runs: DataFrame) -> DataFrame:
    """Topic null tells of nodes alone; a topic's lines tell of its messages as well."""
    changes = (
        _changes(node_rows)
        .groupBy("run", F.expr("time_us div 1000000").cast("int").alias("second"))
        .agg(
            F.count_if(F.col("event") == "node_up").alias("came"),
            F.count_if(F.col("event") == "node_down").alias("went"),
        )
    )
    seconds = F.sequence(F.lit(0), F.expr("(end_us - 1) div 1000000").cast("int"))
    grid = runs.where(F.col("end_us") > 0).select("run", F.explode(seconds).alias("second"))
    filled = grid.join(changes, ["run", "second"], "left").fillna(0, ["came", "went"])
    up = F.sum(F.col("came") - F.col("went")).over(Window.partitionBy("run").orderBy("second"))
    nodes = filled.withColumn("nodes_up", up)
    published = (
        messages.where(F.col("published_us").isNotNull())
        .groupBy("run", "topic", F.expr("published_us div 1000000").cast("int").alias("second"))
        .agg(
            F.count("*").alias("messages"),
            F.sum("eligible").alias("eligible"),
            F.sum("delivered_eligible").alias("delivered"),
        )
        .withColumn("ratio", quotient(F.col("delivered"), F.col("eligible")))
    )
    nothing = {"messages": F.lit(0), "eligible": F.lit(0), "delivered": F.lit(0), "ratio": F.lit(None).cast("double")}
    whole = nodes.withColumns({"topic": F.lit(None).cast("int"), **nothing})
    by_topic = published.join(nodes, ["run", "second"])
    return whole.unionByName(by_topic).select(*(F.col(name).cast(kind) for name, kind in CHURN.columns))


def resilience_table(node_rows: DataFrame, messages: DataFrame, runs: DataFrame) -> DataFrame:
    """One line per run and topic with messages that somebody was eligible for."""
    known = messages.where(F.col("published_us").isNotNull() & (F.col("eligible") > 0)).join(F.broadcast(runs), "run")
    first_message = messages.groupBy("run", "topic").agg(F.min("published_us").alias("begins_us"))
    disturbed = (
        _changes(node_rows)
        .join(first_message, "run")
        .where(F.col("time_us") > F.col("begins_us"))
        .groupBy("run", "topic")
        .agg(
            F.count("*").alias("disturbances"), F.min("time_us").alias("first_us"), F.max("time_us").alias("last_us")
        )
    )
    first = first_message.join(disturbed, ["run", "topic"], "left").fillna(0, ["disturbances"])
    placed = known.join(first, ["run", "topic"]).withColumn(
        "phase",
        F.when(F.col("first_us").isNull(), "before")
        .when(F.least(F.col("published_us") + F.col("window_us"), F.col("end_us")) < F.col("first_us"), "before")
        .when(F.col("published_us") > F.col("last_us"), "after")
        .otherwise("during"),
    )

    topic = Window.partitionBy("run", "topic")

    def ratio(phase: str) -> Column:
        mine = F.col("phase") == phase
        return quotient(
            F.sum(F.when(mine, F.col("delivered_eligible"))).over(topic),
            F.sum(F.when(mine, F.col("eligible"))).over(topic),
        )

    weighed = placed.withColumns({f"ratio_{phase}": ratio(phase) for phase in ("before", "during", "after")})
    goal = HEALED * F.coalesce("ratio_before", F.lit(1.0))
    since = F.col("published_us") > F.col("first_us")
    bad = F.max(F.when(since & (F.col("ratio") < goal), F.col("published_us"))).over(topic)
    judged = weighed.withColumn("bad_us", bad)
    good = F.min(F.when(since & (F.col("published_us") > F.col("bad_us")), F.col("published_us")))
    # Healed with the first message after the last bad one; never, if the last message was bad.
    healed = F.greatest(good - F.first("last_us"), F.lit(0))
    heal = F.when(F.count_if(since) == 0, None).when(F.max("bad_us").isNull(), 0).when(good.isNotNull(), healed)
    of_topic = [name for name, _ in RESILIENCE.columns if name not in ("run", "topic", "heal_us")]
    lines = judged.groupBy("run", "topic").agg(
        *(F.first(name).alias(name) for name in of_topic), heal.alias("heal_us")
    )
    return lines.select(*(F.col(name).cast(kind) for name, kind in RESILIENCE.columns))


def _changes(node_rows: DataFrame) -> DataFrame:
    return node_rows.where(F.col("event").isin("node_up", "node_down")).select("run", "event", "time_us")
