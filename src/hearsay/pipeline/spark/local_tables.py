"""Small tables of the driver as DataFrames, and functions over Arrow batches: what PySpark leaves untyped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
