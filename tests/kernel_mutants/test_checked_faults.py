"""The check of all nodes finds planted faults of kernels without the reference engine and without witnesses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from checked_faults import FAULTS, plant_faults
from planted_kernels import SOURCE, planted, text_index

from hearsay.sim.array.rules import checks

FOLDER = Path(__file__).parent
BENCH = FOLDER.parents[1] / "bench"


def test_each_kind_of_finding_has_a_fault():
    assert {getattr(checks, fault.name) for fault in FAULTS} == set(range(len(checks.WORDS) + 1))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}-{fault.name}")
def test_the_text_of_a_fault_occurs_once(fault):
    source = (SOURCE / fault.file).read_text(encoding="utf-8")
    assert text_index(source, fault) > 0
    assert planted(source, [fault]) != source


@pytest.mark.mutants
def test_each_fault_is_found(tmp_path):
    plant_faults(tmp_path)
    path = os.pathsep.join(map(str, (tmp_path, BENCH, FOLDER)))
    environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = FOLDER / "checked_faults.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" found ") == len(FAULTS)
