"""Parquet files of unknown origin. A file is read only if it has few values and little unpacked data for its size."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from hearsay.foreign_files import open_regular

pa: Any = pyarrow
parquet: Any = pyarrow.parquet

MAX_FOOTER_BYTES = 1 << 20
BASE_VALUES = 1_000_000
BASE_BYTES = 64 << 20
PER_BYTE = 64
"""A file of n bytes may have `BASE_VALUES + n * PER_BYTE` values, and `BASE_BYTES + n * PER_BYTE` bytes of unpacked
pages. In files of this program, each of these numbers is at most 20 per byte."""

_FLAT_TYPES = {"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY"}
_HEADER_BYTES = (1 << 12, 1 << 22)
"""Numbers of bytes that are read for the header of a page.

The second is used if the header is longer than the first.
"""
_MAX_DEPTH = 12
_INTEGERS, _BINARY, _LIST, _STRUCT = (4, 5, 6), 8, 9, 12
"""Types in Thrift's compact protocol."""
_FIXED_BYTES = {1: 0, 2: 0, 3: 1, 7: 8}
"""The number of bytes of a value in a struct, by the number of its type (true, false, a byte, a double)."""
_UNPACKED, _PACKED = 2, 3
"""Field numbers in a page's header: the sizes of the page in bytes, without and with compression."""
_GROUPS, _CHUNKS, _ROWS, _ABOUT = 4, 1, 3, 3
"""Field numbers: of the row groups in the footer, of a group's columns and row count, and of a column's metadata."""
_VALUES, _LENGTH, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
"""Field numbers in a column's metadata: number of values, bytes in the file, offsets of data and dictionary pages."""
_PLAIN_CHUNK = set(range(1, 8))
"""Field numbers that an unencrypted column has in a row group. At an encrypted column, pyarrow aborts the process."""


def open_foreign(
    path: Path | str, columns: Collection[str] | None = None, groups: Collection[int] | None = None
) -> Any:
    """Open a file as a `ParquetFile`, to read these columns (None: all) of these row groups (None: all).

    Callers must read with `use_threads=False`: if a thread of Arrow still uses the file when Python ends, the process
    aborts. Raises `OSError`, `ValueError` or an Arrow error if the file is not Parquet, if the wanted columns need
    too much memory, or if one of them is not a column of plain numbers or texts.
    """
    source = open_regular(path)
    size = os.fstat(source.fileno()).st_size
    footer = _footer(source.fileno(), size)
    metadata: Any = parquet.read_metadata(source)
    every = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    # The nested name `a.b` belongs to the column `a`.
    names = None if columns is None else {name.partition(".")[0] for name in columns}
    wanted = [place for place, each in enumerate(every) if names is None or each.path.partition(".")[0] in names]
    for column in (every[place] for place in wanted):
        if column.path != column.name or column.max_repetition_level or column.physical_type not in _FLAT_TYPES:
            raise ValueError(f"column {column.path!r:.80} is not one of plain numbers or texts")
    values = 0
    chosen: list[dict[int, int]] = []
    try:
        for number, group in enumerate(footer[_GROUPS]):
            chunks = [chunk[_ABOUT] for chunk in group[_CHUNKS] if chunk.keys() <= _PLAIN_CHUNK]
            if len(chunks) != len(every) or any(chunks[place][_VALUES] != group[_ROWS] for place in wanted):
                raise ValueError("a row group with other columns than the file, or with columns of another length")
            if group[_ROWS] > 0 and (groups is None or number in groups):
                chosen += [chunks[place] for place in wanted]
            values += abs(group[_ROWS]) * len(wanted)
        require_at_most(values, "values", BASE_VALUES, size)
        _require_few_bytes(source.fileno(), chosen, size)
    except (LookupError, TypeError, AttributeError):
        raise ValueError("a malformed footer") from None
    texts = [column.path for column in every if column.physical_type == "BYTE_ARRAY"]
    return parquet.ParquetFile(
        source, metadata=metadata, read_dictionary=texts, pre_buffer=False, page_checksum_verification=True
    )


