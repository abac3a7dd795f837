"""Rows that wait to be written, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import WIDTH


class RowStore:
    """At most so many rows, in the order they came in."""

    def __init__(self, most: int) -> None:
        self._rows = np.empty((most, WIDTH), dtype=np.int64)
        self._filled = 0

    @property
    def rows(self) -> Rows:
        """Those that wait; what is added or kept overwrites them."""
        return self._rows[: self._filled]

    def add(self, rows: Rows, make_room: Callable[[], None]) -> None:
        """`make_room`, called whenever the store is full, has it keep fewer."""
        while len(rows):
            taken = min(len(rows), len(self._rows) - self._filled)
            self._rows[self._filled : self._filled + taken] = rows[:taken]
            self._filled += taken
            rows = rows[taken:]
            if self._filled == len(self._rows):
                make_room()

    def keep(self, rows: Rows) -> None:
        """Only these, a copy of some that waited."""
        self._rows[: len(rows)] = rows
        self._filled = len(rows)

    def clear(self) -> None:
        self._filled = 0
