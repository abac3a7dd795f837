"""The writer of a run's trace: it sorts rows by time and writes them into files, in bounded memory.

The files of one class of rows (`part-00000.parquet`, …) are called parts. Two queues run tasks in order: one sorts
rows, and the other writes them. Each queue has a thread of its own, or runs its tasks at once in the caller's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path
from types import TracebackType

import numpy as np

from hearsay.trace.folder.arrow import (
    ColumnBuilder,
    Columns,
    ParquetWriter,
    Table,
    copy_places,
    empty_columns,
    open_writer,
    spanning_messages,
    table_of,
)
from hearsay.trace.folder.durable import DurableFile
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace
from hearsay.trace.language.rows import Indices, Rows, TraceDigest, order_of
from hearsay.trace.language.schema import CLASSES, NONE, WIDTH, Column, PartKind, TraceEvent, class_folder, class_of

_BLOCK = 16_384
_BLOCKS_AHEAD = 12
"""Number of blocks of rows that may wait to be sorted. They take 20 MB."""
_CLASS_TABLE = np.array(
    [[CLASSES.index(class_of(event, kind)) for kind in (*PartKind, NONE)] for event in TraceEvent], dtype=np.int8
)
"""The index of a row's class in `CLASSES`, by event and kind. The kind -1 (NONE) selects the last column."""


