"""Small tables of the driver as DataFrames, by way of Arrow: plain Python lists would take a second per million."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow


def local_table(spark: SparkSession, columns: Mapping[str, Sequence[Any]], ddl: str) -> DataFrame:
    """A DataFrame with these columns and types."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    return spark.createDataFrame(table, ddl)
