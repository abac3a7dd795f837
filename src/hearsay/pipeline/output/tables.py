"""The result tables and the DataFrames of a trace: the columns that `tables.toml` declares, and readers of published
tables.

`docs/reference/metrics.md` says how each figure is computed. Rules:

* `run` is the name of the run. `topic` is the number of the topic; null stands for the run as a whole.
* A point of time is an integer in microseconds of the run's clock (`…_us`), or in seconds after the start of the run
  (`second`). A figure with the unit `0…1` is between 0 and 1; a figure with the unit `ratio` may be above 1.
* The mean, ratio or percentile of nothing is null, not NaN.
* A table is written whole or not at all, as `metrics/NAME/*.parquet`, and a manifest names its files (`table_store`).
* Readers return Arrow tables with the declared columns. The manifest with the largest number names the files of the
  tables; other files are ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.folder.manifest import RunFolderError, read_object

METRICS_FOLDER = "metrics"
MESH_LAYER, NEIGHBOURS_LAYER, TREE_LAYER = "mesh", "neighbours", "tree"
"""The layers of links in tables `mesh`, `degrees` and `mesh_links`. Meshsub and gossipsub have a mesh; episub has
neighbours and a tree."""
_MANIFEST = re.compile(rf"{METRICS_FOLDER}/manifest-([1-9][0-9]{{0,17}})\.json")
_TRIES = 3
_TYPES = {
    "string": pa.string(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


class ColumnFacts(NamedTuple):
    """The Spark type, the unit and the meaning of a column. The unit is empty if the column has none."""

    kind: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The title of a table, and its columns in order, by name."""

    title: str
    columns: Mapping[str, ColumnFacts]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {column.kind}" for name, column in self.columns.items())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)


def _schema(table: Mapping[str, Any]) -> TableSchema:
    own = {name: ColumnFacts(*facts) for name, facts in table.items() if name not in ("title", "columns")}
    return TableSchema(table["title"], {name: (COMMON | own)[name] for name in table["columns"].split()})


_DATA: dict[str, dict[str, Any]] = tomllib.loads(
    files("hearsay.pipeline.output").joinpath("tables.toml").read_text(encoding="utf-8")
)
COMMON = {name: ColumnFacts(*facts) for name, facts in _DATA["common"].items()}
TABLES = {name: _schema(table) for name, table in _DATA["tables"].items()}
FRAMES = {name: _schema(frame) for name, frame in _DATA["frames"].items()}
"""The columns of the DataFrames of a trace, by name. `rows` stands for the DataFrames of all trace classes."""


def arrow_schema(table: TableSchema) -> Any:
    """Return the Arrow schema of a table."""
    return pa.schema([(name, _TYPES[column.kind]) for name, column in table.columns.items()])


def manifest_number(name: str) -> int:
    """Return the number of the manifest of tables with this path below the output; 0 for other files."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else 0


def stored_files(output: Path, table: str) -> list[Path]:
    """Return the files of a table in an output; none if the table is not published.

    Raise `RunFolderError` if the manifest cannot be read.
    """
    for _ in range(_TRIES):
        manifests = [f"{METRICS_FOLDER}/{file.name}" for file in (output / METRICS_FOLDER).glob("manifest-*.json")]
        latest = max(manifests, key=manifest_number, default="")
        if not manifest_number(latest):
            break
        try:
            names: Any = read_object(output / latest)["tables"].get(table, [])
            return [output / METRICS_FOLDER / table / Path(name).name for name in names]
        except FileNotFoundError:
            continue  # a later analysis has replaced this manifest
        except OSError as error:
            raise RunFolderError(f"{output / latest}: cannot be read ({error.strerror or error})") from None
        except (LookupError, TypeError, AttributeError):
            raise RunFolderError(f"{output / latest}: is not a manifest of tables") from None
    return []


def read_table(output: Path, table: str) -> Any:
    """Return a published table as an Arrow table. Raise `RunFolderError` if it is missing or cannot be read."""
    files = stored_files(output, table)
    if not files:
        raise RunFolderError(f"{output}: has no table {table}; run hearsay analyze {output} first")
    try:
        names = TABLES[table].names
        return pa.concat_tables([read_plain(file, names).select(list(names)) for file in files])
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{files[0].parent}: cannot be read ({first})") from error
