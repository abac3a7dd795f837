"""Some faults planted into kernels, with a few random scenarios: counts those that the comparison of engines sees.

A fault that these scenarios do not show is no failure. The soak fails if the engines differ without a fault, or if a
fault is seen that mutants.toml explains as unseen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from planted_kernels import mutants

RUNNER = Path(__file__).parents[1] / "kernel_mutants" / "run_kernel_mutants.py"
SCENARIOS = 15
FAULTS = 12
FAILED = 2


def soak(number: int) -> Counter[str]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "took.json"
        known = [mutant.name for mutant in mutants()]
        names = [known[(number * FAULTS + place) % len(known)] for place in range(FAULTS)]
        arguments = ["--scenarios", str(SCENARIOS), "--seed", str(number), "--json", str(file), "--only", *names]
        done = subprocess.run([sys.executable, str(RUNNER), *arguments], capture_output=True, text=True)
        assert done.returncode < FAILED, done.stdout + done.stderr
        assert file.exists(), done.stdout + done.stderr
        took: dict[str, int | None] = json.loads(file.read_text(encoding="utf-8"))
    return Counter({f"fault seen: {name}": int(count is not None) for name, count in took.items()})
