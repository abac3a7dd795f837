"""The Parquet form of the trace: rows as columns with the integer widths of the files, and tables of these columns.

Other modules of `trace` and `ingest` use pyarrow only through modules of this folder. Rules:

* A value that does not fit the width of its column is an error, and so is a code that has no name. Only rows of the
  class `score` may have `bytes` below -1: the bits of a float64.
* Rows are converted a few thousand at a time, so that they fit into the processor's cache. This is several times
  faster than a conversion column by column.
* The writer sorts columns, not rows, because columns take half as much memory.
* -1 stays -1 in columns. A table has null in its place, and a code as its name (in a dictionary with indices of one
  byte). So any Parquet tool can read a trace without this program.
* Columns of numbers that often repeat from row to row (`_PLAIN`) have the encoding PLAIN, and zstd compresses them.
  Other columns of numbers have the encoding DELTA_BINARY_PACKED. zstd also compresses these, except the columns in
  `_PACKED_ENOUGH`: it cannot make their random numbers smaller. `docs/reference/trace.md` has the measurements. Newer
  encodings are avoided, because some readers do not support them.
* Columns of codes have no statistics: the minimum of a few names is of no use, and takes more bytes than the column.
* Pages have checksums, which are checked on reading. So a flipped bit in a page is an error, not a different row.
* pyarrow ships no types, so `foreign_parquet` gives its modules the type `Any`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.durable import DurableFile
from hearsay.trace.folder.foreign_parquet import open_foreign, pa, parquet
from hearsay.trace.folder.manifest import RunFolderError, TraceFile
from hearsay.trace.language.rows import Indices, Rows
from hearsay.trace.language.schema import CODED, COLUMNS, FORMS, NONE, WIDTH, Column, wire_name

Columns: TypeAlias = list[NDArray[np.signedinteger]]
"""One array for each column, in the order of `schema.COLUMNS`. All arrays have the same length."""

_BITS = {Column.HOPS: 16, **dict.fromkeys((Column.PEER, Column.REMOTE, Column.TOPIC, Column.COUNT), 32)}
DTYPES = tuple(np.dtype(f"int{8 if column in CODED else _BITS.get(column, 64)}") for column in Column)

CODE_NAMES = {column: tuple(map(wire_name, codes)) for column, codes in CODED.items()}
"""The names of the codes 0, 1, … of each column of codes."""

_SCORES = [int(event) for event, form in FORMS.items() if form.trace_class == "score"]

_BLOCK = 4096

DAMAGED: tuple[type[Exception], ...] = (OSError, pa.ArrowException, ValueError, LookupError)
"""The errors that reading a file may raise if it is not Parquet, or lacks the expected columns or codes."""

Table = Any
ParquetWriter = Any
ParquetFile = Any
_VALUES_AT_ONCE = 16_384
"""Number of values that the Parquet writer encodes in one batch. With its default, 1024, columns of codes take twice
the time."""
_ROWS_AT_ONCE = 8192
_NUMBERS = [COLUMNS[column] for column in Column if column not in CODED]
_PLAIN = ("peer", "topic", "count")
_PACKED_ENOUGH = ("remote", "delay_us")


def _limits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lowest = np.full(WIDTH, NONE, dtype=np.int64)
    highest = np.array([np.iinfo(dtype).max for dtype in DTYPES], dtype=np.int64)
    for column, codes in CODED.items():
        highest[column] = len(codes) - 1
    lowest[Column.BYTES] = np.iinfo(np.int64).min
    lowest[Column.EVENT] = 0
    lowest[Column.TIME_US] = 0
    return lowest, highest


_LOWEST, _HIGHEST = _limits()


class ColumnBuilder:
    """A converter of rows to columns. It uses the same arrays again, because new arrays take more time than the
    conversion.
    """

    __slots__ = ("_columns", "_transposed")

    def __init__(self, capacity: int) -> None:
        self._transposed = np.empty((WIDTH, min(_BLOCK, capacity)), dtype=np.int64)
        self._columns = empty_columns(capacity)

    def build(self, rows: Rows) -> Columns:
        """Return the columns of at most `capacity` rows. The next call overwrites the returned arrays.

        Raises `ValueError` if a value does not fit its column.
        """
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            transposed = self._transposed[:, : len(block)]
            transposed[:] = block.T
            _check(transposed)
            for column, values in zip(self._columns, transposed, strict=True):
                column[start : start + len(block)] = values
        return [column[: len(rows)] for column in self._columns]


def empty_columns(size: int) -> Columns:
    """Return columns of `size` rows, whose values are not set."""
    return [np.empty(size, dtype=dtype) for dtype in DTYPES]


def copy_places(source: Columns, places: Indices, target: Columns, first: int = 0) -> None:
    """Copy those rows of `source` whose indices are `places` to the rows of `target` from `first` on."""
    for values, copied in zip(source, target, strict=True):
        np.take(values, places, out=copied[first : first + len(places)], mode="clip")


def _check(block: NDArray[np.int64]) -> None:
    """Raise `ValueError` if a value does not fit its column. `block` is transposed: its first index is a column."""
    lowest = block.min(axis=1)
    bad = (lowest < _LOWEST) | (block.max(axis=1) > _HIGHEST)
    if bad.any():
        column = int(np.flatnonzero(bad)[0])
        _refuse(block, column, (block[column] < _LOWEST[column]) | (block[column] > _HIGHEST[column]))
    if lowest[Column.BYTES] < NONE:
        below = (block[Column.BYTES] < NONE) & ~np.isin(block[Column.EVENT], _SCORES)
        if below.any():
            _refuse(block, Column.BYTES, below)


def _refuse(block: NDArray[np.int64], column: int, outside: NDArray[np.bool_]) -> NoReturn:
    row = [int(value) for value in block[:, np.flatnonzero(outside)[0]]]
    raise ValueError(f"trace row {row}: {Column(column).name.lower()} {row[column]} is out of range")


def rows_of(columns: Columns) -> Rows:
    """Return the rows of these columns."""
    size = len(columns[0])
    rows = np.empty((size, WIDTH), dtype=np.int64)
    for start in range(0, size, _BLOCK):
        for index, column in enumerate(columns):
            rows[start : start + _BLOCK, index] = column[start : start + _BLOCK]
    return rows


def use_system_allocator() -> None:
    """Make Arrow allocate memory from the C library. Arrow's own pool never returns freed memory to the system, so
    the memory of a long-running process would stay large.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def _names_of(column: Column) -> Any:
    """Return the names of a column's codes as an Arrow array. `pa.array` would import pandas, if installed."""
    names = [name.encode() for name in CODE_NAMES[column]]
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


