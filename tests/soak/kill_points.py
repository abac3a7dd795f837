"""SIGKILL at a random point of an analysis or a sweep: a rerun completes, and no row is lost or counted twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import kills
import small_study
import sweep_kills

import kill_spark
import kill_sweeps

SWEPT_SEEDS = 12


def soak(number: int) -> Counter[str]:
    with TemporaryDirectory() as folder:
        return (analysis, followed, sweep)[number % 3](number, Path(folder))


def analysis(number: int, base: Path, mode: str = "batch") -> Counter[str]:
    source = base / "run"
    simulate = [sys.executable, "-m", "hearsay", "simulate", *kill_spark.SCENARIO, "--out", str(source)]
    subprocess.run(simulate, check=True, capture_output=True)
    done = kills.analyze("batch", source, base / "reference")
    assert done.returncode == 0, done.stderr
    kill = kills.seeded_kills(number, len(kills.VICTIMS), mode)[number // 3 % len(kills.VICTIMS)]
    return kill_spark.run_chain("killed", [kill], source, base / "reference" / source.name, base)


def followed(number: int, base: Path) -> Counter[str]:
    return analysis(number, base, "stream")


def sweep(number: int, base: Path) -> Counter[str]:
    text, runs = sweep_kills.study(SWEPT_SEEDS)
    file = small_study.write_study(base, text)
    done = sweep_kills.sweep(file, base / "reference")
    assert done.returncode == 0, done.stderr
    kill = sweep_kills.seeded_kills(number, len(kills.VICTIMS))[number // 3 % len(kills.VICTIMS)]
    return kill_sweeps.run_chain("killed", [kill], file, base, base / "reference", runs)
