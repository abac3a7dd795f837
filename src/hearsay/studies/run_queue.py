"""Which runs go into the next task.

Rules:

* A Spark task costs tens of milliseconds, so short runs go together until a task is worth a second or more. Runs of a
  second and more go alone.
* Long runs go first and tasks grow shorter towards the end, so that all cores end together.
* What a run will take is estimated from its scenario, and known better with every run that has finished.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hearsay.studies.one_run import Task

LEAST_S = 1.0
MOST_S = 4.0
_TASKS_LEFT_PER_SLOT = 4


@dataclass(slots=True)
class _MeasuredRuns:
    seconds: float = 0.0
    runs: int = 0


class RunQueue:
    """The runs that nobody has taken yet."""

    def __init__(self, tasks: Sequence[Task], estimates: Mapping[str, float]) -> None:
        """`estimates` has seconds by point; only how they compare to each other matters for long."""
        self._estimates = estimates
        self._tasks = deque(sorted(tasks, key=lambda task: -estimates[task.point]))
        self._alone: deque[Task] = deque()
        self._left = Counter(task.point for task in tasks)
        self._measured: dict[str, _MeasuredRuns] = {}
        self._measured_s = self._estimated_s = 0.0

    def __len__(self) -> int:
        return len(self._tasks) + len(self._alone)

    def take(self, slots: int) -> list[Task]:
        """The runs of the next task; none when there are none left."""
        worth = min(MOST_S, max(LEAST_S, self.seconds_left() / (slots * _TASKS_LEFT_PER_SLOT)))
        taken: list[Task] = []
        seconds = 0.0
        if self._alone:
            taken.append(self._alone.popleft())
        else:
            while self._tasks and (not taken or seconds + self.seconds(self._tasks[0].point) / 2 < worth):
                taken.append(self._tasks.popleft())
                seconds += self.seconds(taken[-1].point)
        self._left.subtract(task.point for task in taken)
        return taken

    def put_back_alone(self, tasks: Sequence[Task]) -> None:
        """Runs whose task died: each gets a task of its own, to find the one that kills them."""
        self._alone.extend(tasks)
        self._left.update(task.point for task in tasks)

    def learn(self, point: str, seconds: float) -> None:
        """A run of this point took so long."""
        measured = self._measured.setdefault(point, _MeasuredRuns())
        measured.seconds += seconds
        measured.runs += 1
        self._measured_s += seconds
        self._estimated_s += self._estimates[point]

    def seconds(self, point: str) -> float:
        """What a run of this point will take."""
        measured = self._measured.get(point)
        if measured is not None:
            return measured.seconds / measured.runs
        pace = self._measured_s / self._estimated_s if self._estimated_s else 1.0
        return self._estimates[point] * pace

    def seconds_left(self) -> float:
        """What all runs here will take, one after the other."""
        return sum(count * self.seconds(point) for point, count in self._left.items() if count)
