"""The faults of mutants.toml can be planted in the kernels; `run_kernel_mutants.py` runs them."""

from __future__ import annotations

import ast

import pytest
from planted_kernels import ACTIVE_FAULT, SOURCE, mutants, planted, text_index

from hearsay.sim.array.world import layout

ALL = mutants()


def test_at_least_sixty_mutants_have_different_names():
    assert len(ALL) >= 60
    assert len({mutant.name for mutant in ALL}) == len(ALL)


def test_the_number_of_the_active_fault_replaces_no_other_scalar():
    assert layout.PART_WORDS < ACTIVE_FAULT


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_text_of_a_mutant_occurs_once(mutant):
    source = (SOURCE / mutant.file).read_text(encoding="utf-8")
    assert text_index(source, mutant) > 0
    changed = planted(source, [mutant])
    ast.parse(changed)
    assert changed != source


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in ALL}))
def test_all_mutants_of_a_file_can_be_planted_together(file):
    ast.parse(planted((SOURCE / file).read_text(encoding="utf-8"), [each for each in ALL if each.file == file]))
