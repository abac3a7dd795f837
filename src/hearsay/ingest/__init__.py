"""Traces of real networks: a data source with which Spark reads them, and their import into run folders."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def register(spark: Any) -> None:
    """Register the data source `spark.read.format("hearsay")` in a session. Its tasks must be able to import
    `hearsay`."""
    spark.dataSource.register(import_module("hearsay.ingest.spark_import").TraceSource)
