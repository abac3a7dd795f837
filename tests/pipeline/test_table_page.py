"""docs/reference/tables.md is up to date, and tables.toml describes the columns of all tables and of no others."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import duckdb
import pytest
import table_page
from result_tables import write_run

from hearsay.pipeline.output.tables import COMMON, FRAMES, TABLES
from hearsay.trace.folder.arrow import DTYPES
from hearsay.trace.language.schema import CODED, Column

SCHEMAS = TABLES | FRAMES


def test_the_page_is_up_to_date():
    assert table_page.PAGE.read_text(encoding="utf-8") == table_page.page(), "run `python tools/table_page.py`"


@pytest.mark.parametrize("table", SCHEMAS)
def test_each_column_has_a_type_a_unit_and_a_meaning_that_agree_with_its_name(table):
    for name, (kind, unit, meaning) in SCHEMAS[table].columns.items():
        assert kind in ("string", "smallint", "int", "bigint", "double", "boolean")
        assert meaning
        assert "|" not in meaning
        for suffix, expected in (("_us", "µs"), ("_ms", "ms"), ("_share", "0…1"), ("_bytes", "bytes")):
            if name.endswith(suffix):
                assert unit == expected, name


def test_only_columns_of_tables_are_described():
    data = tomllib.loads(files("hearsay.pipeline.output").joinpath("tables.toml").read_text(encoding="utf-8"))
    for name, described in (data["tables"] | data["frames"]).items():
        assert set(described) - {"title", "columns"} <= set(SCHEMAS[name].columns)
    used = {column for schema in SCHEMAS.values() for column in schema.columns.items()}
    assert [name for name, column in COMMON.items() if (name, column) not in used] == []


def test_rows_have_the_columns_of_the_files_of_a_trace_and_those_of_the_run():
    by_size = {1: "string", 2: "smallint", 4: "int", 8: "bigint"}
    of_files = {
        column.name.lower(): "string" if column in CODED else by_size[DTYPES[column].itemsize] for column in Column
    }
    rows = {name: column.kind for name, column in FRAMES["rows"].columns.items()}
    assert list(rows.items())[: len(of_files)] == list(of_files.items())
    assert list(rows)[len(of_files) :] == [name for name in FRAMES["runs"].names if name in rows]


def test_the_query_of_the_page_has_an_answer(tmp_path, monkeypatch):
    write_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    (query,) = re.findall(r"```sql\n(.*?)```", table_page.page(), re.DOTALL)
    assert duckdb.sql(query).fetchall()
