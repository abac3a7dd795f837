"""The whole analysis of runs of several sizes: time, memory, what Spark spilled, equal tables with a small heap.

Each analysis is a cold process of its own, as `hearsay analyze` is. Memory is the most that the driver, the JVM and
its Python workers held at once; `largest Python` is the largest of these processes but the JVM. A run is made
if it is not there: 3 GB of disk and two minutes for each 100 million events.

    python bench/pipeline_sizes.py [EVENTS…]               # 50,000,000
    python bench/pipeline_sizes.py EVENTS… --small-heap    # each also with 512 MiB, a twentieth for Spark's sums,
                                                           # which must spill; tables are compared row by row
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb

from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import load_runs
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.pipeline.spark.place import HEAP, Where
from hearsay.pipeline.spark.session import spark_session
from process_tree import PeakMemory
from synthetic_trace import write_run

SMALL_HEAP = "512m"
SMALL_SHARE = "spark.memory.fraction 0.05\nspark.buffer.pageSize 256k\n"
"""For what Spark sums and keeps; JVM and gateway need the rest to live."""


@dataclass(frozen=True, slots=True)
class Analysis:
    seconds: float
    cold_seconds: float
    """With the start of Spark and its end."""
    memory: PeakMemory
    spilled_mib: float


def run_of(events: int) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "bench"
    folder = cache / f"synthetic-{events}"
    if not (folder / "manifest.json").exists():
        print(f"making {events:,} events in {folder}", file=sys.stderr, flush=True)
        write_run(folder, events)
    return folder


def analysed(folder: Path, out: Path, environment: dict[str, str]) -> Analysis:
    start = perf_counter()
    command = [sys.executable, __file__, "--analyse", str(folder), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    with PeakMemory(process.pid) as memory:
        said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{folder}: the analysis ended with code {process.returncode}")
    figures = json.loads(said)
    return Analysis(figures["seconds"], perf_counter() - start, memory, figures["spilled"] / 2**20)


def analyse_here(folder: Path, out: Path) -> None:
    """Run in a process of its own: the figures are printed as JSON."""
    (run,) = load_runs([folder])
    with spark_session(Where(), run.rows, lambda _: None) as session:
        start = perf_counter()
        analyze(session, [run], {run.name: out}, lambda text: print(text, file=sys.stderr, flush=True))
        seconds = perf_counter() - start
        print(json.dumps({"seconds": seconds, "spilled": spilled_by(session)}))


def spilled_by(session: Any) -> int:
    """Return the bytes that tasks wrote to the disk for want of memory, by Spark's own count."""
    context = session.sparkContext
    doubles = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, doubles, None)
    stages_run = [stages.apply(number) for number in range(stages.size())]
    return sum(stage.diskBytesSpilled() for stage in stages_run)


def differences(left: Path, right: Path) -> list[str]:
    """Tables whose lines are not the same, and how many are not."""
    found: list[str] = []
    with duckdb.connect() as database:
        for table in TABLES:
            one, other = (f"read_parquet('{side}/{METRICS_FOLDER}/{table}/*.parquet')" for side in (left, right))
            for here, there in ((one, other), (other, one)):
                query = f"select count(*) from (select * from {here} except all select * from {there})"
                (count,) = database.execute(query).fetchall()[0]
                if count:
                    found.append(f"{table}: {count}")
    return found


def shown(events: int, heap: str, found: Analysis) -> str:
    memory = found.memory
    cells = (
        f"{events:,}", heap, f"{found.seconds:.1f}", f"{found.cold_seconds:.1f}",
        f"{found.seconds / events * 1e6:.3f}", f"{memory.together:,.0f}", f"{memory.jvm:,.0f}",
        f"{memory.largest_python:,.0f}", f"{found.spilled_mib:,.1f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main(sizes: Sequence[int], small_heap: bool) -> None:
    print(
        "| events | heap | s | s, with start and end | µs an event | peak MiB | JVM | largest Python | spilled MiB |"
    )
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    compared: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        own = Path(work) / "settings"
        own.mkdir()
        (own / "spark-defaults.conf").write_text(SMALL_SHARE)
        small = {HEAP: SMALL_HEAP, "SPARK_CONF_DIR": str(own)}
        for events in sizes:
            folder = run_of(events)
            usual, other = Path(work) / "usual", Path(work) / "small"
            print(shown(events, "usual", analysed(folder, usual, {})), flush=True)
            if small_heap:
                found = analysed(folder, other, small)
                print(shown(events, SMALL_HEAP, found), flush=True)
                if not found.spilled_mib:
                    raise SystemExit(f"{events:,} events: nothing was spilled, so nothing is said about spilling")
                differ = differences(usual, other)
                if differ:
                    raise SystemExit(f"{events:,} events: tables differ: {', '.join(differ)}")
                compared.append(f"{events:,}")
                shutil.rmtree(other)
            shutil.rmtree(usual)
    if compared:
        print(f"\nAll tables with the small heap equal those with the usual one, row by row: {'; '.join(compared)}.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="*", type=int, default=[50_000_000])
    parser.add_argument("--small-heap", action="store_true")
    parser.add_argument("--analyse", nargs=2, type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    if given.analyse:
        analyse_here(*given.analyse)
    else:
        main(given.events, given.small_heap)
