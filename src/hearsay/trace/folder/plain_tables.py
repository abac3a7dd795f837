"""Tables that anybody may have made, with plain texts: what repeats is written out, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import BASE_BYTES, open_foreign, pa

BYTES_PER_ROW = 256


def read_plain(path: Path, columns: Sequence[str] | None = None) -> Any:
    """The columns of the file (None: all) as an Arrow table; one of `DAMAGED` if they cannot be read."""
    return plain(open_foreign(path, columns).read(columns))


def plain(table: Any) -> Any:
    """The table with texts in place of dictionaries; ValueError if they are too long."""
    most = BASE_BYTES + BYTES_PER_ROW * table.num_rows
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            lengths = (compute.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
            size = sum(compute.sum(each).as_py() or 0 for each in lengths)
            if size > most:
                raise ValueError(f"{size} bytes of text in {table.num_rows} rows; at most {most} are read")
            table = table.set_column(place, table.schema.names[place], column.cast(pa.string()))
    return table
