"""Measure time and memory of `hearsay analyze` on runs of several sizes, with counters of Spark's event log.

Memory is the greatest sum over the command, the JVM and its Python workers. `largest Python` is the greatest memory
of one of these processes except the JVM. A missing run is generated, with 3 GB of disk and two minutes for each 100
million events. With `--small-heap` each run is also analysed with a heap of 512 MiB, of which Spark's sums get a
twentieth. Then Spark must spill, and all tables must be equal row by row.

    python bench/pipeline_sizes.py [EVENTS…]               # 50,000,000
    python bench/pipeline_sizes.py EVENTS… --small-heap
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import duckdb

from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.pipeline.spark.event_log import Counters, counters_of
from hearsay.pipeline.spark.settings import HEAP
from process_tree import PeakMemory
from synthetic_trace import cached_run

SMALL_HEAP = "512m"
SMALL_SHARE = "spark.memory.fraction 0.05\nspark.buffer.pageSize 256k\n"
"""Settings that leave a twentieth of the heap for Spark's sums and caches. JVM and gateway need the rest."""
LOGGED = "spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {folder}\n"


@dataclass(frozen=True, slots=True)
class Analysis:
    seconds: float
    memory: PeakMemory
    counters: Sequence[Counters]


def measure_analysis(folder: Path, out: Path, environment: dict[str, str], settings: str = "") -> Analysis:
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as log:
        (Path(own) / "spark-defaults.conf").write_text(settings + LOGGED.format(folder=log))
        command = [sys.executable, "-m", "hearsay", "analyze", str(folder), "--out", str(out)]
        start = perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, **environment, "SPARK_CONF_DIR": own}
        )
        with PeakMemory(process.pid) as memory:
            process.wait()
        if process.returncode:
            raise SystemExit(f"{folder}: the analysis ended with code {process.returncode}")
        return Analysis(perf_counter() - start, memory, list(counters_of(Path(log)).values()))


def differences(left: Path, right: Path) -> list[str]:
    """Return each table that differs, with the number of rows that only one side has."""
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


def table_row(events: int, heap: str, found: Analysis) -> str:
    memory, counters = found.memory, found.counters
    cells = (
        f"{events:,}", heap, f"{found.seconds:.1f}", f"{found.seconds / events * 1e6:.3f}",
        f"{memory.together:,.0f}", f"{memory.jvm:,.0f}", f"{memory.largest_python:,.0f}",
        f"{sum(each.rows_read for each in counters):,}",
        f"{sum(each.shuffled_bytes for each in counters) / 2**20:,.1f}",
        f"{sum(each.spilled_bytes for each in counters) / 2**20:,.1f}",
        f"{max(each.peak_bytes for each in counters) / 2**20:,.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main(sizes: Sequence[int], small_heap: bool) -> None:
    print(
        "| events | heap | s | µs an event | peak MiB | JVM | largest Python | rows read | shuffled MiB "
        "| spilled MiB | largest task MiB |"
    )
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    compared: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        for events in sizes:
            folder = cached_run(events)
            usual, other = Path(work) / "usual", Path(work) / "small"
            print(table_row(events, "usual", measure_analysis(folder, usual, {})), flush=True)
            if small_heap:
                found = measure_analysis(folder, other, {HEAP: SMALL_HEAP}, SMALL_SHARE)
                print(table_row(events, SMALL_HEAP, found), flush=True)
                if not any(each.spilled_bytes for each in found.counters):
                    raise SystemExit(f"{events:,} events: the small heap spilled nothing; take more events")
                differ = differences(usual / folder.name, other / folder.name)
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
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.events, given.small_heap)
