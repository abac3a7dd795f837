"""A chunk: rows of messages, sorted by message and time, put aside in a file until their messages are complete.

What is put aside is read once and soon, so it is not compressed. But every column lies there as offsets from its
least value, in the narrowest type that holds them: less than half the bytes, and memory that was not touched before
is dear.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.arrow import map_spill, write_spill
from hearsay.trace.language.columns import DTYPES, Columns
from hearsay.trace.language.schema import Column

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
