"""Rows of the classes read in the order of time: rpc, mesh, node.

Rules:

* Rows may come a little out of order (an engine notes a loss when it sends, for the time of arrival). The earlier
  two thirds of a full store are written, the rest waits; so a file is sorted throughout as long as no row comes later
  than half a row group's worth of newer ones. Each row group is sorted in any case.
* A part is closed when it passes the target size, or by `rotate`. What was closed survives a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hearsay.trace.language.columns import ColumnBuilder
from hearsay.trace.language.order import Indices, order_of
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column
from hearsay.trace.write.lane import Lane
from hearsay.trace.write.part_files import PartFiles
from hearsay.trace.write.row_store import RowStore


class TimedRows:
    """One class of rows on its way into parts."""

    def __init__(
        self,
        run_dir: Path,
        trace_class: str,
        row_group_rows: int,
        target_file_bytes: int,
        lane: Lane,
        builders: Iterator[ColumnBuilder],
    ) -> None:
        """`builders` gives one for a row group that the lane is not busy with."""
        self.parts = PartFiles(run_dir, trace_class, lane=lane, full_bytes=target_file_bytes)
        self._group_rows = row_group_rows
        self._store = RowStore(row_group_rows + (row_group_rows + 1) // 2)
        self._builders = builders

    def add(self, rows: Rows) -> None:
        self._store.add(rows, self._write_earliest)

    def finish(self) -> None:
        while len(self._store.rows):
            self._write_earliest()
        self.parts.finish()

    def rotate(self, before_us: int) -> None:
        """Close the part with all rows of earlier times."""
        rows = self._store.rows
        due = rows[:, Column.TIME_US] < before_us
        early, rest = rows[due], rows[~due]
        order = _by_time(early)
        for start in range(0, len(order), self._group_rows):
            self._write(early, order[start : start + self._group_rows])
        self._store.keep(rest)
        self.parts.finish()

    def _write_earliest(self) -> None:
        rows = self._store.rows
        order = _by_time(rows)
        self._write(rows, order[: self._group_rows])
        self._store.keep(rows[order[self._group_rows :]])

    def _write(self, rows: Rows, order: Indices) -> None:
        self.parts.write_group(next(self._builders).build(rows, order))


def _by_time(rows: Rows) -> Indices:
    return order_of([np.ascontiguousarray(rows[:, Column.TIME_US])])
