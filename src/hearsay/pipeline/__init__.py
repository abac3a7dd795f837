"""From traces to tables on Spark: `hearsay analyze`, and rows and tables as DataFrames for programs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hearsay.pipeline.rows import Trace, read
    from hearsay.pipeline.spark.java_home import java_home
    from hearsay.pipeline.tables import Tables

__all__ = ["Tables", "Trace", "java_home", "read"]
_PLACES = {"Tables": "tables", "Trace": "rows", "java_home": "spark.java_home", "read": "rows"}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used. Other modules of this package need no pyarrow."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hearsay.pipeline.{_PLACES[name]}"), name)
