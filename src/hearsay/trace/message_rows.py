"""Rows of the class message: gathered from all over the run, so that a message's rows lie together.

Rules:

* While the run goes on, rows collect in a store of fixed size; a full store is sorted by message and time and put
  aside as a chunk under `.spill-message`. Memory does not grow with the run.
* At the end the chunks are merged in ascending order of message. A batch takes the same range of messages from
  every sorted chunk that has some (mapped for as long), is sorted by `BY_MESSAGE` and becomes a row group.
* `rotate` does the same before the end, for the messages that have come to rest; the rows of the others are put aside
  again. If a closed message stirs once more, it is declared as spanning.
* A file holds whole messages. A message of more rows than a file may have gets files of its own and is declared in
  the manifest as spanning; it is merged in ranges of time, so memory stays bounded here too. Rows of no message
  (-1) may lie anywhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.arrow import map_spill, write_spill
from hearsay.trace.columns import ColumnBuilder, Columns
from hearsay.trace.lane import Lane
from hearsay.trace.order import BY_MESSAGE, order_of
from hearsay.trace.part_files import PartFiles
from hearsay.trace.rows import Rows
from hearsay.trace.schema import NONE, WIDTH, Column

SPILL_FOLDER = ".spill-message"


@dataclass(frozen=True, slots=True)
class _Census:
    """How many rows each message has, and when the last one."""

    messages: NDArray[np.int64]
    rows: NDArray[np.int64]
    last_us: NDArray[np.int64]


class MessageRows:
    """The message class on its way into parts."""

    def __init__(
        self, run_dir: Path, spill_rows: int, row_group_rows: int, max_rows_per_file: int, lane: Lane
    ) -> None:
        self.parts = PartFiles(run_dir, "message", lane=lane)
        self.spanning: set[int] = set()
        self._folder = run_dir / SPILL_FOLDER
        self._batch_rows = min(row_group_rows, max_rows_per_file)
        self._max_rows = max_rows_per_file
        self._store = np.empty((spill_rows, WIDTH), dtype=np.int64)
        self._filled = 0
        self._builder = ColumnBuilder(spill_rows)
        self._chunks: list[Path] = []
        self._censuses: list[_Census] = []
        self._spills = 0
        self._closed = np.empty(0, dtype=np.int64)

    def add(self, rows: Rows) -> None:
        while len(rows):
            taken = min(len(rows), len(self._store) - self._filled)
            self._store[self._filled : self._filled + taken] = rows[:taken]
            self._filled += taken
            rows = rows[taken:]
            if self._filled == len(self._store):
                self._spill()

    def finish(self) -> None:
        if self._filled:
            self._spill()
        self._merge(self._chunks, self._censuses)
        self.parts.finish()
        self.remove_spill()

    def rotate(self, quiet_since_us: int) -> None:
        """Close the part with all messages that have had no row at this time or later."""
        if self._filled:
            self._spill()
        if not self._chunks:
            return
        census = _united(self._censuses)
        closed = census.messages[(census.last_us < quiet_since_us) | (census.messages == NONE)]
        open_chunks, self._chunks, self._censuses = self._chunks, [], []
        closing: list[Path] = []
        censuses: list[_Census] = []
        for path in open_chunks:
            columns = map_spill(path)
            done = np.isin(columns[Column.MESSAGE], closed)
            self._put_aside([column[done] for column in columns], closing, censuses)
            self._put_aside([column[~done] for column in columns], self._chunks, self._censuses)
            path.unlink()
        self._merge(closing, censuses)
        self.parts.finish()
        for path in closing:
            path.unlink()
        self._closed = np.union1d(self._closed, closed)

    def remove_spill(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> None:
        rows = self._store[: self._filled]
        keys = [np.ascontiguousarray(rows[:, column]) for column in (Column.MESSAGE, Column.TIME_US)]
        columns = self._builder.build(rows, order_of(keys))
        self._put_aside(columns, self._chunks, self._censuses)
        self._filled = 0

    def _put_aside(self, columns: Columns, chunks: list[Path], censuses: list[_Census]) -> None:
        """Write sorted rows as one more chunk of these."""
        if not len(columns[0]):
            return
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{self._spills:06d}.arrow"
        self._spills += 1
        write_spill(path, columns)
        chunks.append(path)
        censuses.append(_census_of(columns))

    def _merge(self, paths: list[Path], censuses: list[_Census]) -> None:
        if not paths:
            return
        census = _united(censuses)
        self.spanning.update(np.intersect1d(census.messages[census.messages != NONE], self._closed).tolist())
        for first, last, rows in _batches(census, self._batch_rows):
            if self.parts.rows and self.parts.rows + rows > self._max_rows:
                self.parts.finish()
            pieces = [
                _messages_between(map_spill(path), first, last)
                for path, chunk in zip(paths, censuses, strict=True)
                if chunk.messages[0] <= last and chunk.messages[-1] >= first
            ]
            if rows <= self._batch_rows:
                self._write(_sorted(pieces))
                continue
            for piece in _by_time(pieces, rows, self._batch_rows):
                self._write(_sorted(piece))
            if rows > self._max_rows:
                self.parts.finish()
                if first != NONE:
                    self.spanning.add(first)

    def _write(self, columns: Columns) -> None:
        while len(columns[0]):
            room = min(self._max_rows - self.parts.rows, self._batch_rows)
            self.parts.write_group([column[:room] for column in columns])
            if self.parts.rows == self._max_rows:
                self.parts.finish()
            columns = [column[room:] for column in columns]


def _census_of(columns: Columns) -> _Census:
    messages, times = columns[Column.MESSAGE], columns[Column.TIME_US]
    starts = np.flatnonzero(np.concatenate(([True], messages[1:] != messages[:-1])))
    rows = np.diff(starts, append=len(messages))
    return _Census(messages[starts].astype(np.int64), rows, times[starts + rows - 1].astype(np.int64))


def _united(censuses: list[_Census]) -> _Census:
    messages, places = np.unique(np.concatenate([census.messages for census in censuses]), return_inverse=True)
    rows = np.zeros(len(messages), dtype=np.int64)
    np.add.at(rows, places, np.concatenate([census.rows for census in censuses]))
    last = np.full(len(messages), np.iinfo(np.int64).min)
    np.maximum.at(last, places, np.concatenate([census.last_us for census in censuses]))
    return _Census(messages, rows, last)


def _batches(census: _Census, limit: int) -> Iterator[tuple[int, int, int]]:
    """(first message, last message, rows) of runs of whole messages of at most `limit` rows, or one message."""
    ends = np.cumsum(census.rows)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        yield int(census.messages[start]), int(census.messages[stop - 1]), int(ends[stop - 1]) - before
        start = stop


def _messages_between(chunk: Columns, first: int, last: int) -> Columns:
    messages = chunk[Column.MESSAGE]
    start = np.searchsorted(messages, first, side="left")
    stop = np.searchsorted(messages, last, side="right")
    return [column[start:stop] for column in chunk]


def _by_time(pieces: list[Columns], rows: int, limit: int) -> Iterator[list[Columns]]:
    """The pieces (of one message, sorted by time) cut into ranges of time of about `limit` rows each."""
    times = np.sort(np.concatenate([piece[Column.TIME_US] for piece in pieces]))
    cuts = np.unique(times[limit:rows:limit])
    edges = [np.concatenate(([0], np.searchsorted(piece[0], cuts), [len(piece[0])])) for piece in pieces]
    for index in range(len(cuts) + 1):
        yield [
            [column[edge[index] : edge[index + 1]] for column in piece]
            for piece, edge in zip(pieces, edges, strict=True)
        ]


def _sorted(pieces: list[Columns]) -> Columns:
    columns: Columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    order = order_of([columns[column] for column in BY_MESSAGE])
    return [column[order] if _varies(column) else column for column in columns]


def _varies(column: NDArray[np.signedinteger]) -> bool:
    return len(column) > 0 and column.min() != column.max()
