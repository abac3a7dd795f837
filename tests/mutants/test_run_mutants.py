"""The runner of mutants tests a copy of the package with one change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from forked_tests import copy_with_changes

RUNNER = Path(__file__).with_name("run_mutants.py")


def test_a_mutant_is_killed_by_its_test_which_passes_without_it():
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--only", "one-peer-puts-out-its-address"], capture_output=True, text=True
    )
    said = done.stdout.splitlines()
    assert (done.returncode, said[0]) == (0, "1 tests pass before anything is changed"), done.stdout + done.stderr
    assert said[1].startswith("one-peer-puts-out-its-address ")
    assert said[1].endswith(" killed")
    assert said[2].startswith("1 of 1 killed")


def test_only_changed_files_are_copied_and_their_bytecode_is_left_out(tmp_path):
    sound = tmp_path / "sound"
    for file in ("a/one.py", "a/two.py", "b/one.py", "three.py"):
        (sound / file).parent.mkdir(parents=True, exist_ok=True)
        (sound / file).write_text("sound")
        compiled = (sound / file).parent / "__pycache__" / f"{Path(file).stem}.cpython-311.pyc"
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_text("compiled")
    made = tmp_path / "made"
    copy_with_changes({"a/one.py": "changed"}, made, sound)
    files = [Path(folder, name) for folder, _, names in os.walk(made, followlinks=True) for name in names]
    assert {str(file.relative_to(made)): file.read_text() for file in files} == {
        "a/one.py": "changed",
        "a/two.py": "sound",
        "a/__pycache__/two.cpython-311.pyc": "compiled",
        "b/one.py": "sound",
        "b/__pycache__/one.cpython-311.pyc": "compiled",
        "three.py": "sound",
        "__pycache__/three.cpython-311.pyc": "compiled",
    }
    assert (sound / "a" / "one.py").read_text() == "sound"
