"""Units and meanings of columns as comments in Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hearsay.pipeline.output.tables import TableSchema


def commented(frame: DataFrame, table: TableSchema) -> DataFrame:
    """Return a DataFrame that has these columns with comments, which `DESCRIBE` of a view shows."""
    schema: Any = StructType.fromDDL(table.ddl)
    for field in schema:
        _, unit, meaning = table.columns[field.name]
        field.metadata = {"comment": f"{meaning} ({unit})" if unit else meaning}
    return frame.to(schema)
