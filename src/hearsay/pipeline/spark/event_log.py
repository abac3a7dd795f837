"""Spark's own counters, from its event log: rows read, and bytes shuffled and spilled, by step of an analysis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_JOB, _TASK = "SparkListenerJobStart", "SparkListenerTaskEnd"


@dataclass(slots=True)
class Counters:
    """Sums over the tasks of a step."""

    tasks: int = 0
    rows_read: int = 0
    shuffled_bytes: int = 0
    spilled_bytes: int = 0
    peak_bytes: int = 0
    """The largest memory for sums and sorts in one task."""
    seconds: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    """Seconds of each task, by stage."""

    @property
    def longest_over_mean(self) -> float:
        """Return the longest task's time over the mean, in the stage that took longest."""
        longest = max(self.seconds.values(), key=sum)
        return max(longest) * len(longest) / (sum(longest) or 1)

    def add(self, task: dict[str, Any]) -> None:
        figures = task["Task Metrics"]
        self.tasks += 1
        self.rows_read += figures["Input Metrics"]["Records Read"]
        self.shuffled_bytes += figures["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        self.spilled_bytes += figures["Disk Bytes Spilled"]
        self.peak_bytes = max(self.peak_bytes, figures["Peak Execution Memory"])
        self.seconds.setdefault(task["Stage ID"], []).append(figures["Executor Run Time"] / 1000)


def counters_of(folder: Path) -> dict[str, Counters]:
    """Return the counters of each step, in the order of their first jobs, from a folder with event logs.

    The step of a job is in its property `spark.job.description`.
    """
    found: dict[str, Counters] = {}
    steps: dict[int, str] = {}
    for event in _events(folder):
        if event["Event"] == _JOB:
            step = event["Properties"].get("spark.job.description", "")
            found.setdefault(step, Counters())
            steps |= dict.fromkeys(event["Stage IDs"], step)
        elif event.get("Task Metrics"):
            found[steps[event["Stage ID"]]].add(event)
    return found


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith((f'{{"Event":"{_JOB}"', f'{{"Event":"{_TASK}"')):
                    yield json.loads(line)
