"""Named alarms of one router: the shell's single timer serves them all.

The name of an alarm is a task and a topic. There is at most one alarm of a name: a second `set` changes its time.
Alarms that are due at the same time ring in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import TypeAlias

from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.shell.randomness import key_of
from hearsay.core.shell.strategy import Shell


class Task(IntEnum):
    """Purposes of alarms. Alarms that are due at the same time ring in this order."""

    EXPIRE = 0
    STABILISE = 1
    SHUFFLE = 2
    PROBE = 3
    CONTACTS = 4
    MISSING = 5
    FLUSH = 6
    SWEEP = 7


Alarm: TypeAlias = tuple[Task, TopicId | None]
"""The name of an alarm; the topic is None for a task that serves all topics."""


class Agenda:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._due: dict[Alarm, Micros] = {}
        self._heap: list[tuple[Micros, int, int, Alarm]] = []

    def set(self, task: Task, topic: TopicId | None, due: Micros) -> None:
        alarm = (task, topic)
        if self._due.get(alarm) == due:
            return
        self._due[alarm] = due
        heappush(self._heap, (due, task, 0 if topic is None else key_of(topic), alarm))
        self._tell()

    def set_earliest(self, task: Task, topic: TopicId | None, due: Micros) -> None:
        """Set an alarm, unless it is set for an earlier time."""
        current = self._due.get((task, topic))
        if current is None or due < current:
            self.set(task, topic, due)

    def is_set(self, task: Task, topic: TopicId | None) -> bool:
        return (task, topic) in self._due

    def clear_topic(self, topic: TopicId) -> None:
        for task in Task:
            self._due.pop((task, topic), None)
        self._tell()

    def ringing(self, now: Micros) -> Iterator[Alarm]:
        """Remove the alarms that are due by `now`, and yield them."""
        while self._heap and self._heap[0][0] <= now:
            due, _, _, alarm = heappop(self._heap)
            if self._due.get(alarm) == due:
                del self._due[alarm]
                yield alarm
        self._tell()

    def _tell(self) -> None:
        """Set the shell's timer to the next alarm. Remove heap entries of alarms that were cleared or moved."""
        heap = self._heap
        while heap and self._due.get(heap[0][3]) != heap[0][0]:
            heappop(heap)
        self._shell.due = heap[0][0] if heap else None
