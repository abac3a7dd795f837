"""A table as programs get it: Arrow inside, and whatever they work with outside.

pyarrow, pandas, polars and DuckDB take a `Table` as it is, since it speaks Arrow's interface for C streams
(`pyarrow.table(table)`, `polars.DataFrame(table)`); the methods here say it shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from hearsay.extras import MissingExtra, how_to_install
from hearsay.text.html_table import html_table

_SHOWN_ROWS = 10


def library(name: str) -> Any:
    """A library that not everybody has; `MissingExtra` says in a line how to get it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingExtra(how_to_install(name) or f"{name} is not installed", name=name) from None


class Table:
    """Rows with named columns."""

    __slots__ = ("_arrow",)

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._arrow.column_names)

    def arrow(self) -> Any:
        """As a `pyarrow.Table`."""
        return self._arrow

    def pandas(self) -> Any:
        """As a `pandas.DataFrame`."""
        library("pandas")
        return self._arrow.to_pandas()

    def polars(self) -> Any:
        """As a `polars.DataFrame`."""
        return library("polars").from_arrow(self._arrow)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; what is missing is None."""
        return self._arrow.to_pylist()

    def __len__(self) -> int:
        return self._arrow.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._arrow.to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Table of {len(self):,} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        first = self._arrow[:_SHOWN_ROWS].to_pylist()
        rows = [["" if cell is None else str(cell) for cell in row.values()] for row in first]
        more = f", the first {_SHOWN_ROWS}" if len(self) > _SHOWN_ROWS else ""
        return html_table(self.columns, rows, f"{len(self):,} rows{more}")
