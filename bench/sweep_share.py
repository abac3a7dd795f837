"""Measure the share of the cores' time that a sweep spends in engines, next to the same runs in a process pool.

    python bench/sweep_share.py [--runs 200] [--seconds 5] [--short 0]

The sweep is the command `hearsay sweep`, measured from start to end: Python, the JVM, dispatch, tables, the report.
The pool is a `multiprocessing.Pool` with a process for each core, which maps the same runs and stores nothing. The
share is the sum of the seconds of all runs, divided by cores × wall time of the sweep or pool. It is printed for the
wall time of the runs, and for their CPU time, which other programs do not lengthen. On a busy machine both shares say
little; then compare the CPU time of driver and JVM, which is printed, too. `--short N` adds N runs of about 20 ms,
which the sweep packs into tasks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import pyarrow.parquet

from hearsay.studies.packs import Task, perform
from hearsay.studies.points import points_of
from hearsay.studies.runner import tasks_of
from hearsay.studies.study_file import Study, load_study

CORES = len(os.sched_getaffinity(0))
NODES, INTERVAL_S = 1000, 0.1
STUDY = """
seeds = {seeds}
[base]
preset = "r1"
network.nodes = {nodes}
workload.messages = {messages}
workload.interval_s = {interval}
[[axes]]
key = "loss.rate"
values = [0, 0.1]
"""


def write_study(folder: Path, name: str, runs: int, nodes: int, messages: int) -> Path:
    path = folder / f"{name}.toml"
    text = STUDY.format(seeds=max(1, runs // 2), nodes=nodes, messages=messages, interval=INTERVAL_S)
    path.write_text(text, encoding="utf-8")
    return path


def tasks(study: Study) -> list[Task]:
    return tasks_of(study, points_of(study))


def messages_for(folder: Path, seconds: float) -> int:
    """Return the number of messages of a run that takes `seconds` on this machine."""
    pace: list[float] = []
    for messages in (20, 60):
        (task, *_) = tasks(load_study(write_study(folder, "pace", 2, NODES, messages)))
        pace.append(min(perform(task)["cpu_s"] for _ in range(2)))
    per_message = max(1e-3, (pace[1] - pace[0]) / 40)
    return max(1, round(20 + (seconds - pace[0]) / per_message))


def run_in_pool(work: Sequence[Task]) -> tuple[float, list[dict]]:
    start = perf_counter()
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        rows = pool.map(perform, work, chunksize=1)
    return perf_counter() - start, rows


def run_sweep(study: Path, out: Path) -> tuple[float, list[dict]]:
    start = perf_counter()
    command = [sys.executable, "-m", "hearsay", "sweep", str(study), "--out", str(out), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["failed"] == 0
    overhead = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"driver and JVM: {overhead:.1f} s of CPU", flush=True)
    return seconds, pyarrow.parquet.read_table(out / "tables" / "resources.parquet").to_pylist()


def print_share(name: str, seconds: float, rows: Sequence[dict]) -> float:
    wall = sum(row["wall_s"] for row in rows) / (CORES * seconds)
    cpu = sum(row["cpu_s"] for row in rows) / (CORES * seconds)
    print(f"| {name} | {len(rows)} | {seconds:.1f} | {wall:.1%} | {cpu:.1%} |", flush=True)
    return cpu


def main() -> None:
    parser = argparse.ArgumentParser(description="the share of core time that a sweep spends in engines")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--short", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        messages = messages_for(folder, arguments.seconds)
        cases = [("long", arguments.runs, NODES, messages)]
        if arguments.short:
            cases.append(("short", arguments.short, 50, 5))
        print(f"{CORES} cores; long: {NODES} nodes, {messages} messages")
        print("| | runs | wall s | in engines, by their clock | by CPU |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for case, runs, nodes, count in cases:
            study = write_study(folder, case, runs, nodes, count)
            pool_s, pool_rows = run_in_pool(tasks(load_study(study)))
            pool_share = print_share(f"{case}, plain pool", pool_s, pool_rows)
            sweep_s, sweep_rows = run_sweep(study, folder / f"{case}-out")
            sweep_share = print_share(f"{case}, hearsay sweep", sweep_s, sweep_rows)
            print(f"{case}: wall {sweep_s / pool_s:.2f} of the pool's, share {sweep_share / pool_share:.2f} of it")


if __name__ == "__main__":
    main()
