"""The list of faults in kernels fits the kernels as they are; `run_kernel_mutants.py` tries them."""

from __future__ import annotations

import ast

import pytest
from planted_kernels import PLACE, SOURCE, mutants, place_in, planted

from hearsay.sim.array.world import layout

ALL = mutants()


def test_there_are_sixty_at_least_and_each_has_a_name_of_its_own():
    assert len(ALL) >= 60
    assert len({mutant.name for mutant in ALL}) == len(ALL)


def test_the_number_has_a_place_of_its_own():
    assert layout.PART_WORDS < PLACE


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_stands_where_its_text_is_once(mutant):
    source = (SOURCE / mutant.file).read_text(encoding="utf-8")
    assert place_in(source, mutant) > 0
    with_it = planted(source, [mutant])
    ast.parse(with_it)
    assert with_it != source


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in ALL}))
def test_all_mutants_of_a_file_fit_together(file):
    ast.parse(planted((SOURCE / file).read_text(encoding="utf-8"), [each for each in ALL if each.file == file]))
