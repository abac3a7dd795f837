"""Tasks in Python as one job of Spark, small tables as DataFrames, and paths as Spark reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def local_lines(spark: SparkSession, lines: Sequence[tuple[Any, ...]], ddl: str) -> DataFrame:
    """A DataFrame of a few lines."""
    return _untyped(spark).createDataFrame(list(lines), ddl)


def map_batches(rows: DataFrame, work: Callable[[Iterator[Any]], Iterator[Any]], ddl: str) -> DataFrame:
    """`work` on the Arrow batches of every partition."""
    return _untyped(rows).mapInArrow(work, ddl)


def _untyped(thing: Any) -> Any:
    return thing


_PATTERNS = frozenset("\\*?[]{}^,")


def literal(path: Path) -> str:
    """The path with its pattern characters escaped."""
    return "".join(f"\\{letter}" if letter in _PATTERNS else letter for letter in str(path))


def read_parquet(spark: SparkSession, ddl: str, paths: Sequence[Path]) -> DataFrame:
    """The rows of these files or folders; without any, an empty DataFrame."""
    return spark.read.schema(ddl).parquet(*map(literal, paths)) if paths else local_lines(spark, [], ddl)


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
