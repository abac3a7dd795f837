"""Columns of a trace file as numpy arrays, read by the task that works on them.

Null is -1; codes of events, kinds and so on are the trace's own numbers. Only the columns asked for are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from hearsay.trace.columns import CODED
from hearsay.trace.schema import COLUMNS, NONE, Column

pa: Any = pyarrow
parquet: Any = pyarrow.parquet

Ints = NDArray[Any]
ColumnArrays = dict[Column, Ints]


class Unreadable(Exception):
    """A trace file that cannot be read; the message names the file."""


def read_columns(path: str, columns: Sequence[Column]) -> ColumnArrays:
    """These columns of the file at `path`."""
    names = [COLUMNS[column] for column in columns]
    coded = [COLUMNS[column] for column in columns if column in CODED]
    try:
        table = parquet.read_table(path, columns=names, use_threads=False, read_dictionary=coded, partitioning=None)
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unreadable(f"{path}: cannot be read ({str(error).partition(chr(10))[0]})") from None
    return {column: _values(column, table.column(COLUMNS[column]), path) for column in columns}


def _values(column: Column, chunked: Any, path: str) -> Ints:
    if column in CODED:
        pieces = [_codes(column, chunk, path) for chunk in chunked.chunks]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int8)
    filled = chunked.fill_null(NONE) if chunked.null_count else chunked
    return filled.to_numpy()


def _codes(column: Column, chunk: Any, path: str) -> Ints:
    names: list[str] = chunk.dictionary.to_pylist()
    known = {name: code for code, name in enumerate(CODED[column])}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Unreadable(f"{path}: unknown {COLUMNS[column]} {unknown[0]!r}; a newer version wrote it?")
    codes = np.array([known[name] for name in names] + [NONE], dtype=np.int8)
    indices = chunk.indices
    filled = indices.fill_null(len(names)) if indices.null_count else indices
    return codes[filled.to_numpy(zero_copy_only=False)]
