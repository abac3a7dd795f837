"""The writer of a run's trace, which writes rows into files in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from types import TracebackType

import numpy as np

from hearsay.trace.folder.arrow import spanning_messages
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace
from hearsay.trace.language.columns import ColumnBuilder, Columns, copy_places, empty_columns
from hearsay.trace.language.order import Indices, order_of
from hearsay.trace.language.rows import Rows, TraceDigest
from hearsay.trace.language.schema import CLASSES, NONE, WIDTH, Column, PartKind, TraceEvent, class_of
from hearsay.trace.write.part_files import Lane, PartFiles


class ClassRows:
    """The rows of one class. Waiting rows are sorted by time, and the earliest are written as row groups of parts."""

    def __init__(
        self,
        run_dir: Path,
        trace_class: str,
        row_group_rows: int,
        target_file_bytes: int,
        lane: Lane,
        groups: Iterator[Columns],
    ) -> None:
        """Create the writer of a class. `groups` yields columns for a row group, which the lane no longer reads."""
        self.parts = PartFiles(run_dir, trace_class, lane=lane, full_bytes=target_file_bytes)
        self._group_rows = row_group_rows
        self._groups = groups
        self._capacity = row_group_rows + (row_group_rows + 1) // 2
        self._waiting = empty_columns(self._capacity)
        self._filled = 0

    def add(self, columns: Columns, places: Indices) -> None:
        """Add the rows at these indices of `columns`."""
        while len(places):
            taken = places[: self._capacity - self._filled]
            copy_places(columns, taken, self._waiting, self._filled)
            self._filled += len(taken)
            places = places[len(taken) :]
            if self._filled == self._capacity:
                self._write_earliest()

    def finish(self) -> None:
        while self._filled:
            self._write_earliest()
        self.parts.finish()

    def rotate(self, before_us: int) -> None:
        """Write all rows before `before_us`, and close the part."""
        order = self._by_time()
        early = int(np.count_nonzero(self._waiting[Column.TIME_US][order] < before_us))
        for start in range(0, early, self._group_rows):
            self._write(order[start : min(start + self._group_rows, early)])
        self._keep(order[early:])
        self.parts.finish()

    def _write_earliest(self) -> None:
        order = self._by_time()
        self._write(order[: self._group_rows])
        self._keep(order[self._group_rows :])

    def _by_time(self) -> Indices:
        return order_of([self._waiting[Column.TIME_US][: self._filled]])

    def _write(self, order: Indices) -> None:
        group = next(self._groups)
        copy_places(self._waiting, order, group)
        self.parts.write_group([column[: len(order)] for column in group])

    def _keep(self, order: Indices) -> None:
        """Keep only the waiting rows at these indices, in this order."""
        for column in self._waiting:
            column[: len(order)] = column[order]
        self._filled = len(order)


_BLOCK = 16_384
_BLOCKS_AHEAD = 12
"""Blocks of rows that may wait for sorting, 20 MB."""
_CLASS_TABLE = np.array(
    [[CLASSES.index(class_of(event, kind)) for kind in (*PartKind, NONE)] for event in TraceEvent], dtype=np.int8
)
"""The index of a class in `CLASSES`, by event and kind; kind -1 (NONE) selects the last column."""


class TraceWriter:
    """Writes the trace of one run into a run folder. As a context manager it aborts unless `close` was called.

    With `rotate_us`, parts are closed after this time of the trace. With `background`, rows are sorted and written on
    threads. `known_hash` returns the trace hash if another part of the program computes it.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        row_group_rows: int = 250_000,
        target_file_bytes: int = 64_000_000,
        rotate_us: int | None = None,
        background: bool = False,
        known_hash: Callable[[], str] | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._rotate_us = rotate_us
        self._rotated_us: int | None = None
        self._digest = TraceDigest()
        self._known_hash = known_hash
        self._rows = 0
        self._open = True
        self._sorting = Lane("sort", _BLOCKS_AHEAD if background else 0)
        self._writing = Lane("write", 1 if background else 0)
        self._builder = ColumnBuilder(_BLOCK)
        groups = cycle([empty_columns(row_group_rows) for _ in range(self._writing.ahead + 1)])
        self._classes = [
            ClassRows(run_dir, name, row_group_rows, target_file_bytes, self._writing, groups) for name in CLASSES
        ]

    @property
    def files(self) -> tuple[TraceFile, ...]:
        """Return the finished files so far."""
        return tuple(file for each in self._classes for file in each.parts.finished)

    def add(self, rows: Rows) -> None:
        """Add rows, an array of shape (n, 13)."""
        if not self._open:
            raise ValueError("the trace writer is closed")
        if rows.ndim != 2 or rows.shape[1] != WIDTH or rows.dtype != np.int64:
            raise ValueError(f"expected int64 rows of {WIDTH} columns, got {rows.dtype} of shape {rows.shape}")
        try:
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                self._sorting.submit(partial(self._add_block, block.copy() if self._sorting.ahead else block))
        except BaseException:
            self.abort()
            raise

    def close(self) -> WrittenTrace:
        """Finish all files, and return their description."""
        if not self._open:
            raise ValueError("the trace writer is closed")
        try:
            self._sorting.finish()
            for each in self._classes:
                each.finish()
            self._writing.finish()
        except BaseException:
            self.abort()
            raise
        self._open = False
        self._end_lanes()
        return self.written()

    def written(self) -> WrittenTrace:
        """Return a description of the finished files; after `abort`, `rows` and `hash` still count all added rows."""
        trace_hash = self._digest.hex() if self._known_hash is None else self._known_hash()
        return WrittenTrace(self.files, self._rows, trace_hash, spanning_messages(self._run_dir, self.files))

    def abort(self) -> None:
        """Abort: remove unfinished files, and keep the finished ones."""
        self._open = False
        self._end_lanes()
        for each in self._classes:
            each.parts.discard()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.abort()

    def _end_lanes(self) -> None:
        self._sorting.close()
        self._writing.close()

    def _add_block(self, rows: Rows) -> None:
        columns = self._builder.build(rows)
        self._rows += len(rows)
        if self._known_hash is None:
            self._digest.add(rows)
        classes = _CLASS_TABLE[columns[Column.EVENT], columns[Column.KIND]]
        for index, each in enumerate(self._classes):
            each.add(columns, np.flatnonzero(classes == index))
        if self._rotate_us is not None:
            self._rotate_if_due(int(columns[Column.TIME_US].max()), self._rotate_us)

    def _rotate_if_due(self, now_us: int, every_us: int) -> None:
        if self._rotated_us is None:
            self._rotated_us = now_us
        elif now_us >= self._rotated_us + every_us:
            self._rotated_us = now_us
            for each in self._classes:
                each.rotate(now_us)
