"""Every input that fuzzing ever found worth keeping, again: no parser breaks its word on any of them."""

from __future__ import annotations

import pytest
from fuzz_seeds import seeds
from fuzz_targets import TARGETS
from kept_corpus import CORPUS, kept


@pytest.mark.parametrize("name", TARGETS)
def test_parser_keeps_its_word_on(name):
    for data in kept(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_there_is_something_to_start_from_for(name):
    assert seeds(name)


def test_every_kept_input_belongs_to_a_target():
    assert {path.stem for path in CORPUS.iterdir()} == set(TARGETS)
