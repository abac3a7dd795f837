"""The tables of docs/reference/security.md say what the code says, and name tests that there are."""

from __future__ import annotations

import pytest
from security_page import default, files_of_tests, rows

ROWS = rows()


def test_there_are_rows():
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", [row for row in ROWS if row.setting], ids=lambda row: row.setting)
def test_bound_is_that_of(row):
    value = default(row.setting)
    assert row.amount() == value / 1000 if row.setting.endswith("_ms") else row.amount() == value


def test_all_tests_that_are_named_are_there():
    there = files_of_tests()
    missing = {name for row in ROWS for name in row.tests if name not in there}
    assert not missing
