"""What tasks said of the files of large runs, added up by Spark: for more lines than one task shall hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.metrics.summed_parts import ADDED_UP, SUMS, SummedParts
from hearsay.pipeline.metrics.whole_files import AMOUNTS, PARTS_DDL
from hearsay.pipeline.spark.task_lists import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_up(spark: SparkSession, runs: Sequence[SummedParts], scratch: Path) -> None:
    """Add up the partial sums of these runs."""
    for run in runs:
        parts = read_parquet(spark, PARTS_DDL, [Path(file) for file in run.parts])
        amounts = [F.sum(F.get("amounts", F.lit(place))).alias(f"a{place}") for place in range(AMOUNTS)]
        summed = parts.where(F.col("what").isin(*ADDED_UP)).groupBy("what", "k0", "k1", "k2").agg(*amounts)
        numbered = summed.withColumn("part", F.lit(run.number))
        numbered.write.mode("append").partitionBy("what", "part").parquet(str(scratch / SUMS))