class TraceWriter:
    """The writer of the trace of one run into a run folder. As a context manager, it aborts if `close` was not
    called.

    A row group has at most `row_group_rows` rows. A part is closed when it has `target_file_bytes` bytes. If
    `rotate_us` is given, all parts are also closed whenever this time has passed in the trace. If `background` is
    true, threads sort and write the rows. If the caller computes the trace hash, `known_hash` returns it; otherwise
    the writer computes it.
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
        self._sorting = TaskQueue("sort", _BLOCKS_AHEAD if background else 0)
        self._writing = TaskQueue("write", 1 if background else 0)
        self._builder = ColumnBuilder(_BLOCK)
        groups = cycle([empty_columns(row_group_rows) for _ in range(self._writing.ahead + 1)])
        self._classes = [
            ClassRows(run_dir, name, row_group_rows, target_file_bytes, self._writing, groups) for name in CLASSES
        ]

    @property
    def files(self) -> tuple[TraceFile, ...]:
        """Return the files that are finished, in the order of `CLASSES`."""
        return tuple(file for each in self._classes for file in each.parts.finished)

    def add(self, rows: Rows) -> None:
        """Add rows: an array of int64 of shape (n, 13).

        Raises `ValueError` if the writer is closed or the array has another form; then nothing changes. An error in
        sorting or writing, also one of earlier rows, is raised after an abort.
        """
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
        """Finish all files, and return a description of the trace."""
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
        self._end_queues()
        return self.written()

    def written(self) -> WrittenTrace:
        """Return a description of the trace. After `abort`, its files are only the finished ones. Its number of rows
        then also counts sorted rows that are in no file, but no rows that waited to be sorted.
        """
        trace_hash = self._digest.hex() if self._known_hash is None else self._known_hash()
        return WrittenTrace(self.files, self._rows, trace_hash, spanning_messages(self._run_dir, self.files))

    def abort(self) -> None:
        """Stop writing. Remove unfinished files, and keep finished files."""
        self._open = False
        self._end_queues()
        for each in self._classes:
            each.parts.discard()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.abort()

    def _end_queues(self) -> None:
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


class ClassRows:
    """The writer of one class of rows.

    Rows wait in memory; the earliest of them are written as row groups of parts.
    """

    def __init__(
        self,
        run_dir: Path,
        trace_class: str,
        row_group_rows: int,
        target_file_bytes: int,
        queue: TaskQueue,
        groups: Iterator[Columns],
    ) -> None:
        """Create the writer of a class.

        `groups` yields arrays for the columns of the next row group. Because the same arrays are yielded again, the
        queue must have written their earlier row group by then.
        """
        self.parts = PartFiles(run_dir, trace_class, queue=queue, full_bytes=target_file_bytes)
        self._group_rows = row_group_rows
        self._groups = groups
        self._capacity = row_group_rows + (row_group_rows + 1) // 2
        self._waiting = empty_columns(self._capacity)
        self._filled = 0

    def add(self, columns: Columns, places: Indices) -> None:
        """Add those rows of `columns` whose indices are `places`."""
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
        """Write all waiting rows whose time is before `before_us`, and close the part."""
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


class PartFiles:
    """The writer of the parts of one class. It writes one part after the other; the first has the number `first`.

    A part that has reached `full_bytes` is closed. If `full_bytes` is None, only `finish` closes a part.
    """

    def __init__(
        self,
        run_dir: Path,
        trace_class: str,
        first: int = 0,
        queue: TaskQueue | None = None,
        full_bytes: int | None = None,
    ) -> None:
        self._directory = run_dir / class_folder(trace_class)
        self._class = trace_class
        self._first = first
        self._queue = queue if queue is not None else TaskQueue("write", 0)
        self._full_bytes = full_bytes
        self._file: DurableFile | None = None
        self._writer: ParquetWriter = None
        self._groups: list[tuple[int, int, int]] = []
        """The number of rows, the earliest time and the latest time of each row group of the open part."""
        self.finished: list[TraceFile] = []

    def write_group(self, columns: Columns) -> None:
        """Write a row group. The caller must not change the columns until the queue has finished this task."""
        times = columns[Column.TIME_US]
        self._queue.submit(partial(self._write, table_of(columns), int(times.min()), int(times.max())))

    def finish(self) -> None:
        """Let the queue close the part that is open, and give it its final name. Do nothing if no part is open."""
        self._queue.submit(self._close)

    def discard(self) -> None:
        """Remove the part that is open. Finished parts stay. The queue must have no unfinished tasks."""
        if self._file is not None:
            self._writer.is_open = False  # else pyarrow writes a footer into the discarded file when it is freed
            self._file.discard()
            self._forget()

    def _write(self, table: Table, earliest: int, latest: int) -> None:
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = DurableFile(self._directory / f"part-{self._first + len(self.finished):05d}.parquet")
            self._writer = open_writer(file)
            self._file = file
        self._writer.write_table(table, row_group_size=len(table))
        self._groups.append((len(table), earliest, latest))
        if self._full_bytes is not None and self._file.tell() >= self._full_bytes:
            self._close()

    def _close(self) -> None:
        if self._file is None:
            return
        self._writer.close()
        size, checksum = self._file.tell(), self._file.commit()
        name = f"{class_folder(self._class)}/{self._file.final.name}"
        rows, earliest, latest = zip(*self._groups, strict=True)
        self.finished.append(TraceFile(name, self._class, sum(rows), size, min(earliest), max(latest), checksum))
        self._forget()

    def _forget(self) -> None:
        self._file = None
        self._writer = None
        self._groups = []


class TaskQueue:
    """A queue that runs tasks in order: on a thread with at most `ahead` unfinished tasks or, if `ahead` is 0, in
    `submit` itself.

    After a task on the thread raises an error, no further task runs. A later `submit` or `finish` raises the error.
    """

    def __init__(self, name: str, ahead: int) -> None:
        self.ahead = ahead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name) if ahead else None
        self._unfinished: deque[Future[None]] = deque()
        self._ended = False

    def submit(self, task: Callable[[], None]) -> None:
        if self._thread is None:
            task()
            return
        while self._unfinished and (len(self._unfinished) >= self.ahead or self._unfinished[0].done()):
            self._unfinished.popleft().result()
        self._unfinished.append(self._thread.submit(self._do, task))

    def finish(self) -> None:
        """Wait until all submitted tasks are done."""
        while self._unfinished:
            self._unfinished.popleft().result()

    def close(self) -> None:
        """Wait for the task that runs now, and cancel all other unfinished tasks. This never raises."""
        self._ended = True
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _do(self, task: Callable[[], None]) -> None:
        if self._ended:
            return
        try:
            task()
        except BaseException:
            self._ended = True
            raise
