"""How one typical message of each topic spread: the one whose median latency is the median of all.

Of a large network every n-th delivery in the order of time is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hearsay.pipeline.output.tables import SPREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_DELIVERIES = 1500


def typical_messages(messages: DataFrame) -> DataFrame:
    """One line per topic: (run, topic, message, publisher, published_us, delivered)."""
    measured = messages.where(F.col("p50_us").isNotNull())
    topic = Window.partitionBy("run", "topic")
    ranked = measured.select(
        "run",
        "topic",
        "message",
        "publisher",
        "published_us",
        "delivered",
        F.row_number().over(topic.orderBy("p50_us", "message")).alias("rank"),
        F.count("*").over(topic).alias("of"),
    )
    return ranked.where(F.col("rank") == F.expr("(of + 1) div 2")).drop("rank", "of")


def spread_table(rows: DataFrame, typical: DataFrame) -> DataFrame:
    """The table `spread` from rows of the class message and the typical messages."""
    deliveries = rows.where(F.col("event") == "deliver").select(
        "run", "message", F.col("peer").alias("node"), "remote", "time_us", "hops", "via"
    )
    spread = deliveries.join(F.broadcast(typical), ["run", "message"]).withColumns(
        {
            "after_us": F.col("time_us") - F.col("published_us"),
            "position": F.row_number().over(Window.partitionBy("run", "message").orderBy("time_us", "node")) - 1,
        }
    )
    # Real nodes say that they gave themselves what they published, and nothing of hops.
    own = (F.col("node") == F.col("publisher")) & (F.col("remote").isNull() | (F.col("remote") == F.col("node")))
    spread = spread.withColumns(
        {
            "remote": F.when(~F.coalesce(own, F.lit(False)), F.col("remote")),
            "hops": F.when(own, F.coalesce("hops", F.lit(0))).otherwise(F.col("hops")),
        }
    )
    step = F.greatest(F.lit(1), F.ceil(F.col("delivered") / SHOWN_DELIVERIES))
    return spread.where(F.col("position") % step == 0).select(
        *(F.col(name).cast(kind) for name, kind in SPREAD.columns)
    )
