"""Tasks in Python as one job of Spark: each number of a range is a task, what it makes comes back to the driver.

Where the driver is here, they are an RDD: Spark plans no query for them, which takes longer than small tasks. Spark
Connect knows queries alone. Tasks that read few rows together are done by the driver itself, in less time than a job
takes to reach the workers and to come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow

from hearsay.pipeline.spark.local_tables import map_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pyarrow

Work = Callable[[int], Iterator[bytes]]


DONE_HERE_BELOW = 2_000_000
"""Rows that the tasks of a job read together."""


def made_by_tasks(spark: SparkSession, count: int, work: Work, rows: int | None = None) -> list[bytes]:
    """What `work` makes of each number below `count`, in their order; `rows` are what it reads for all of them, where
    that is known and is most of the work."""
    if not count or (rows is not None and rows < DONE_HERE_BELOW):
        return [made for number in range(count) for made in work(number)]
    if not _is_connect(spark):
        numbers: Any = spark.sparkContext.parallelize(range(count), count)
        return numbers.flatMap(work).collect()

    def of_batches(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for made in work(number):
                    yield pa.RecordBatch.from_arrays([pa.array([made], pa.binary())], names=["made"])

    found = map_batches(spark.range(0, count, 1, count), of_batches, "made binary").collect()
    return [bytes(row["made"]) for row in found]


def _is_connect(spark: SparkSession) -> bool:
    return ".connect." in type(spark).__module__
