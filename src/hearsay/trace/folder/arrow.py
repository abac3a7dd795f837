"""The Parquet form of the trace. Other modules use pyarrow only through modules of this folder.

Rules:

* -1 is written as null, and codes as strings (by dictionaries with indices of one byte), so that any Parquet tool
  reads a trace without this program.
* Codes have dictionaries. Columns of numbers that repeat from row to row are PLAIN, and zstd compresses them. Columns
  of sorted or small numbers are DELTA_BINARY_PACKED; those of random numbers among them (`_PACKED_ENOUGH`) are not
  compressed again, since zstd would gain nothing. `docs/reference/trace.md` has the figures. Newer encodings are
  avoided, since some readers lack them.
* Columns of codes have no statistics: the minimum of a few names is of no use, and takes more bytes than the column.
* Pages have checksums, which are checked on reading: a flipped bit in the rows is an error, not another row.
* pyarrow ships no types, so its modules are `Any` here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.durable import DurableFile
from hearsay.trace.folder.foreign_parquet import open_foreign, pa, parquet
from hearsay.trace.folder.manifest import TraceFile
from hearsay.trace.language.columns import CODED, DTYPES, Columns
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import COLUMNS, NONE, Column

DAMAGED: tuple[type[Exception], ...] = (OSError, pa.ArrowException, ValueError, LookupError)
"""Errors from bytes that are not Parquet, or that lack the expected columns and codes."""

Table = Any
ParquetWriter = Any
ParquetFile = Any


def share_the_heap() -> None:
    """Allocate from the C library. Arrow's own pool would keep freed memory in a process that runs for long."""
    pa.set_memory_pool(pa.system_memory_pool())


def _names_of(column: Column) -> Any:
    """Return the names of a column's codes as an Arrow array. `pa.array` would import pandas if it is installed."""
    names = [name.encode() for name in CODED[column]]
    ends = np.cumsum([0, *map(len, names)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(names), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(names))])


_NAMES = {column: _names_of(column) for column in CODED}
_SCHEMA = pa.schema(
    [
        pa.field(
            name,
            pa.dictionary(pa.int8(), pa.string()) if column in CODED else pa.from_numpy_dtype(DTYPES[column]),
            nullable=column not in (Column.TIME_US, Column.EVENT),
        )
        for column, name in zip(Column, COLUMNS, strict=True)
    ]
)
_VALUES_AT_ONCE = 16_384
"""Values per batch. With the library's default, 1024, columns of codes would cost twice as much."""
_ENCODINGS = {
    "time_us": "DELTA_BINARY_PACKED",
    "peer": "PLAIN",
    "remote": "DELTA_BINARY_PACKED",
    "topic": "PLAIN",
    "message": "DELTA_BINARY_PACKED",
    "hops": "DELTA_BINARY_PACKED",
    "bytes": "DELTA_BINARY_PACKED",
    "count": "PLAIN",
    "delay_us": "DELTA_BINARY_PACKED",
}
"""Encodings of the columns that are not codes."""
_ROWS_AT_ONCE = 8192
_PACKED_ENOUGH = ("remote", "delay_us")


def table_of(columns: Columns) -> Table:
    """Return an Arrow table of these columns, with null for -1."""
    arrays = [_array_of(Column(index), values) for index, values in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _array_of(column: Column, values: NDArray[np.signedinteger]) -> Any:
    present = values != NONE
    missing = len(values) - int(np.count_nonzero(present))
    bits = pa.py_buffer(np.packbits(present, bitorder="little")) if missing else None
    kind = pa.from_numpy_dtype(values.dtype)
    array = pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)], missing)
    return pa.DictionaryArray.from_arrays(array, _NAMES[column], safe=False) if column in CODED else array


def open_writer(file: DurableFile) -> ParquetWriter:
    """Return a writer of trace tables; `write_table` adds a row group."""
    return parquet.ParquetWriter(
        file,
        _SCHEMA,
        compression={name: "none" if name in _PACKED_ENOUGH else "zstd" for name in COLUMNS},
        use_dictionary=[COLUMNS[column] for column in CODED],
        column_encoding=_ENCODINGS,
        write_statistics=[name for column, name in zip(Column, COLUMNS, strict=True) if column not in CODED],
        write_batch_size=_VALUES_AT_ONCE,
        write_page_checksum=True,
    )


