"""The result tables, and the DataFrames of a trace's rows: their columns, from `tables.toml`.

`docs/reference/metrics.md` says how each figure is computed. Rules:

* `run` is the name of the run, `topic` its number (null: the run as a whole), times are integer microseconds of the
  run's clock, ratios are between 0 and 1. A figure without anything to count is null, never NaN.
* A table is written whole or not at all, as `metrics/NAME/*.parquet`, and a manifest names its files (`table_store`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

METRICS_FOLDER = "metrics"

MESH_LAYER, NEIGHBOURS_LAYER, TREE_LAYER = "mesh", "neighbours", "tree"
"""The layers of links in `mesh`, `degrees` and `mesh_links`: a router has a mesh, or neighbours and a tree."""


class ColumnFacts(NamedTuple):
    """A column: its Spark type, unit and meaning."""

    kind: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table by name, in order."""

    title: str
    columns: Mapping[str, ColumnFacts]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {column.kind}" for name, column in self.columns.items())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)


_DATA: dict[str, dict[str, Any]] = tomllib.loads(
    files("hearsay.pipeline.output").joinpath("tables.toml").read_text(encoding="utf-8")
)
COMMON = {name: ColumnFacts(*facts) for name, facts in _DATA["common"].items()}


def _schema(table: Mapping[str, Any]) -> TableSchema:
    own = {name: ColumnFacts(*facts) for name, facts in table.items() if name not in ("title", "columns")}
    return TableSchema(table["title"], {name: (COMMON | own)[name] for name in table["columns"].split()})


TABLES = {name: _schema(table) for name, table in _DATA["tables"].items()}
FRAMES = {name: _schema(frame) for name, frame in _DATA["frames"].items()}
"""The columns of the DataFrames of a trace; `rows` are the columns of every trace class."""
