"""The tables of docs/reference/security.md agree with the limits in the code, and name tests that exist."""

from __future__ import annotations

import pytest
from security_page import default, files_of_tests, rows

ROWS = rows()


def test_the_page_has_more_than_fifty_rows():
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", [row for row in ROWS if row.setting], ids=lambda row: row.setting)
def test_the_bound_on_the_page_is_the_default_of(row):
    value = default(row.setting)
    assert row.amount() == value / 1000 if row.setting.endswith("_ms") else row.amount() == value


def test_all_named_tests_exist():
    there = files_of_tests()
    missing = {name for row in ROWS for name in row.tests if name not in there}
    assert not missing
