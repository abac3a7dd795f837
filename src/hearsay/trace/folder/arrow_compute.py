"""Arrow's functions over columns, and functions that read foreign tables with plain texts.

`pyarrow.compute` loads slowly, and simulations and live nodes do not need it. So no other module of `hearsay.trace`
imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute

from hearsay.trace.folder.foreign_parquet import BASE_BYTES, open_foreign, pa

compute: Any = pyarrow.compute

BYTES_PER_ROW = 256


def read_plain(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return columns (None: all) of a Parquet file as an Arrow table, with plain texts in place of dictionary arrays.

    Raises one of the errors in `hearsay.trace.folder.arrow.DAMAGED` if the columns cannot be read.
    """
    return plain(open_foreign(path, columns).read(columns, use_threads=False))


def plain(table: Any) -> Any:
    """Return an Arrow table with plain texts in place of dictionary arrays.

    Raises `ValueError` if the texts need too much memory.
    """
    most = BASE_BYTES + BYTES_PER_ROW * table.num_rows
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            lengths = (compute.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
            size = sum(compute.sum(each).as_py() or 0 for each in lengths)
            if size > most:
                raise ValueError(f"{size} bytes of text in {table.num_rows} rows; at most {most} are read")
            table = table.set_column(place, table.schema.names[place], column.cast(pa.string()))
    return table
