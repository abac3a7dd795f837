"""The folder of the array engine's machine code is named by a digest of all sources that it depends on."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

import hearsay
from hearsay.sim.array.compiling import KEPT

PACKAGE = Path(hearsay.__file__).parent


@pytest.fixture
def copy(tmp_path):
    return copytree(PACKAGE, tmp_path / "hearsay", ignore=ignore_patterns("__pycache__"))


def test_a_copy_of_the_package_has_the_same_digest(copy):
    assert KEPT.folder is not None
    assert KEPT.digest(copy) == KEPT.folder.name


@pytest.mark.parametrize(
    ("file", "constant", "changed"),
    [
        ("core/mesh/mesh.py", "EXPIRE_EVERY = 15", "EXPIRE_EVERY = 16"),
        ("core/language/sizes.py", "SIMULATED_PEER_BYTES = 38", "SIMULATED_PEER_BYTES = 39"),
        ("sim/reference/connections.py", "ATTEMPTS_PER_PEER = 20", "ATTEMPTS_PER_PEER = 21"),
        ("sim/plan/draws.py", "_BINS = 4096", "_BINS = 2048"),
        ("trace/language/rows.py", "_constants(1 + WIDTH)", "_constants(2 + WIDTH)"),
    ],
)
def test_a_changed_constant_changes_the_digest(copy, file, constant, changed):
    before = KEPT.digest(copy)
    text = (copy / file).read_text()
    assert text.count(constant) == 1
    (copy / file).write_text(text.replace(constant, changed))
    assert KEPT.digest(copy) != before


def test_a_new_file_changes_the_digest(copy):
    before = KEPT.digest(copy)
    (copy / "core" / "another_rule.py").write_text("")
    assert KEPT.digest(copy) != before
