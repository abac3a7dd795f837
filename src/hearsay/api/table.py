"""Tables for programs: Arrow tables with names in addition to numbers, and DuckDB views of a run's tables.

A dictionary of a run is a table that gives numbers their names: `peers`, `topics` or `messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hearsay.extras import MissingExtra, how_to_install
from hearsay.text.tables import html_table
from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import compute, read_plain
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES

_SHOWN_ROWS = 10


def library(name: str) -> Any:
    """Import an optional library. Raises `MissingExtra` with a line that says how to install it."""
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
        """Return the table as a `pyarrow.Table`."""
        return self._arrow

    def pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`."""
        library("pandas")
        return self._arrow.to_pandas()

    def polars(self) -> Any:
        """Return the table as a `polars.DataFrame`."""
        return library("polars").from_arrow(self._arrow)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries; missing values are None."""
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
    """How a column of numbers gets names: the dictionary, its columns of numbers and names, and the column to add."""

    dictionary: str
    key: str
    name: str
    made: str


def _peers(column: str) -> Naming:
    return Naming("peers", "peer", "name", f"{column}_name")


NAMINGS = {
    "topic": Naming("topics", "topic", "name", "topic_name"),
    "message": Naming("messages", "message", "id", "message_id"),
    **{column: _peers(column) for column in ("peer", "node", "remote", "publisher")},
}


def dictionary_file(run: Path, dictionary: str) -> Path:
    return run / DICTIONARIES / f"{dictionary}.parquet"


def read_dictionary(run: Path, dictionary: str) -> Any:
    """Return a dictionary of a run as an Arrow table; None if the run does not have it."""
    path = dictionary_file(run, dictionary)
    if not path.is_file():
        return None
    try:
        return read_plain(path)
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{path}: cannot be read ({first})") from None


def namings_of(run: Path, columns: Sequence[str]) -> Iterator[tuple[str, Naming]]:
    """Yield each column that has names in a dictionary of the run, with its naming."""
    for column in columns:
        naming = NAMINGS.get(column)
        if naming is None or naming.made in columns:
            continue
        known = read_dictionary(run, naming.dictionary)
        if known is not None and naming.name in known.column_names:
            yield column, naming


def with_names(run: Path, table: Any) -> Any:
    """Return the Arrow table with a column of names after each column of numbers."""
    namings = dict(namings_of(run, table.column_names))
    arrays: dict[str, Any] = {}
    for column in table.column_names:
        arrays[column] = table.column(column)
        if column in namings:
            naming = namings[column]
            known = read_dictionary(run, naming.dictionary)
            keys = known.column(naming.key).cast(pa.int64())
            places = compute.index_in(table.column(column).cast(pa.int64()), keys)
            arrays[naming.made] = known.column(naming.name).take(places)
    return pa.table(arrays)


def ask(run: Path, files: Mapping[str, Sequence[Path]], question: str, values: Sequence[object] = ()) -> Table:
    """Run a query in DuckDB's SQL. `files` has the Parquet files of each table; `values` replace `?` in the query."""
    duckdb = library("duckdb")
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
            wanted.append(f'{place}."{naming.name}" AS "{naming.made}"')
            dictionary = f"read_parquet({_text(dictionary_file(run, naming.dictionary))})"
            joins.append(f'LEFT JOIN {dictionary} {place} ON own."{column}" = {place}."{naming.key}"')
    return f'CREATE VIEW "{name}" AS SELECT {", ".join(wanted)} FROM {source} own {" ".join(joins)}'


def _text(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"'{quoted}'"
