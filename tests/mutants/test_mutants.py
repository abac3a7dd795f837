"""The list of mutants fits the source and the page, without running them: `make mutants` does that."""

from __future__ import annotations

from collections import Counter

import pytest
from planted import SOURCE, mutants
from security_page import files_of_tests, rows

MUTANTS = mutants()
TOGETHER = {"test_rpc_codec.py::test_what_one_rpc_becomes_in_memory_is_bounded"}
"""Held by several bounds together, which have mutants of their own; taking away one of them is not enough."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_there_is_one_place_for(mutant):
    for file, text in mutant.plant(SOURCE).items():
        assert text != (SOURCE / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_names_are_different():
    assert {name: count for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1} == {}


def test_the_tests_that_must_fail_are_there():
    there = files_of_tests()
    assert {test for mutant in MUTANTS for test in mutant.tests if test not in there} == set()


def test_every_row_of_the_page_has_tests_and_each_of_them_a_mutant():
    held = {test for mutant in MUTANTS for test in mutant.tests} | TOGETHER
    without = {row.what: set(row.tests) - held for row in rows() if not row.tests or set(row.tests) - held}
    assert without == {}
