"""Comings and goings, stretch by stretch of the run, and how the messages published then fared.

A stretch is a second, or in a long run as many seconds as keep the lines below `MOST_LINES`: a trace of months has
no more of them than one of an hour. Seconds count from the start of the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.knowledge import NODES_UP, Knowledge, where_known
from hearsay.pipeline.metrics.messages import quotient
from hearsay.pipeline.output.tables import CHURN
from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_LINES = 3_600
_SECOND = 1_000_000
_ROUND_WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


def stretch_s(run: RunFacts) -> int:
    """How many seconds a line of the run is about."""
    least = -(-(run.end_us - run.start_us) // (MOST_LINES * _SECOND))
    place = bisect_left(_ROUND_WIDTHS_S, least)
    return _ROUND_WIDTHS_S[place] if place < len(_ROUND_WIDTHS_S) else least


def churn_table(
    spark: SparkSession,
    node_rows: DataFrame,
    messages: DataFrame,
    runs: Sequence[RunFacts],
    known: Mapping[str, Knowledge],
) -> DataFrame:
    """Topic null tells of nodes alone; a topic's lines tell of its messages as well."""
    lines = [
        (run.name, run.start_us, (run.end_us - run.start_us - 1) // _SECOND, stretch_s(run))
        for run in runs
        if run.end_us > run.start_us
    ]
    clocks = local_lines(spark, lines, "run string, start_us bigint, last bigint, seconds bigint")
    seconds = F.sequence(F.lit(0).cast("bigint"), F.col("last"), F.col("seconds"))
    grid = clocks.select("run", "seconds", F.explode(seconds).alias("second"))

    def second_of(time: str) -> Column:
        return F.expr(f"({time} - start_us) div {_SECOND} div seconds * seconds").alias("second")

    changes = (
        node_rows.where(F.col("event").isin("node_up", "node_down"))
        .join(F.broadcast(clocks), "run")
        .groupBy("run", second_of("time_us"))
        .agg(
            F.count_if(F.col("event") == "node_up").alias("came"),
            F.count_if(F.col("event") == "node_down").alias("went"),
        )
    )
    filled = grid.join(changes, ["run", "second"], "left").fillna(0, ["came", "went"])
    up = F.sum(F.col("came") - F.col("went")).over(Window.partitionBy("run").orderBy("second"))
    counts = ("nodes_up", "came", "went")
    nodes = filled.withColumn("nodes_up", up)
    nodes = nodes.withColumns({name: where_known(NODES_UP, known, F.col(name)) for name in counts})
    published = (
        messages.where(F.col("published_us").isNotNull())
        .join(F.broadcast(clocks), "run")
        .groupBy("run", "topic", second_of("published_us"))
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
