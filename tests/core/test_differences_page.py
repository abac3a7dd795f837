"""Pages about gossipsub 1.1 have the tables of the parameters, and name tests that exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import difference_tables

from hearsay.core.mesh.parameters import GossipsubParameters

ROOT = Path(__file__).parents[2]
GO_TESTS = ROOT / "docs" / "design" / "go-tests.md"
NAMED = re.compile(r"`(test_\w+)\.py::(test_\w+)`")


def test_the_table_of_differences_is_made_from_the_parameters():
    assert difference_tables.PAGE.read_text(encoding="utf-8") == difference_tables.page(), (
        "run `python tools/difference_tables.py`"
    )


def test_the_table_of_presets_is_made_from_the_presets():
    assert difference_tables.PRESETS_PAGE.read_text(encoding="utf-8") == difference_tables.presets_page(), (
        "run `python tools/difference_tables.py`"
    )


def test_every_parameter_with_choices_has_a_row():
    text = difference_tables.table()
    chosen = [declared.name for declared in fields(GossipsubParameters) if "choices" in declared.metadata]
    assert [name for name in chosen if f"|`{name}`|" not in text] == []


def test_all_tests_that_the_page_names_for_tests_of_go_exist():
    found = NAMED.findall(GO_TESTS.read_text(encoding="utf-8"))
    assert len(found) > 50
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert [name for file, name in found if f"def {name}(" not in sources.get(file, "")] == []
