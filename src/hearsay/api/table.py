"""Tables for programs: Arrow tables with columns of names next to columns of numbers, and queries in DuckDB.

A dictionary of a run is a table that maps numbers to names: `peers`, `topics` or `messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hearsay.text import html_table
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import compute, read_plain
from hearsay.trace.folder.manifest import RunFolderError
from hearsay.trace.folder.run_folder import dictionary_file
from hearsay.user_errors import MissingExtra, how_to_install

_SHOWN_ROWS = 10


def import_library(name: str) -> Any:
    """Import and return an optional library. Raise `MissingExtra` if it is not installed; the message says how to
    install it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingExtra(how_to_install(name) or f"{name} is not installed", name=name) from None


class Table:
    """A table of rows with named columns. Iteration yields each row as a dictionary."""

    __slots__ = ("_arrow",)

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._arrow.column_names)

    def arrow(self) -> Any:
        """Return the table as a `pyarrow.Table`."""
        return self._arrow

    def pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`."""
        import_library("pandas")
        return self._arrow.to_pandas()

    def polars(self) -> Any:
        """Return the table as a `polars.DataFrame`."""
        return import_library("polars").from_arrow(self._arrow)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries by column; missing values are None."""
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


@dataclass(frozen=True, slots=True)
class Naming:
    """The rule for adding a column of names next to a column of numbers."""

    dictionary: str
    """The dictionary with the names."""
    key: str
    """The column of the dictionary that has the numbers."""
    name: str
    """The column of the dictionary that has the names."""
    added: str
    """The name of the column that is added."""


NAMINGS = {
    "topic": Naming("topics", "topic", "name", "topic_name"),
    "message": Naming("messages", "message", "id", "message_id"),
    **{
        column: Naming("peers", "peer", "name", f"{column}_name")
        for column in ("peer", "node", "remote", "publisher")
    },
}
"""The rules by the name of the column of numbers."""


def read_dictionary(run: Path, dictionary: str) -> Any:
    """Return a dictionary of a run as an Arrow table; None if the run does not have it. Raise `RunFolderError` if the
    file cannot be read.
    """
    path = dictionary_file(run, dictionary)
    if not path.is_file():
        return None
    try:
        return read_plain(path)
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{path}: cannot be read ({first})") from None


def namings_of(run: Path, columns: Sequence[str]) -> Iterator[tuple[str, Naming]]:
    """Yield each of these columns whose numbers have names in a dictionary of the run, with the rule for the column.
    Skip a column if `columns` has its column of names already.
    """
    for column in columns:
        naming = NAMINGS.get(column)
        if naming is None or naming.added in columns:
            continue
        known = read_dictionary(run, naming.dictionary)
        if known is not None and naming.name in known.column_names:
            yield column, naming


def with_names(run: Path, table: Any) -> Any:
    """Return a copy of an Arrow table with a column of names after each column whose numbers have names in
    the run.
    """
    namings = dict(namings_of(run, table.column_names))
    arrays: dict[str, Any] = {}
    for column in table.column_names:
        arrays[column] = table.column(column)
        if column in namings:
            naming = namings[column]
            known = read_dictionary(run, naming.dictionary)
            keys = known.column(naming.key).cast(pa.int64())
            places = compute.index_in(table.column(column).cast(pa.int64()), keys)
            arrays[naming.added] = known.column(naming.name).take(places)
    return pa.table(arrays)


def ask(run: Path, files: Mapping[str, Sequence[Path]], question: str, values: Sequence[object] = ()) -> Table:
    """Run a query in DuckDB's SQL, and return its result.

    `files` has the Parquet files of each table that the query may use. `values` are the values for the `?` in the
    query, in order.
    """
    duckdb = import_library("duckdb")
    with duckdb.connect() as connection:
        for name, paths in files.items():
            connection.execute(_view(connection, run, name, paths))
        return Table(connection.sql(question, params=list(values)).to_arrow_table())


def _view(connection: Any, run: Path, name: str, paths: Sequence[Path]) -> str:
    source = f"read_parquet([{', '.join(_text(path) for path in paths)}], hive_partitioning = false)"
    columns = [line[0] for line in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
    namings = dict(namings_of(run, columns))
    wanted: list[str] = []
    joins: list[str] = []
    for column in columns:
        wanted.append(f'own."{column}"')
        if column in namings:
            naming, place = namings[column], f"names{len(joins)}"
            wanted.append(f'{place}."{naming.name}" AS "{naming.added}"')
            dictionary = f"read_parquet({_text(dictionary_file(run, naming.dictionary))})"
            joins.append(f'LEFT JOIN {dictionary} {place} ON own."{column}" = {place}."{naming.key}"')
    return f'CREATE VIEW "{name}" AS SELECT {", ".join(wanted)} FROM {source} own {" ".join(joins)}'


def _text(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"'{quoted}'"
