"""Rows of the class message: collected from the whole run, so that the rows of a message lie together."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.arrow import map_spill, write_spill
from hearsay.trace.language.columns import DTYPES, ColumnBuilder, Columns
from hearsay.trace.language.order import BY_MESSAGE, order_of
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.write.part_files import Lane, PartFiles, RowStore

_OFFSETS = (np.uint8, np.uint16, np.uint32, np.uint64)


class Chunk:
    """At least one row. `messages` are those that have some, `rows` says how many each, `last_us` when the last."""

    def __init__(self, path: Path, columns: Columns) -> None:
        """Write these columns to `path`."""
        self._path = path
        self._lowest = [int(column.min()) for column in columns]
        write_spill(path, [_offsets(column, lowest) for column, lowest in zip(columns, self._lowest, strict=True)])
        messages, times = columns[Column.MESSAGE], columns[Column.TIME_US]
        starts = np.flatnonzero(np.concatenate(([True], messages[1:] != messages[:-1])))
        self.messages: NDArray[np.int64] = messages[starts].astype(np.int64)
        self.rows: NDArray[np.int64] = np.diff(starts, append=len(messages))
        self.last_us: NDArray[np.int64] = times[starts + self.rows - 1].astype(np.int64)

    def columns(self) -> Columns:
        return self.between(int(self.messages[0]), int(self.messages[-1]))

    def between(self, first: int, last: int) -> Columns:
        """The rows of the messages from `first` to `last`."""
        ends = np.concatenate(([0], np.cumsum(self.rows)))
        start = ends[np.searchsorted(self.messages, first, side="left")]
        stop = ends[np.searchsorted(self.messages, last, side="right")]
        return [
            np.add(column[start:stop], lowest, dtype=dtype, casting="same_kind")
            for column, lowest, dtype in zip(map_spill(self._path), self._lowest, DTYPES, strict=True)
        ]

    def remove(self) -> None:
        self._path.unlink()


def _offsets(column: NDArray[np.signedinteger], lowest: int) -> NDArray[np.integer]:
    span = int(column.max()) - lowest
    dtype = next(dtype for dtype in _OFFSETS if span <= np.iinfo(dtype).max)
    return np.subtract(column, lowest, dtype=np.int64).astype(dtype)


SPILL_FOLDER = ".spill-message"


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
        self._store = RowStore(spill_rows)
        self._builder = ColumnBuilder(spill_rows)
        self._chunks: list[Chunk] = []
        self._spills = 0
        self._closed = np.empty(0, dtype=np.int64)

    def add(self, rows: Rows) -> None:
        self._store.add(rows, self._spill)

    def finish(self) -> None:
        if len(self._store.rows):
            self._spill()
        self._merge(self._chunks)
        self.parts.finish()
        self.remove_spill()

    def rotate(self, quiet_since_us: int) -> None:
        """Close the part with all messages that have had no row at this time or later."""
        if len(self._store.rows):
            self._spill()
        if not self._chunks:
            return
        messages, _, last_us = _census(self._chunks)
        closed = messages[(last_us < quiet_since_us) | (messages == NONE)]
        open_chunks, self._chunks = self._chunks, []
        closing: list[Chunk] = []
        for chunk in open_chunks:
            columns = chunk.columns()
            done = np.isin(columns[Column.MESSAGE], closed)
            self._put_aside([column[done] for column in columns], closing)
            self._put_aside([column[~done] for column in columns], self._chunks)
            chunk.remove()
        self._merge(closing)
        self.parts.finish()
        for chunk in closing:
            chunk.remove()
        self._closed = np.union1d(self._closed, closed)

    def remove_spill(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> None:
        rows = self._store.rows
        keys = [np.ascontiguousarray(rows[:, column]) for column in (Column.MESSAGE, Column.TIME_US)]
        columns = self._builder.build(rows, order_of(keys))
        self._put_aside(columns, self._chunks)
        self._store.clear()

    def _put_aside(self, columns: Columns, chunks: list[Chunk]) -> None:
        """Write sorted rows as one more chunk of these."""
        if not len(columns[0]):
            return
        self._folder.mkdir(exist_ok=True)
        chunks.append(Chunk(self._folder / f"{self._spills:06d}.arrow", columns))
        self._spills += 1

    def _merge(self, chunks: list[Chunk]) -> None:
        if not chunks:
            return
        messages, rows_each, _ = _census(chunks)
        self.spanning.update(np.intersect1d(messages[messages != NONE], self._closed).tolist())
        for first, last, rows in _batches(messages, rows_each, self._batch_rows):
            if self.parts.rows and self.parts.rows + rows > self._max_rows:
                self.parts.finish()
            there = [chunk for chunk in chunks if chunk.messages[0] <= last and chunk.messages[-1] >= first]
            pieces = [chunk.between(first, last) for chunk in there]
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


def _census(chunks: list[Chunk]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The messages of all chunks, how many rows each has, and when the last one."""
    messages, places = np.unique(np.concatenate([chunk.messages for chunk in chunks]), return_inverse=True)
    rows = np.zeros(len(messages), dtype=np.int64)
    np.add.at(rows, places, np.concatenate([chunk.rows for chunk in chunks]))
    last_us = np.full(len(messages), np.iinfo(np.int64).min)
    np.maximum.at(last_us, places, np.concatenate([chunk.last_us for chunk in chunks]))
    return messages, rows, last_us


def _batches(messages: NDArray[np.int64], rows_each: NDArray[np.int64], limit: int) -> Iterator[tuple[int, int, int]]:
    """(first message, last message, rows) of runs of whole messages of at most `limit` rows, or one message."""
    ends = np.cumsum(rows_each)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        yield int(messages[start]), int(messages[stop - 1]), int(ends[stop - 1]) - before
        start = stop


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
