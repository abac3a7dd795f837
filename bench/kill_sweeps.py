"""Kill `hearsay sweep` at seeded random times, and test that a later sweep completes the study.

    python bench/kill_sweeps.py [--points 30] [--seed 1] [--chain 5] [--cluster-points 0]

A chain is a series of sweeps with the same output folder. Driver, JVM or a Python worker of each gets SIGKILL, except
in the last sweep. Its tables must equal those of a sweep without kills, and no run with a stored result may be
repeated. With `--cluster-points`, workers of a standalone cluster are killed while a sweep runs there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic

import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/pipeline"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/studies"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/cli"))

from small_study import assert_equal_tables, write_study
from sweep_kills import Kill, command, seeded_kills, study, sweep, sweep_and_kill

from worker_kills import kill_workers_of_a_cluster

SEEDS = 40


def stored_runs(out: Path) -> list[str]:
    files = (out / "results").glob("*.parquet")
    return [run for file in files for run in pyarrow.parquet.read_table(file).column("run").to_pylist()]


def run_chain(name: str, kills: list[Kill], file: Path, base: Path, reference: Path, all_runs: int) -> Counter[str]:
    out = base / name
    started = monotonic()
    counted: Counter[str] = Counter()
    for kill in kills:
        before = len(stored_runs(out))
        outcome = sweep_and_kill(kill, file, out)
        assert "Traceback" not in outcome.errors, outcome.errors
        what = f"{kill.victim} {'killed' if outcome.hit else 'not there any more'}"
        counted[what] += 1
        print(f"{name}: {what}: {before} runs kept before, {len(stored_runs(out))} after", flush=True)
    done = sweep(file, out)
    assert done.returncode == 0, done.stderr
    assert_equal_tables(out, reference)
    runs = stored_runs(out)
    assert len(runs) == len(set(runs)) == all_runs, "a run was made twice"
    print(f"{name}: complete, tables equal ({monotonic() - started:.0f} s)", flush=True)
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description="hearsay sweep killed at seeded points")
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chain", type=int, default=5)
    parser.add_argument("--cluster-points", type=int, default=0)
    arguments = parser.parse_args()
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        text, all_runs = study(SEEDS)
        file = write_study(base, text)
        done = sweep(file, base / "reference")
        assert done.returncode == 0, done.stderr
        kills = seeded_kills(arguments.seed, arguments.points)
        for number, start in enumerate(range(0, len(kills), arguments.chain)):
            chain = kills[start : start + arguments.chain]
            counted += run_chain(f"chain {number}", chain, file, base, base / "reference", all_runs)
        if arguments.cluster_points:
            kill_workers_of_a_cluster(
                arguments.cluster_points,
                Random(f"sweep cluster {arguments.seed}"),
                (6, 25),
                base,
                lambda out: command(file, out),
                lambda out: assert_equal_tables(out, base / "reference"),
            )
    for what, count in sorted(counted.items()):
        print(f"{count:3} {what}")


if __name__ == "__main__":
    main()
