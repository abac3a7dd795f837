"""How far times of two nodes may be off, by the clock offsets that an import or a join has written.

A clock that was put right may be off by its uncertainty; another one by its estimated offset, too. Times of two nodes
may be off by the sum of both. Times of one node agree, as do those of a simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hearsay.text.numbers import milliseconds
from hearsay.trace.folder.arrow import read_table

SKEW = "skew.parquet"


@dataclass(frozen=True, slots=True)
class Clocks:
    errors_us: Mapping[int, tuple[int | None, int]]
    """For each node that traced: the reference of its clock, and the maximum difference from it."""

    def words(self, node: int, other: int) -> str:
        """Return in words how far a time between two nodes may be off; an empty text if both have one clock."""
        if node == other or node not in self.errors_us or other not in self.errors_us:
            return ""
        (reference, error_us), (other_reference, other_error_us) = self.errors_us[node], self.errors_us[other]
        if reference is None or reference != other_reference:
            return " (clock offset unknown)"
        return f" (± {milliseconds((error_us + other_error_us) / 1000)})"


def clocks_of(run: Path) -> Clocks:
    path = run / SKEW
    if not path.exists():
        return Clocks({})
    columns = read_table(path)
    names = ("reference", "offset_us", "uncertainty_us", "put_back_us")
    rows = zip(*(columns[name] for name in names), strict=True)
    errors = [
        (reference, abs((offset or 0) - (put_back or 0)) + (uncertainty or 0))
        for reference, offset, uncertainty, put_back in rows
    ]
    return Clocks(dict(zip(columns["peer"], errors, strict=True)))
