"""When which node was in which topic: from joins, leaves and nodes that went down.

    join 5 | leave 9 | join 12 | node_down 20   ->   [5, 9), [12, 20)

A membership that nothing ends lasts until the end of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def memberships(mesh_rows: DataFrame, node_rows: DataFrame, runs: DataFrame) -> DataFrame:
    """(run, topic, node, since_us, until_us)."""
    told = mesh_rows.where(F.col("event").isin("join", "leave")).select("run", "topic", "peer", "time_us", "event")
    joined = told.where(F.col("event") == "join").select("run", "topic", "peer").distinct()
    downs = node_rows.where(F.col("event") == "node_down").select("run", "peer", "time_us", "event")
    changes = told.unionByName(downs.join(joined, ["run", "peer"]))
    # A join and a leave at the same microsecond: what ends comes first.
    order = Window.partitionBy("run", "topic", "peer").orderBy("time_us", F.col("event") == "join")
    intervals = changes.select("*", F.lead("time_us").over(order).alias("ended_us")).where(F.col("event") == "join")
    return intervals.join(F.broadcast(runs), "run").select(
        "run",
        "topic",
        F.col("peer").alias("node"),
        F.col("time_us").alias("since_us"),
        F.coalesce(F.least("ended_us", "end_us"), "end_us").alias("until_us"),
    )
