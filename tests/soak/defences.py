"""Some mutants of the node: a defence is removed, and its tests must fail. `make mutants` tries all mutants."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from planted import mutants

RUNNER = Path(__file__).parents[1] / "mutants" / "run_mutants.py"
DEFENCES = 8


def soak(number: int) -> Counter[str]:
    known = [mutant.name for mutant in mutants()]
    names = [known[(number * DEFENCES + place) % len(known)] for place in range(DEFENCES)]
    done = subprocess.run([sys.executable, str(RUNNER), "--only", *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Counter({f"killed: {name}": 1 for name in names})
