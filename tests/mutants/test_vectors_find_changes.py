"""Changes of rules are found by the test vectors alone; the page says how many."""

from __future__ import annotations

import pytest
from planted import SOURCE, mutants_of
from vectors_and_mutants import found_by_vectors

PAGE = SOURCE.parents[1] / "docs" / "reference" / "vectors.md"
RULES = mutants_of("vectors")
pytestmark = pytest.mark.mutants


def test_all_changes_of_rules_are_found():
    assert [mutant.name for mutant, found in found_by_vectors(RULES) if not found] == []
    assert f"changes {len(RULES)} rules" in PAGE.read_text(encoding="utf-8")


def test_the_page_says_how_many_of_the_defences_they_hold():
    text = PAGE.read_text(encoding="utf-8")
    for name in ("scores", "judging"):
        mutants = mutants_of(name)
        count = sum(found for _, found in found_by_vectors(mutants))
        assert f"{count} of {len(mutants)} in `{name}.toml`" in text
