"""Kill `hearsay analyze` at seeded random times, in batch mode and while it follows a growing run.

    python bench/kill_spark.py [--points 50] [--seed 1] [--chain 5] [--cluster-points 6]

A chain is a series of analyses with the same output folder. Driver, JVM or a Python worker of each gets SIGKILL,
except in the last analysis. After each kill a table must be complete or absent. At the end, the tables must equal
those of a batch analysis without kills, and no temporary folders may be left. With `--cluster-points`, workers of a
standalone cluster are killed while a batch analysis runs there, which must complete on the other worker.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/pipeline"))

from growing_run import GrowingRun, assert_same_tables, assert_whole_or_absent
from kills import Kill, analyze, analyze_and_kill, command, seeded_kills

from worker_kills import kill_workers_of_a_cluster

SCENARIO = ("--nodes", "80", "--messages", "40", "--rotate", "4", "--set", "trace.state_interval_s=5")


def run_chain(name: str, kills: list[Kill], source: Path, reference: Path, base: Path) -> Counter[str]:
    """Run a chain; return how often each outcome of a kill occurred."""
    mode = kills[0].mode
    folder = base / name
    run = GrowingRun(source, folder / source.name)
    run.begin()
    lot = len(run.files) // (len(kills) + 1) + 1
    if mode == "batch":
        run.finish()
    out = folder / "out"
    counted: Counter[str] = Counter()
    for kill in kills:
        run.grow(lot)
        started = monotonic()
        outcome = analyze_and_kill(kill, run.path, out)
        assert_whole_or_absent(out / source.name)
        if "Traceback" in outcome.errors:
            counted["with a traceback"] += 1
            print(outcome.errors)
        what = f"{mode}, {kill.victim} killed" if outcome.hit else f"{mode}, over before the kill"
        counted[what] += 1
        print(
            f"{name}: {kill.victim} after line {kill.line} and {kill.delay_s:.2f} s: "
            f"{'killed' if outcome.hit else 'was over'}, exit {outcome.code} ({monotonic() - started:.0f} s)",
            flush=True,
        )
    run.finish()
    started = monotonic()
    done = analyze(mode, run.path, out, *(["--until-complete"] if mode == "stream" else []))
    assert done.returncode == 0, done.stderr
    assert_same_tables(reference, out / source.name)
    left = [path.name for path in (out / source.name).glob(".metrics-*")]
    assert not left, left
    print(f"{name}: complete, tables equal ({monotonic() - started:.0f} s)", flush=True)
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description="hearsay analyze killed at seeded points")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chain", type=int, default=5)
    parser.add_argument("--cluster-points", type=int, default=0)
    arguments = parser.parse_args()
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        source = base / "run"
        simulate = [sys.executable, "-m", "hearsay", "simulate", *SCENARIO, "--out", str(source)]
        subprocess.run(simulate, check=True, capture_output=True)
        done = analyze("batch", source, base / "reference")
        assert done.returncode == 0, done.stderr
        reference = base / "reference" / source.name
        chains = -(-arguments.points // arguments.chain)
        kills = {mode: seeded_kills(arguments.seed, arguments.points, mode) for mode in ("batch", "stream")}
        left = arguments.points
        for number in range(chains):
            mode = ("stream", "batch")[number % 2]
            chosen, kills[mode] = kills[mode][: min(arguments.chain, left)], kills[mode][arguments.chain :]
            left -= len(chosen)
            counted += run_chain(f"{mode} {number // 2}", chosen, source, reference, base)
        if arguments.cluster_points:
            kill_workers_of_a_cluster(
                arguments.cluster_points,
                Random(f"cluster {arguments.seed}"),
                (8, 40),
                base,
                lambda out: command("batch", source, out),
                lambda out: assert_same_tables(reference, out / source.name),
            )
    for what, count in sorted(counted.items()):
        print(f"{count:3} {what}")


if __name__ == "__main__":
    main()
