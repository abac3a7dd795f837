"""The files of one class of rows (`part-00000.parquet`, …), called parts, and the lanes that write them.

A lane runs tasks one after the other, on a thread of its own or at once in the caller's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hearsay.trace.folder.arrow import ParquetWriter, Table, open_writer, table_of
from hearsay.trace.folder.durable import DurableFile
from hearsay.trace.folder.manifest import TraceFile
from hearsay.trace.language.columns import Columns
from hearsay.trace.language.schema import Column, class_folder


class Lane:
    """Runs tasks in order: on a thread, where at most `ahead` tasks wait, or in `submit` if `ahead` is 0.

    After an error no further task runs; a later `submit`, or `finish`, raises the error.
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
        """Wait until all tasks are done."""
        while self._unfinished:
            self._unfinished.popleft().result()

    def close(self) -> None:
        """Wait for the running task, and cancel the tasks that wait. Never raises."""
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


class PartFiles:
    """Writes the parts of one class one after the other, numbered from `first`. A part is closed at `full_bytes`."""

    def __init__(
        self, run_dir: Path, trace_class: str, first: int = 0, lane: Lane | None = None, full_bytes: int | None = None
    ) -> None:
        self._directory = run_dir / class_folder(trace_class)
        self._class = trace_class
        self._first = first
        self._lane = lane if lane is not None else Lane("write", 0)
        self._full_bytes = full_bytes
        self._file: DurableFile | None = None
        self._writer: ParquetWriter = None
        self._rows = 0
        self._min_time_us = 0
        self._max_time_us = 0
        self.finished: list[TraceFile] = []

    def write_group(self, columns: Columns) -> None:
        """Add a row group. The lane may read the columns until it has finished this task."""
        times = columns[Column.TIME_US]
        self._lane.submit(partial(self._write, table_of(columns), int(times.min()), int(times.max())))

    def finish(self) -> None:
        """Close the open part, if there is one, and give it its final name."""
        self._lane.submit(self._close)

    def discard(self) -> None:
        """Remove the open part. Finished parts stay. The lane must be idle."""
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
            self._min_time_us, self._max_time_us = earliest, latest
        self._writer.write_table(table, row_group_size=len(table))
        self._rows += len(table)
        self._min_time_us = min(self._min_time_us, earliest)
        self._max_time_us = max(self._max_time_us, latest)
        if self._full_bytes is not None and self._file.tell() >= self._full_bytes:
            self._close()

    def _close(self) -> None:
        if self._file is None:
            return
        self._writer.close()
        size, checksum = self._file.tell(), self._file.commit()
        name = f"{class_folder(self._class)}/{self._file.final.name}"
        self.finished.append(
            TraceFile(name, self._class, self._rows, size, self._min_time_us, self._max_time_us, checksum)
        )
        self._forget()

    def _forget(self) -> None:
        self._file = None
        self._writer = None
        self._rows = 0
