"""The listed mutants fit the source, their tests and the page; `make mutants` runs them."""

from __future__ import annotations

from collections import Counter

import pytest
from planted import SOURCE, mutants
from security_page import files_of_tests, rows

MUTANTS = mutants()
HELD_BY_SEVERAL_LIMITS = {"test_rpc_codec.py::test_the_memory_of_one_decoded_rpc_is_bounded"}
"""Tests of a bound that several limits hold together. Each limit has a mutant, but with one limit removed the test
still passes.
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_texts_of_a_mutant_occur_once(mutant):
    for file, text in mutant.plant(SOURCE).items():
        assert text != (SOURCE / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_names_of_mutants_are_different():
    assert {name: count for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1} == {}


def test_tests_of_mutants_exist():
    there = files_of_tests()
    assert {test for mutant in MUTANTS for test in mutant.tests if test not in there} == set()


def test_every_row_of_the_page_has_tests_and_each_of_them_a_mutant():
    held = {test for mutant in MUTANTS for test in mutant.tests} | HELD_BY_SEVERAL_LIMITS
    without = {row.what: set(row.tests) - held for row in rows() if not row.tests or set(row.tests) - held}
    assert without == {}
