"""Columns of a trace file as numpy arrays, and the rows of some events."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.folder.arrow import DAMAGED
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.language.columns import CODED, DTYPES
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import COLUMNS, NONE, Column, TraceEvent

Ints = NDArray[Any]
ColumnArrays = dict[Column, Ints]


class Unreadable(RunFolderError):
    """A trace file that cannot be read; the message names the file."""


def row_groups(path: str, columns: Sequence[Column]) -> Iterator[ColumnArrays]:
    """These columns of the file at `path`, group by group: memory that is used again is ten times as fast as new."""
    with _readable(path):
        file = _open(path, columns)
        for group in range(file.metadata.num_row_groups):
            yield _read(file, path, [group], columns)


def whole_messages(path: str, columns: Sequence[Column]) -> Iterator[ColumnArrays]:
    """As `row_groups`, for rows sorted by message: groups that share a message come together."""
    with _readable(path):
        file = _open(path, columns)
        for groups in _apart_by_message(file.metadata):
            yield _read(file, path, groups, columns)


def rows_of_messages(path: str, messages: Ints, columns: Sequence[Column]) -> Iterator[ColumnArrays]:
    """As `row_groups`, only rows of these messages; groups that by their statistics hold none are not read."""
    with _readable(path):
        file = _open(path, columns)
        for group in range(file.metadata.num_row_groups):
            first, last = _bounds_of(file.metadata, group, Column.MESSAGE)
            if first is None or ((messages >= first) & (messages <= last)).any():
                rows = _read(file, path, [group], columns)
                mine = np.isin(rows[Column.MESSAGE], messages)
                yield {column: values[mine] for column, values in rows.items()}


def rows_between(path: str, from_us: int, until_us: int, columns: Sequence[Column]) -> Iterator[ColumnArrays]:
    """As `row_groups`, only rows of these times, both included; groups that by their statistics hold none are not
    read."""
    with _readable(path):
        file = _open(path, columns)
        for group in range(file.metadata.num_row_groups):
            times = file.metadata.row_group(group).column(Column.TIME_US).statistics
            if times is None or not times.has_min_max or (times.min <= until_us and times.max >= from_us):
                rows = _read(file, path, [group], columns)
                mine = (rows[Column.TIME_US] >= from_us) & (rows[Column.TIME_US] <= until_us)
                yield {column: values[mine] for column, values in rows.items()}


def in_time(paths: Sequence[str], columns: Sequence[Column], since_us: int, until_us: int) -> Iterator[ColumnArrays]:
    """Rows from `since_us` until before `until_us`, sorted by time; those of a moment come together.

    What is held are the rows of a moment and the groups that reach into it.
    """
    groups: list[tuple[int, int, str, int]] = []
    for path in paths:
        with _readable(path):
            metadata = _open(path, columns, ()).metadata
            for group in range(metadata.num_row_groups):
                first, last = _bounds_of(metadata, group, Column.TIME_US)
                groups.append((since_us if first is None else first, until_us if last is None else last, path, group))
    groups = sorted(each for each in groups if each[0] < until_us and each[1] >= since_us)
    waiting: list[ColumnArrays] = []
    for place, (_, _, path, group) in enumerate(groups):
        with _readable(path):
            rows = _read(_open(path, columns, [group]), path, [group], columns)
        times = rows[Column.TIME_US]
        mine = (times >= since_us) & (times < until_us)
        waiting.append({column: values[mine] for column, values in rows.items()})
        begun = groups[place + 1][0] if place + 1 < len(groups) else until_us
        if any((rows[Column.TIME_US] < begun).any() for rows in waiting):
            joined = {column: np.concatenate([rows[column] for rows in waiting]) for column in columns}
            order = np.argsort(joined[Column.TIME_US], kind="stable")
            done = int(np.count_nonzero(joined[Column.TIME_US] < begun))
            yield {column: values[order[:done]] for column, values in joined.items()}
            waiting = [{column: values[order[done:]] for column, values in joined.items()}]


def read_columns(path: str, columns: Sequence[Column]) -> ColumnArrays:
    """These columns of the whole file."""
    with _readable(path):
        file = _open(path, columns)
        return _read(file, path, list(range(file.metadata.num_row_groups)), columns)


@contextmanager
def _readable(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Unreadable(f"{path}: is not there, and the run's manifest names it") from None
    except DAMAGED as error:
        raise Unreadable(f"{path}: cannot be read ({str(error).partition(chr(10))[0]})") from None


def _open(path: str, columns: Sequence[Column], groups: Sequence[int] | None = None) -> Any:
    return open_foreign(path, [COLUMNS[column] for column in columns], groups)


def _read(file: Any, path: str, groups: list[int], columns: Sequence[Column]) -> ColumnArrays:
    table = file.read_row_groups(groups, columns=[COLUMNS[column] for column in columns], use_threads=False)
    return {column: _values(column, table.column(COLUMNS[column]), path) for column in columns}


def _apart_by_message(metadata: Any) -> Iterator[list[int]]:
    """Runs of row groups such that no message is in two of them; all in one where the file does not say."""
    groups: list[int] = []
    last: int | None = None
    for group in range(metadata.num_row_groups):
        first, next_last = _bounds_of(metadata, group, Column.MESSAGE)
        if groups and last is not None and first is not None and last < first:
            yield groups
            groups = []
        groups.append(group)
        last = next_last
    if groups:
        yield groups


def _bounds_of(metadata: Any, group: int, column: Column) -> tuple[int | None, int | None]:
    """The least and the largest value in a row group, where the file says it of all its rows."""
    statistics = metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max or statistics.null_count:
        return None, None
    return statistics.min, statistics.max


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
        raise Unreadable(f"{path}: unknown {COLUMNS[column]} {unknown[0]!r:.80}; a newer version wrote it?")
    codes = np.array([known[name] for name in names] + [NONE], dtype=np.int8)
    indices = chunk.indices
    filled = indices.fill_null(len(names)) if indices.null_count else indices
    return codes[filled.to_numpy(zero_copy_only=False)]


def chosen_rows(
    run: RunFacts, trace_class: str, events: Sequence[TraceEvent], columns: Sequence[Column]
) -> ColumnArrays:
    """These columns, beside `event`, of the rows of these events. Null is -1, as in `kernels.columns`."""
    wanted = [Column.EVENT, *columns]
    pieces: list[ColumnArrays] = [{column: np.empty(0, dtype=DTYPES[column]) for column in wanted}]
    for file in run.files(trace_class):
        for rows in row_groups(str(run.path / file.name), wanted):
            mine = np.isin(rows[Column.EVENT], events)
            pieces.append({column: values[mine] for column, values in rows.items()})
    return {column: np.concatenate([piece[column] for piece in pieces]) for column in wanted}
