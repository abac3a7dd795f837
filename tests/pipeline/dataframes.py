"""A comparison of the tables as DataFrames with the tables that an analysis stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hearsay.pipeline import Tables, read
from hearsay.pipeline.output.tables import TABLES, read_table

Line = tuple[Any, ...]


def assert_stored_tables(spark, folders: Mapping[str, Path], window_us: int | None = None) -> None:
    """Assert that all tables, computed for all runs at once, are the stored ones: floats to 1e-9, others equal."""
    made = Tables(read(spark, list(folders.values()), window_us))
    made.compute(list(TABLES))
    assert len({path.name for path in folders.values()}) == len(folders)
    different: dict[str, tuple[Line, Line]] = {}
    for name in TABLES:
        found = in_order(made[name].toArrow().to_pylist())
        wanted = in_order([line for path in folders.values() for line in read_table(path, name).to_pylist()])
        pairs = [pair for pair in zip(wanted, found, strict=False) if not equal(*pair)]
        if len(wanted) != len(found) or pairs:
            different[f"{name}: {len(wanted)} lines, {len(found)} found"] = pairs[0] if pairs else ((), ())
    assert not different, different


def in_order(lines: Sequence[Mapping[str, Any]]) -> list[Line]:
    return sorted((tuple(line.values()) for line in lines), key=lambda line: [sort_key(value) for value in line])


def sort_key(value: Any) -> tuple[bool, Any]:
    """Return a sort key of a value; floats are rounded, so that rounding errors do not change the order of lines."""
    return value is not None, float(f"{value:.6g}") if isinstance(value, float) else value


def equal(wanted: Line, found: Line) -> bool:
    return all(
        one == pytest.approx(other, rel=1e-9, abs=1e-12)
        if isinstance(one, float) and other is not None
        else one == other
        for one, other in zip(wanted, found, strict=True)
    )
