"""Counters of Spark for each step of an analysis, such as rows read and bytes shuffled, from Spark's event log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_JOB, _TASK = "SparkListenerJobStart", "SparkListenerTaskEnd"


@dataclass(slots=True)
class Counters:
    """Sums over the tasks of a step, except `peak_bytes`, which is a maximum, and `seconds`."""

    tasks: int = 0
    rows_read: int = 0
    shuffled_bytes: int = 0
    spilled_bytes: int = 0
    peak_bytes: int = 0
    """The most memory that one task needed for sums and sorts."""
    seconds: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    """The seconds that each task took, by the number of its stage."""

    @property
    def longest_over_mean(self) -> float:
        """Return the time of the longest task divided by the mean time of a task.

        Both are of one stage: the stage with the largest sum of task times. Raise `ValueError` without tasks.
        """
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
    """Return the counters of each step from a folder with event logs. The step that began first is the first.

    The step of a job is the job's property `spark.job.description`.
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
