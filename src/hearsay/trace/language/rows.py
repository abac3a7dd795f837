"""Rows as integers: the buffer that hot code appends to, and the arrays that everything else works on."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.schema import WIDTH

Rows: TypeAlias = NDArray[np.int64]
"""Shape (n, 13), columns as in `schema.COLUMNS`."""


pack_row = Struct(f"{WIDTH}q").pack
"""The bytes of a row, from its integers."""


def no_rows() -> Rows:
    return np.empty((0, WIDTH), dtype=np.int64)


class RowBuffer:
    """Rows in the making. `values` stays the same object for life: hot code may keep `values.frombytes`."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.values) // WIDTH

    def to_numpy(self) -> Rows:
        """A copy, so that the buffer may grow or be cleared."""
        return np.frombuffer(self.values, dtype=np.int64).reshape(-1, WIDTH).copy()

    def clear(self) -> None:
        del self.values[:]