def table_of(columns: Columns) -> Table:
    """Return an Arrow table of all columns of a trace, with null for -1."""
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
    """Return a Parquet writer of trace tables. Each call of its `write_table` adds a row group."""
    return parquet.ParquetWriter(
        file,
        _SCHEMA,
        compression={name: "none" if name in _PACKED_ENOUGH else "zstd" for name in COLUMNS},
        use_dictionary=[COLUMNS[column] for column in CODED],
        column_encoding={name: "PLAIN" if name in _PLAIN else "DELTA_BINARY_PACKED" for name in _NUMBERS},
        write_statistics=_NUMBERS,
        write_batch_size=_VALUES_AT_ONCE,
        write_page_checksum=True,
    )


def open_trace_file(path: Path) -> ParquetFile:
    """Open a trace file. Raises `RunFolderError` if it is not Parquet with the columns of a trace."""
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
    """Return these columns of the row group with the number `group`, with -1 for null.

    Raises `RunFolderError`, which names `path`, if the row group is damaged or has an unknown code.
    """
    try:
        table = file.read_row_group(group, columns=[COLUMNS[column] for column in columns], use_threads=False)
        return [_values_of(column, table.column(COLUMNS[column]), path) for column in columns]
    except DAMAGED as error:
        raise RunFolderError(f"{path}: row group {group} is damaged ({_first_line(error)})") from error


def spanning_messages(run: Path, files: Iterable[TraceFile]) -> tuple[int, ...]:
    """Return the numbers of the messages that have rows in more than one of these files of a run."""
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
        return CODE_NAMES[column].index(name)
    except ValueError:
        raise RunFolderError(f"{path}: unknown {COLUMNS[column]} {name!r:.80}; is it of a newer version?") from None


def write_batches(file: DurableFile, schema: Any, batches: Iterable[Any]) -> None:
    """Write the record batches of a table into `file`, as Parquet."""
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_table(path: Path, numbers: Sequence[str] = (), texts: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return columns of a small table, which another program may have written, as lists with None for null.

    `numbers` are the names of the wanted columns of integers, `texts` those of the wanted columns of texts. If both
    are empty, all columns of integers and of texts are returned. Raises `RunFolderError` if the file cannot be read,
    or if a wanted column is missing or has values of another type.
    """
    try:
        file = open_foreign(path, [*numbers, *texts] or None)
        have: Any = file.schema_arrow
        if not numbers and not texts:
            numbers = [field.name for field in have if pa.types.is_integer(field.type)]
            texts = [field.name for field in have if pa.types.is_dictionary(field.type)]
        for name in (*numbers, *texts):
            _require_type(have, name, name in numbers)
        columns: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False):
            for name, values in columns.items():
                column = batch.column(name)
                values += column.cast(pa.int64()).to_pylist() if name in numbers else _texts_of(column)
        return columns
    except DAMAGED as error:
        raise RunFolderError(f"{path}: not a readable Parquet file ({_first_line(error)})") from error


def _require_type(schema: Any, name: str, is_number: bool) -> None:
    if name not in schema.names:
        raise LookupError(f"it has no column {name!r}")
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_null(kind)
    if not (pa.types.is_integer(kind) if is_number else is_text):
        raise ValueError(f"column {name} holds {str(kind)[:40]}, not {'whole numbers' if is_number else 'texts'}")


def _texts_of(array: Any) -> list[str | None]:
    """Return the texts of a dictionary array. Equal texts are one object, so a repeated text takes little memory."""
    names: list[str | None] = [*array.dictionary.to_pylist(), None]
    return [names[place] for place in array.indices.fill_null(len(names) - 1).to_pylist()]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
