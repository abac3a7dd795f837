"""Random trace rows. Every column is within its range; ranges are small, so that equal rows occur."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import WIDTH, PartKind, Reason, TraceEvent, Via

HIGHEST = (
    50,
    len(TraceEvent) - 1,
    len(PartKind) - 1,
    5,
    5,
    2,
    6,
    3,
    300,
    4,
    len(Via) - 1,
    90,
    len(Reason) - 1,
)
LOWEST = (0, 0) + (-1,) * (WIDTH - 2)

row_codes = st.tuples(*(st.integers(low, high) for low, high in zip(LOWEST, HIGHEST, strict=True)))


def as_rows(codes: list[tuple[int, ...]]) -> Rows:
    return np.array(codes, dtype=np.int64).reshape(-1, WIDTH)


def many_rows(count: int, seed: int) -> Rows:
    generator = np.random.default_rng(seed)
    columns = [generator.integers(low, high + 1, count) for low, high in zip(LOWEST, HIGHEST, strict=True)]
    return np.stack(columns, axis=1)
