"""Result tables as they are read again: Arrow tables with the declared columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hearsay.pipeline.output.outputs import SUCCESS
from hearsay.pipeline.output.tables import METRICS_FOLDER, MetricTable
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.language.errors import RunFolderError

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


def arrow_schema(table: MetricTable) -> Any:
    """The Arrow schema of a result table."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in table.columns])


def stored_files(output: Path, table: MetricTable) -> list[Path]:
    """The files of a table that was written to its end; none of another."""
    folder = output / METRICS_FOLDER / table.name
    return sorted(folder.glob("*.parquet")) if (folder / SUCCESS).is_file() else []


def read_table(output: Path, table: MetricTable) -> Any:
    """A stored table as an Arrow table."""
    files = stored_files(output, table)
    if not files:
        raise RunFolderError(f"{output}: has no table {table.name}; run hearsay analyze {output} first")
    try:
        return pa.concat_tables([read_plain(file, table.names).select(list(table.names)) for file in files])
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{files[0].parent}: cannot be read ({first})") from error
