"""The pipeline turns traces into result tables on Spark. Its command is `hearsay analyze`.

Programs get the rows of traces (`read`) and the tables (`Tables`) as DataFrames.

Words of this package:

* An *analysis* computes the result tables of one or several runs.
* A *figure* is a value in a result table.
* The *output* of a run is the folder into which an analysis writes the run's tables, in its subfolder `metrics`.
* A *store* is a file system that Hadoop can access, such as S3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hearsay.pipeline.rows import Trace, read
    from hearsay.pipeline.spark.java import java_home
    from hearsay.pipeline.tables import Tables

__all__ = ["Tables", "Trace", "java_home", "read"]
_PLACES = {"Tables": "tables", "Trace": "rows", "java_home": "spark.java", "read": "rows"}


def __getattr__(name: str) -> Any:
    """Return an exported name, and import its module at the first use.

    So a program without pyarrow can import the modules of this package that do not need pyarrow.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hearsay.pipeline.{_PLACES[name]}"), name)
