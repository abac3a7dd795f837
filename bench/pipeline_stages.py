"""Measure the stages of `hearsay analyze` from Spark's event log: skew of tasks, and costs of more executors.

    python bench/pipeline_stages.py skew [EVENTS]       # 10,000,000
    python bench/pipeline_stages.py executors [EVENTS]  # a standalone cluster here: 1, 2 and 4 executors of a core

`skew` analyses three runs on eight partitions: with topics of equal size; with nine in ten messages in one topic; and
the same with one file for each class. It divides the largest task of a stage by an eighth of the stage: by rows,
which are the same each time, and by CPU seconds, which include compilation in the first tasks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/pipeline"))

from kills import environment
from standalone import Cluster

from pipeline_sizes import LOGGED
from synthetic_trace import cached_run, crowded, write_run

PARTITIONS = 8
EIGHT = (
    f"spark.sql.shuffle.partitions {PARTITIONS}\n"
    f"spark.sql.files.minPartitionNum {PARTITIONS}\n"
    "spark.sql.files.openCostInBytes 0\n"
    "spark.sql.adaptive.coalescePartitions.enabled false\n"
)
LEAST = 500_000, 2.0
"""Smallest number of rows, and of CPU seconds, of a stage that is counted."""


@dataclass
class Stage:
    step: str
    rows: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


@dataclass
class Analysis:
    seconds: float
    stages: list[Stage]
    without_tasks_s: float
    """Seconds during which no stage ran."""

    @property
    def cpu_s(self) -> float:
        return sum(sum(stage.cpu_s) for stage in self.stages)


def measure_analysis(run: Path, settings: str, *options: str) -> Analysis:
    with (
        tempfile.TemporaryDirectory() as out,
        tempfile.TemporaryDirectory() as own,
        tempfile.TemporaryDirectory() as log,
    ):
        (Path(own) / "spark-defaults.conf").write_text(settings + LOGGED.format(folder=log))
        command = [sys.executable, "-m", "hearsay", "analyze", str(run), "--out", out, *options]
        start = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**environment(), "SPARK_CONF_DIR": own})
        return _analysis(perf_counter() - start, Path(log))


def _analysis(seconds: float, log: Path) -> Analysis:
    stages: dict[int, Stage] = {}
    spans: list[tuple[int, int]] = []
    for event in _events(log):
        match event["Event"]:
            case "SparkListenerJobStart":
                step = event["Properties"].get("spark.job.description", "")
                stages |= {number: Stage(step) for number in event["Stage IDs"] if number not in stages}
            case "SparkListenerTaskEnd" if event.get("Task Metrics"):
                metrics = event["Task Metrics"]
                shuffled = metrics["Shuffle Read Metrics"]["Total Records Read"]
                stage = stages[event["Stage ID"]]
                stage.rows.append(metrics["Input Metrics"]["Records Read"] + shuffled)
                stage.cpu_s.append((metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / 1e9)
            case "SparkListenerStageCompleted":
                about = event["Stage Info"]
                spans.append((about["Submission Time"], about["Completion Time"]))
            case _:
                pass
    busy_ms, until = 0, 0
    for first, last in sorted(spans):
        busy_ms += max(0, last - max(first, until))
        until = max(until, last)
    return Analysis(seconds, [stage for stage in stages.values() if stage.cpu_s], seconds - busy_ms / 1000)


def _events(log: Path) -> Iterator[dict]:
    for file in sorted(path for path in log.rglob("*") if path.is_file() and not path.name.startswith(".")):
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def skew(events: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        runs = {
            "topics of equal size": cached_run(events),
            "nine in ten in one topic": write_run(Path(made) / "topic", events, topic_of=crowded),
            "and one file": write_run(Path(made) / "file", events, topic_of=crowded, file_bytes=1 << 40),
        }
        print("| run | by | stages | over 2 | largest task over an eighth of its stage |")
        print("| --- | --- | ---: | ---: | --- |")
        for name, run in runs.items():
            stages = measure_analysis(run, EIGHT).stages
            _print_shares(name, "rows", LEAST[0], [(stage.step, stage.rows) for stage in stages])
            _print_shares(name, "CPU s", LEAST[1], [(stage.step, stage.cpu_s) for stage in stages])


def _print_shares(run: str, unit: str, least: float, stages: Iterable[tuple[str, Sequence[float]]]) -> None:
    large = [(max(tasks) / (sum(tasks) / PARTITIONS), step) for step, tasks in stages if sum(tasks) >= least]
    large.sort(reverse=True)
    worst = ", ".join(f"{step} {share:.1f}" for share, step in large[:5])
    print(f"| {run} | {unit} | {len(large)} | {sum(share > 2 for share, _ in large)} | {worst} |", flush=True)


def executors(events: int) -> None:
    run = cached_run(events)
    print("| executors | s | no stage runs, s | CPU s of tasks | by step |\n| ---: | ---: | ---: | ---: | --- |")
    for count in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(Path(folder))
            try:
                master = cluster.start_master()
                for number in range(count):
                    cluster.start_worker(f"worker{number}", master)
                found = measure_analysis(run, "spark.sql.shuffle.partitions 8\n", "--master", master)
            finally:
                cluster.stop()
        steps: dict[str, float] = {}
        for stage in found.stages:
            steps[stage.step] = steps.get(stage.step, 0) + sum(stage.cpu_s)
        largest = sorted(steps.items(), key=lambda pair: -pair[1])[:8]
        by_step = ", ".join(f"{step} {seconds:.1f}" for step, seconds in largest)
        print(
            f"| {count} | {found.seconds:.1f} | {found.without_tasks_s:.1f} | {found.cpu_s:.1f} | {by_step} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurement", choices=["skew", "executors"])
    parser.add_argument("events", nargs="?", type=int, default=10_000_000)
    given = parser.parse_args()
    {"skew": skew, "executors": executors}[given.measurement](given.events)
