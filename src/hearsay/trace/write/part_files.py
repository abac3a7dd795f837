"""The files of one class: `part-00000.parquet`, `part-00001.parquet`, …

A part grows by row groups under a temporary name and takes its final name when it is closed, so that whoever finds
a part finds it whole. Encoding and writing is most of the work of a trace, so a lane may do it in the background.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hearsay.trace.folder.arrow import ParquetWriter, Table, open_writer, table_of
from hearsay.trace.folder.durable import DurableFile
from hearsay.trace.folder.manifest import TraceFile
from hearsay.trace.language.columns import Columns
from hearsay.trace.language.schema import Column, class_folder
from hearsay.trace.write.lane import Lane


class PartFiles:
    """Writes the parts of one class, one at a time, numbered from `first` on; one of `full_bytes` is closed."""

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
        self.rows = 0
        """Rows given to the open part, unless it was closed for its size."""
        self.finished: list[TraceFile] = []

    def write_group(self, columns: Columns) -> None:
        """Add a row group; the lane may still read the columns until it is finished with the next task."""
        times = columns[Column.TIME_US]
        self.rows += len(times)
        self._lane.submit(partial(self._write, table_of(columns), int(times.min()), int(times.max())))

    def finish(self) -> None:
        """Close the open part, if there is one, and give it its name."""
        self.rows = 0
        self._lane.submit(self._close)

    def discard(self) -> None:
        """Remove the open part. Finished parts stay. The lane must be at rest."""
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
