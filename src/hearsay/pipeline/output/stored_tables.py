"""Stored result tables, as Arrow tables with the declared columns.

The manifest with the largest number names their files; other files are ignored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, TableSchema
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.folder.manifest import read_object
from hearsay.trace.language.errors import RunFolderError

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


def arrow_schema(table: TableSchema) -> Any:
    """Return the Arrow schema of a table."""
    return pa.schema([(name, _TYPES[column.kind]) for name, column in table.columns.items()])


def number_of(name: str) -> int:
    """Return the number of a manifest of tables, by its path in the output; 0 for other files."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else 0


def stored_files(output: Path, table: str) -> list[Path]:
    """Return the files of a published table; none if it is not published."""
    for _ in range(_TRIES):
        manifests = [f"{METRICS_FOLDER}/{file.name}" for file in (output / METRICS_FOLDER).glob("manifest-*.json")]
        latest = max(manifests, key=number_of, default="")
        if not number_of(latest):
            break
        try:
            names: Any = read_object(output / latest)["tables"].get(table, [])
            return [output / METRICS_FOLDER / table / Path(name).name for name in names]
        except FileNotFoundError:
            continue  # a later analysis has replaced this manifest
        except (OSError, LookupError, TypeError, AttributeError):
            raise RunFolderError(f"{output / latest}: is not a manifest of tables") from None
    return []


def read_table(output: Path, table: str) -> Any:
    """Return a stored table as an Arrow table. Raises `RunFolderError` if there is no such table."""
    files = stored_files(output, table)
    if not files:
        raise RunFolderError(f"{output}: has no table {table}; run hearsay analyze {output} first")
    try:
        names = TABLES[table].names
        return pa.concat_tables([read_plain(file, names).select(list(names)) for file in files])
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{files[0].parent}: cannot be read ({first})") from error