def open_trace_file(path: Path) -> ParquetFile:
    """Open a trace file, and check its columns."""
    try:
        file = open_foreign(path)
        schema: Any = file.schema_arrow
    except DAMAGED as error:
        raise RunFolderError(f"{path}: not a readable Parquet file ({_first_line(error)})") from error
    if tuple(schema.names) != COLUMNS:
        raise RunFolderError(f"{path}: not a trace file (its columns are {', '.join(schema.names):.200})")
    for column, field in zip(Column, schema, strict=True):
        is_right = pa.types.is_dictionary if column in CODED else pa.types.is_signed_integer
        if not is_right(field.type):
            raise RunFolderError(f"{path}: not a trace file (column {field.name} holds {field.type!s:.40})")
    return file


def read_group(file: ParquetFile, group: int, path: Path, columns: Sequence[Column] = tuple(Column)) -> Columns:
    """Return the columns of one row group, with -1 for null."""
    try:
        table = file.read_row_group(group, columns=[COLUMNS[column] for column in columns], use_threads=False)
        return [_values_of(column, table.column(COLUMNS[column]), path) for column in columns]
    except DAMAGED as error:
        raise RunFolderError(f"{path}: row group {group} is damaged ({_first_line(error)})") from error


def spanning_messages(run: Path, files: Iterable[TraceFile]) -> tuple[int, ...]:
    """Return the numbers of the messages with rows in more than one of these files of a run."""
    names = [file.name for file in files if file.trace_class == "message"]
    messages: list[NDArray[np.signedinteger]] = [np.empty(0, dtype=np.int64)]
    for name in names if len(names) > 1 else ():
        file = open_trace_file(run / name)
        groups = range(file.num_row_groups)
        found = [np.unique(read_group(file, group, run / name, (Column.MESSAGE,))[0]) for group in groups]
        messages.append(np.unique(np.concatenate(found)))
    present, times = np.unique(np.concatenate(messages), return_counts=True)
    return tuple(present[(times > 1) & (present != NONE)].tolist())


def _values_of(column: Column, chunked: Any, path: Path) -> NDArray[np.signedinteger]:
    if column not in CODED:
        return chunked.fill_null(NONE).to_numpy()
    pieces = [np.empty(0, dtype=np.int8)]
    for chunk in chunked.chunks:
        names: list[str] = chunk.dictionary.to_pylist()
        codes = np.array([_code_of(column, name, path) for name in names] + [NONE], dtype=np.int8)
        pieces.append(codes[chunk.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)])
    return np.concatenate(pieces)


def _code_of(column: Column, name: str, path: Path) -> int:
    try:
        return CODED[column].index(name)
    except ValueError:
        raise RunFolderError(f"{path}: unknown {COLUMNS[column]} {name!r:.80}; is it of a newer version?") from None


def write_batches(file: DurableFile, schema: Any, batches: Iterable[Any]) -> None:
    """Write a table, such as a dictionary, as a Parquet file."""
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_table(path: Path, numbers: Sequence[str] = (), texts: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return columns of a small table of any origin as lists of integers or texts, with None for null.

    If neither `numbers` nor `texts` are named, all columns of integers and all texts with dictionaries are returned.
    """
    try:
        if not numbers and not texts:
            file = open_foreign(path)
            numbers = [field.name for field in file.schema_arrow if pa.types.is_integer(field.type)]
            texts = [field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)]
        else:
            file = open_foreign(path, [*numbers, *texts])
        have: Any = file.schema_arrow
        for name in (*numbers, *texts):
            _require_type(have, name, name in numbers)
        columns: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False):
            for name in columns:
                columns[name] += _numbers_of(batch.column(name)) if name in numbers else _texts_of(batch.column(name))
        return columns
    except DAMAGED as error:
        raise RunFolderError(f"{path}: not a readable Parquet file ({_first_line(error)})") from error


def _require_type(schema: Any, name: str, is_number: bool) -> None:
    if name not in schema.names:
        raise LookupError(f"has no column {name}")
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_null(kind)
    if not (pa.types.is_integer(kind) if is_number else is_text):
        raise ValueError(f"column {name} holds {str(kind)[:40]}, not {'whole numbers' if is_number else 'texts'}")


def _numbers_of(array: Any) -> list[int | None]:
    return array.cast(pa.int64()).to_pylist()


def _texts_of(array: Any) -> list[str | None]:
    """Return the texts; equal ones are one object."""
    names: list[str | None] = [*array.dictionary.to_pylist(), None]
    return [names[place] for place in array.indices.fill_null(len(names) - 1).to_pylist()]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
