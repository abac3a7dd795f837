"""With one changed line of a kernel the traces of the engines differ, and `hearsay trace diff` shows the first
difference.

The line is changed in a copy of the package, which is compiled again. Without LLVM's optimisations the compilation
would take as long, because numba itself needs most of the time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hearsay

KERNEL = "sim/array/rules/upkeep.py"
LINE = "    low = parameter(w, node, DEGREE_LOW)\n"
CHANGED = LINE.replace("\n", " + 1\n")
"""With this line, a node whose mesh has exactly D_low members grafts more of them at a heartbeat."""


def _hearsay(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hearsay", *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | environment,
    )  # fmt: skip


def _changed_copy(folder: Path) -> Path:
    """Write a copy of the package with the changed line; return its folder for PYTHONPATH."""
    shutil.copytree(Path(hearsay.__file__).parent, folder / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "hearsay" / KERNEL
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(LINE, CHANGED), encoding="utf-8")
    return folder


def test_the_line_to_change_is_there_once():
    kernel = Path(hearsay.__file__).parent / KERNEL
    assert kernel.read_text(encoding="utf-8").count(LINE) == 1


@pytest.mark.mutants
def test_one_changed_line_of_a_kernel_is_found_and_shown(tmp_path):
    copy = _changed_copy(tmp_path / "copy")
    cache = tmp_path / "cache"
    hashes = {}
    for engine in ("reference", "array"):
        done = _hearsay(
            "simulate", "--preset", "r1", "--nodes", 60, "--messages", 5, "--engine", engine, "--json",
            "--out", tmp_path / engine, PYTHONPATH=str(copy), XDG_CACHE_HOME=str(cache),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        hashes[engine] = json.loads(done.stdout)["trace_hash"]
    assert list(cache.rglob("*.nbc")), "the changed kernels were not compiled"
    assert hashes["reference"] != hashes["array"]

    compared = _hearsay("trace", "diff", tmp_path / "reference", tmp_path / "array", "--context", 4)
    assert compared.returncode == 1, compared.stderr
    difference = re.fullmatch(
        r"The runs diverge at (?P<time>\d+\.\d+)s\.\n"
        r"\nOnly in A at that time: 0 rows\n"
        r"Before that in A, same nodes:\n(?P<before_a>(?:  .+\n){4})"
        r"\nOnly in B at that time: \d+ rows\n"
        r"(?P<only_b>(?:\+ .+\n)+)"
        r"Before that in B, same nodes:\n(?P<before_b>(?:  .+\n){4})"
        r"\nRows that differ in all:\n(?:.+\n)+\n?",
        compared.stdout,
    )
    assert difference, compared.stdout
    assert difference["before_a"] == difference["before_b"]
    first = difference["only_b"].splitlines()
    assert all(re.fullmatch(rf"\+ +{difference['time']}s  node \d+ +(send graft →|graft ↔) .+", row) for row in first)
    assert len({row.split("node")[1].split()[0] for row in first}) == 1, "one node's heartbeat"
