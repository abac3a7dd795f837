"""Trace rows as DataFrames, for the metrics written in Spark's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.spark.local_tables import local_lines
from hearsay.pipeline.spark.parquet_paths import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_DDL = (
    "time_us bigint, event string, kind string, peer int, remote int, topic int, message bigint, hops smallint, "
    "bytes bigint, count int, via string, delay_us bigint, reason string"
)
ARRIVED_NOT = ("lost", "unreachable")
VERDICTS = ("rejected", "ignored")
"""Reasons of a reject that are an application's verdict: the message is not to be taken."""


def trace_rows(spark: SparkSession, runs: Sequence[RunFacts], trace_class: str) -> DataFrame:
    """The rows of a class of all runs, with the column `run`."""
    frames = [_rows_of(spark, run, trace_class) for run in runs]
    return reduce(lambda one, other: one.unionByName(other), frames)


def run_table(spark: SparkSession, runs: Sequence[RunFacts]) -> DataFrame:
    """One line per run: when it starts and ends, how long the window of a message is, what an uplink carries."""
    lines = [
        (run.name, run.router, run.start_us, run.end_us, run.window_us, run.uplink_bits_per_s, run.manifest.complete)
        for run in runs
    ]
    times = "start_us bigint, end_us bigint, window_us bigint"
    return local_lines(
        spark, lines, f"run string, router string, {times}, uplink_bits_per_s bigint, complete boolean"
    )


def _rows_of(spark: SparkSession, run: RunFacts, trace_class: str) -> DataFrame:
    return rows_of_files(spark, run, [file.name for file in run.files(trace_class)])


def rows_of_files(spark: SparkSession, run: RunFacts, names: Sequence[str]) -> DataFrame:
    """The rows of these files of a run, with the column `run`."""
    rows = read_parquet(spark, ROWS_DDL, [run.path / name for name in names])
    return rows.withColumn("run", F.lit(run.name))
