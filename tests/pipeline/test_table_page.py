"""docs/reference/tables.md: made from the tables and the meanings of their columns, which are complete."""

from __future__ import annotations

import re

import duckdb
import pytest
import table_page
from result_tables import write_run

from hearsay.pipeline.output.columns import described
from hearsay.pipeline.output.tables import TABLES
from hearsay.pipeline.rows import FRAMES

DESCRIBED = described()
COLUMNS = {
    **{table.name: list(table.names) for table in TABLES.values()},
    **{name: [column for column, _ in table_page.frame_columns(name)] for name in FRAMES},
}


def test_the_page_is_up_to_date():
    assert table_page.PAGE.read_text(encoding="utf-8") == table_page.page(), "run `python tools/table_page.py`"


@pytest.mark.parametrize("table", COLUMNS)
def test_each_column_has_a_unit_and_a_meaning(table):
    own = DESCRIBED[table]
    assert set(own) <= set(COLUMNS[table])
    assert [name for name in COLUMNS[table] if name not in own and name not in DESCRIBED["common"]] == []


def test_nothing_is_described_that_no_table_has():
    assert set(DESCRIBED) == {"common", *COLUMNS}
    unused = [
        name
        for name in DESCRIBED["common"]
        if not any(name in names and name not in DESCRIBED[table] for table, names in COLUMNS.items())
    ]
    assert unused == []


@pytest.mark.parametrize("table", COLUMNS)
def test_units_agree_with_names(table):
    for name in COLUMNS[table]:
        unit, meaning = DESCRIBED[table].get(name) or DESCRIBED["common"][name]
        assert meaning
        assert "|" not in meaning
        for suffix, expected in (("_us", "µs"), ("_ms", "ms"), ("_share", "0…1"), ("_bytes", "bytes")):
            if name.endswith(suffix):
                assert unit == expected, name


def test_the_question_of_the_page_can_be_asked(tmp_path, monkeypatch):
    write_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    (question,) = re.findall(r"```sql\n(.*?)```", table_page.page(), re.DOTALL)
    assert duckdb.sql(question).fetchall()
