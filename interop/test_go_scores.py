"""The project's vectors of scores hold on go's scorer, and a changed vector fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUN = HERE / "go_scores" / "run_vectors.py"
SCORES = sorted((HERE.parent / "vectors" / "score").glob("*.json"))


def run_on_go(*files: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("go") is None:
        pytest.skip("NOT TESTED: no `go` on the path")
    return subprocess.run([sys.executable, str(RUN), *map(str, files)], capture_output=True, text=True)


def test_vectors_hold_on_gos_scorer_and_a_changed_vector_fails(tmp_path):
    changed = json.loads((HERE.parent / "vectors" / "score" / "edges.json").read_text(encoding="utf-8"))
    step = next(step for step in changed["vectors"][0]["steps"] if step.get("expect"))
    for worth in step["expect"].values():
        worth["score"] += 1e-6
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(changed), encoding="utf-8")
    done = run_on_go(*SCORES, wrong)
    lines = done.stdout.splitlines()[1:]
    count = sum(len(json.loads(file.read_text(encoding="utf-8"))["vectors"]) for file in SCORES)
    assert [line for line in lines[:count] if not line.startswith("ok ")] == [], done.stderr
    assert done.returncode == 1
    assert lines[count].startswith(f"FAIL  {wrong}: {changed['vectors'][0]['name']}")
    assert all(line.startswith("ok ") for line in lines[count + 1 :])
