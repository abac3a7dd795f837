"""Trace rows as DataFrames: of scores and peer exchange, which Spark groups by moment and by pair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.spark.parquet_paths import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_DDL = (
    "time_us bigint, event string, kind string, peer int, remote int, topic int, message bigint, hops smallint, "
    "bytes bigint, count int, via string, delay_us bigint, reason string"
)


def trace_rows(spark: SparkSession, runs: Sequence[RunFacts], trace_class: str) -> DataFrame:
    """The rows of a class of all runs, with the column `run`."""
    frames = [_rows_of(spark, run, trace_class) for run in runs]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _rows_of(spark: SparkSession, run: RunFacts, trace_class: str) -> DataFrame:
    rows = read_parquet(spark, ROWS_DDL, [run.path / file.name for file in run.files(trace_class)])
    return rows.withColumn("run", F.lit(run.name))
