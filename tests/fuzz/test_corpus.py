"""No parser breaks its contract with an input of the stored corpus."""

from __future__ import annotations

import pytest
from fuzz_seeds import seeds
from fuzz_targets import TARGETS
from kept_corpus import CORPUS, stored_inputs


@pytest.mark.parametrize("name", TARGETS)
def test_stored_inputs_break_no_contract_of(name):
    for data in stored_inputs(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_there_are_seeds_for(name):
    assert seeds(name)


def test_every_target_has_a_stored_corpus_and_no_other_has():
    assert {path.stem for path in CORPUS.iterdir()} == set(TARGETS)
