"""A run's tables in DuckDB: a view of each, names joined in; files are read as far as a question needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hearsay.api.names import dictionary_file, namings_of
from hearsay.api.table import Table, library


def ask(run: Path, files: Mapping[str, Sequence[Path]], question: str, values: Sequence[object] = ()) -> Table:
    """The answer to a question in SQL; `files` are those of every table. `?` in the question stands for a value."""
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
