"""Units and meanings of columns, as the page of the tables has them, and as comments of columns in Spark."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

COMMON = "common"


@cache
def described() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return unit and meaning by table (or `common`) and column."""
    return tomllib.loads(files("hearsay.pipeline.output").joinpath("columns.toml").read_text(encoding="utf-8"))


def commented(frame: DataFrame, table: str, ddl: str) -> DataFrame:
    """Return a DataFrame that has these columns with comments, which `DESCRIBE` of a view shows."""
    meanings = {**described()[COMMON], **described()[table]}
    schema: Any = StructType.fromDDL(ddl)
    for field in schema:
        unit, meaning = meanings[field.name]
        field.metadata = {"comment": f"{meaning} ({unit})" if unit else meaning}
    return frame.to(schema)