def require_at_most(amount: int, what: str, base: int, file_bytes: int) -> None:
    """Raise `ValueError` if `amount` is larger than `base + PER_BYTE * file_bytes`."""
    most = base + PER_BYTE * file_bytes
    if amount > most:
        raise ValueError(f"it has {amount:,} {what}, too many for its {file_bytes:,} bytes; the limit is {most:,}")


def _footer(descriptor: int, size: int) -> dict[int, Any]:
    length, magic = struct.unpack("<I4s", os.pread(descriptor, 8, size - 8)) if size > 8 else (0, b"")
    if magic != b"PAR1" or length > size - 8:
        raise ValueError("no Parquet footer at its end")
    if length > MAX_FOOTER_BYTES:
        raise ValueError(f"a footer of {length} bytes; at most {MAX_FOOTER_BYTES} are read")
    try:
        return _read_struct(os.pread(descriptor, length, size - 8 - length), 0, _MAX_DEPTH)[0]
    except IndexError:
        raise ValueError("a malformed footer") from None


def _require_few_bytes(descriptor: int, chunks: Iterable[dict[int, int]], file_bytes: int) -> None:
    unpacked = 0
    for chunk in chunks:
        at = min(chunk[_DATA_AT], chunk.get(_DICTIONARY_AT) or chunk[_DATA_AT])
        end = at + chunk[_LENGTH]
        if not 0 < at <= end <= file_bytes:
            raise ValueError("a column that lies outside of the file")
        while at < end:
            packed_page, unpacked_page, header = _page_sizes(descriptor, at)
            at += header + packed_page
            unpacked += unpacked_page
            require_at_most(unpacked, "unpacked bytes", BASE_BYTES, file_bytes)


def _page_sizes(descriptor: int, at: int) -> tuple[int, int, int]:
    """Return the compressed, the uncompressed and the header's size, in bytes, of the page at offset `at`."""
    for window in _HEADER_BYTES:
        with suppress(IndexError):
            fields, header = _read_struct(os.pread(descriptor, window, at), 0, _MAX_DEPTH)
            sizes = [size for size in (fields.get(_PACKED), fields.get(_UNPACKED)) if isinstance(size, int)]
            if len(sizes) == 2 and 0 <= min(sizes) <= max(sizes) < 1 << 31:
                return sizes[0], sizes[1], header
    raise ValueError(f"no page begins at byte {at}")


def _read_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields by number of the struct at offset `at` (Thrift's compact protocol), and the offset after it.

    A repeated field is an error, because readers differ in which of the values they use.
    """
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        step, kind = divmod(data[at], 16)
        number, at = (number + step, at + 1) if step else _read_integer(data, at + 1)
        if number in fields or not depth:
            raise ValueError("a page or footer with malformed fields")
        fields[number], at = _read_value(data, at, kind, depth, _FIXED_BYTES)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int, fixed: Mapping[int, int]) -> tuple[Any, int]:
    """Return the value at offset `at`, and the offset after it.

    Values of other types than integers, lists and structs are skipped: None is returned for them.
    """
    if kind in _INTEGERS:
        return _read_integer(data, at)
    if kind == _BINARY:
        length, at = _read_varint(data, at)
        return None, at + length
    if kind == _STRUCT:
        return _read_struct(data, at, depth - 1)
    if kind != _LIST:
        return None, at + fixed.get(kind, len(data))
    size, kind = divmod(data[at], 16)
    size, at = _read_varint(data, at + 1) if size == 15 else (size, at + 1)
    if not depth or size > len(data):
        raise ValueError("a page or footer with malformed fields")
    values: list[Any] = []
    for _ in range(size):
        value, at = _read_value(data, at, kind, depth - 1, _FIXED_BYTES | {1: 1, 2: 1})
        values.append(value)
    return values, at


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
