"""Paths as Spark reads them: it takes some characters for patterns, a folder may have them in its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.pipeline.spark.local_tables import local_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATTERNS = frozenset("\\*?[]{}^,")


def literal(path: Path) -> str:
    """The path with its pattern characters escaped."""
    return "".join(f"\\{letter}" if letter in _PATTERNS else letter for letter in str(path))


def read_parquet(spark: SparkSession, ddl: str, paths: Sequence[Path]) -> DataFrame:
    """The rows of these files or folders; without any, an empty DataFrame."""
    return spark.read.schema(ddl).parquet(*map(literal, paths)) if paths else local_lines(spark, [], ddl)
