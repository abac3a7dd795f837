"""SIGKILL at random points of an analysis or a sweep: a rerun completes, and no row is lost or taken twice."""

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

KILLS = 2
"""One after the other on the same output."""
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
    chain = kills.seeded_kills(number, KILLS, mode)
    return kill_spark.run_chain("killed", chain, source, base / "reference" / source.name, base)


def followed(number: int, base: Path) -> Counter[str]:
    return analysis(number, base, "stream")


def sweep(number: int, base: Path) -> Counter[str]:
    text, runs = sweep_kills.study(SWEPT_SEEDS)
    file = small_study.write_study(base, text)
    done = sweep_kills.sweep(file, base / "reference")
    assert done.returncode == 0, done.stderr
    chain = sweep_kills.seeded_kills(number, KILLS)
    return kill_sweeps.run_chain("killed", chain, file, base, base / "reference", runs)
