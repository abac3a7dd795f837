"""Traces of real networks: a data source for Spark, and their import as run folders."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def register(spark: Any) -> None:
    """Register `spark.read.format("hearsay")` in a session, whose tasks must be able to import this package."""
    spark.dataSource.register(import_module("hearsay.ingest.spark_import").TraceSource)
