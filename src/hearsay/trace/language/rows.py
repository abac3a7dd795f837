"""Rows as integers, and the trace hash, which is equal for equal multisets of rows in any order.

Rules:

* A row's hash is 128 bits, two 64-bit halves. Each is the finaliser of splitmix64 over the sum of column times
  constant, modulo 2^64; the halves differ in their 13 odd constants, outputs 1 … 13 (upper half) and 14 … 26
  (lower half) of splitmix64 seeded with 0, with the lowest bit set.
* The hash of a trace is the sum of its rows' hashes modulo 2^128. Addition commutes, so engines that work in another
  order, or in several processes, get the same hash. A row that is written twice is added twice, so the hash differs.
* Integers only: every machine gets the same bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.rules.mixing import extend, mix
from hearsay.trace.language.schema import WIDTH

Rows: TypeAlias = NDArray[np.int64]
"""An array of shape (n, 13), with the columns of `schema.COLUMNS`."""


pack_row = Struct(f"{WIDTH}q").pack
"""Packs the integers of a row into bytes."""


def no_rows() -> Rows:
    return np.empty((0, WIDTH), dtype=np.int64)


class RowBuffer:
    """A growing buffer of rows. `values` is always the same object, so hot code may keep `values.frombytes`."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.values) // WIDTH

    def to_numpy(self) -> Rows:
        """Return a copy, so that the buffer may grow or be cleared."""
        return np.frombuffer(self.values, dtype=np.int64).reshape(-1, WIDTH).copy()

    def clear(self) -> None:
        del self.values[:]


_MASK128 = (1 << 128) - 1
_BLOCK = 16_384

_mix = cast("Callable[[NDArray[np.uint64]], NDArray[np.uint64]]", mix)


def _constants(first: int) -> tuple[int, ...]:
    return tuple(extend(0, index) | 1 for index in range(first, first + WIDTH))


UPPER_CONSTANTS = _constants(1)
LOWER_CONSTANTS = _constants(1 + WIDTH)


class TraceDigest:
    """The hash of the rows added so far."""

    __slots__ = ("_lower", "_rows", "_total", "_upper")

    def __init__(self) -> None:
        self._upper = np.array(UPPER_CONSTANTS, dtype=np.uint64)
        self._lower = np.array(LOWER_CONSTANTS, dtype=np.uint64)
        self._total = 0
        self._rows = 0

    @property
    def rows(self) -> int:
        return self._rows

    def add(self, rows: Rows) -> None:
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK].view(np.uint64)
            upper = _mix(block @ self._upper)
            lower = _mix(block @ self._lower)
            low_halves = int((lower & np.uint64(0xFFFFFFFF)).sum())
            high_halves = int((lower >> np.uint64(32)).sum())
            self._total += (int(upper.sum()) << 64) + (high_halves << 32) + low_halves
        self._total &= _MASK128
        self._rows += len(rows)

    def hex(self) -> str:
        """Return 32 hexadecimal digits."""
        return f"{self._total:032x}"


def hash_of_parts(hashes: Iterable[str]) -> str:
    """Return the hash of a trace, given those of its parts."""
    return f"{sum(int(each, 16) for each in hashes) & _MASK128:032x}"
