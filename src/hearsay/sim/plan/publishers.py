"""Who publishes a message of the workload.

A publisher is drawn among the nodes of its class that are up at the time, timed joins and leaves included; when there
is none, the publication is left out. A timed publish, and the script's injection, are planned regardless.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Purpose, Randomness, sample
from hearsay.sim.plan.absences import Absence
from hearsay.sim.plan.planned_events import TimedAction
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.sections.workload import Publishers

_ATTEMPTS = 64


class PublisherDraw:
    """Draws publishers among those of the workload's class, in the order of time."""

    def __init__(
        self,
        scenario: Scenario,
        randomness: Randomness,
        members: list[Sequence[int]],
        timed: tuple[TimedAction, ...],
        absences: dict[int, list[Absence]],
    ) -> None:
        self._nodes = scenario.network.nodes
        self._class = scenario.workload.publishers
        self._randomness = randomness
        self.planned_absences = absences
        self._timed = timed
        self._applied = 0
        self._members = [list(of_topic) for of_topic in members] if self._by_topic else []
        if scenario.workload.messages:
            self._check_that_somebody_can(scenario)
        count = scenario.workload.publisher_count
        self._fixed = [self._fixed_set(topic, count) for topic in range(len(members))] if count else None

    @property
    def _by_topic(self) -> bool:
        return self._class in (Publishers.SUBSCRIBERS, Publishers.NON_SUBSCRIBERS)

    def draw(self, message: int, topic: int, time_us: Micros) -> int | None:
        """The publisher of a message, None when nobody of the class is up; times must not decrease."""
        self._apply_timed(time_us)
        if self._fixed is not None:
            pool: Sequence[int] = self._fixed[topic]
        elif self._class is Publishers.SUBSCRIBERS:
            pool = self._members[topic]
        else:
            pool = range(self._nodes)
        if not pool:
            return None
        for attempt in range(_ATTEMPTS):
            node = pool[self._randomness.below(len(pool), Purpose.PUBLISHER, message, attempt)]
            if self._may(node, topic, time_us):
                return node
        able = [node for node in pool if self._may(node, topic, time_us)]
        if not able:
            return None
        return able[self._randomness.below(len(able), Purpose.PUBLISHER, message, _ATTEMPTS)]

    def _may(self, node: int, topic: int, time_us: Micros) -> bool:
        spans = self.planned_absences.get(node)
        if spans is not None:
            place = bisect_right(spans, time_us, key=lambda span: span.start_us)
            if place and time_us < spans[place - 1].end_us:
                return False
        if self._fixed is None and self._class is Publishers.NON_SUBSCRIBERS:
            return not _contains(self._members[topic], node)
        return True

    def _apply_timed(self, time_us: Micros) -> None:
        if not self._by_topic:
            return
        while self._applied < len(self._timed) and self._timed[self._applied].time_us <= time_us:
            action = self._timed[self._applied]
            self._applied += 1
            members = self._members[action.topic]
            if action.join == _contains(members, action.node):
                continue
            if action.join:
                insort(members, action.node)
            else:
                members.remove(action.node)

    def _fixed_set(self, topic: int, count: int) -> list[int]:
        """`count` nodes of the class at the start: the same for all topics when the class is."""
        candidates: Sequence[int] = range(self._nodes)
        words: tuple[int, ...] = ()
        if self._by_topic:
            words = (topic,)
            candidates = self._members[topic]
            if self._class is Publishers.NON_SUBSCRIBERS:
                subscribed = set(candidates)
                candidates = [node for node in range(self._nodes) if node not in subscribed]
        return sample(self._randomness.draw(Purpose.PUBLISHER, *words), candidates, count)

    def _check_that_somebody_can(self, scenario: Scenario) -> None:
        if not self._by_topic:
            return
        fixed = scenario.workload.publisher_count > 0
        subscribers = self._class is Publishers.SUBSCRIBERS
        if any(len(members) != (0 if subscribers else self._nodes) for members in self._members):
            return
        if not fixed and any(action.join == subscribers for action in self._timed):
            return
        found = "no topic has subscribers" if subscribers else "all nodes subscribe to all topics"
        found += " (topics.N.subscribers, subscribers_count)"
        raise ScenarioError([f'workload.publishers = "{self._class}": {found}, nobody can publish'])


def _contains(ascending: list[int], number: int) -> bool:
    place = bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number
