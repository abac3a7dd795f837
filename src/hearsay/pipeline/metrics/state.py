"""Simplicity: how much a node keeps, over the nodes sampled at a time.

state rows of one time: 10, 20 and 60 bytes   ->   nodes 3, bytes_mean 30, bytes_max 60
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.output.tables import STATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def state_table(node_rows: DataFrame) -> DataFrame:
    samples = (
        node_rows.where(F.col("event") == "state")
        .groupBy("run", "time_us")
        .agg(
            F.count("*").alias("nodes"),
            F.avg("count").alias("entries_mean"),
            F.max("count").alias("entries_max"),
            F.avg("bytes").alias("bytes_mean"),
            F.max("bytes").alias("bytes_max"),
        )
    )
    return samples.select(*(F.col(name).cast(kind) for name, kind in STATE.columns))
