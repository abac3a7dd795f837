"""Publications: their times, topics and publishers.

Rules:

* Publications are numbered in the order of time; at the same time, those of the workload come before those of
  `[[timed]]`. Message i of the workload is published at warm-up + i × interval, or after Poisson gaps. The run ends
  one interval and the linger time after the workload's last message, or the linger time after the last `[[timed]]`
  action, if that is later.
* A publisher is drawn from the nodes of the class `workload.publishers` that are up at the time, with the timed joins
  and leaves until then. If there is none, the publication is left out. Timed publications, and those of the script,
  are planned even if their node is down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Purpose, Randomness, sample
from hearsay.sim.plan.draws import distinct, exponential_us
from hearsay.sim.plan.faults import Absence, Publication, TimedAction
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.workload import Arrivals, Publishers, TimedKind, TopicChoice

_ATTEMPTS = 64


def planned_arrivals_us(scenario: Scenario, randomness: Randomness) -> list[Micros]:
    """Return the times of the workload's messages."""
    workload = scenario.workload
    time_us, interval_us = scenario.warmup_us, workload.interval_us
    if workload.arrivals is Arrivals.INTERVAL:
        return [time_us + number * interval_us for number in range(workload.messages)]
    arrivals_us: list[Micros] = []
    for number in range(workload.messages):
        time_us += exponential_us(randomness.draw(Purpose.ARRIVAL, number), interval_us)
        arrivals_us.append(time_us)
    return arrivals_us


def planned_end_us(scenario: Scenario, arrivals_us: list[Micros]) -> Micros:
    """Return the time at which the run ends."""
    last_us = arrivals_us[-1] + scenario.workload.interval_us if arrivals_us else scenario.warmup_us
    return max(last_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us


class PublisherDraw:
    """Draws publishers from the nodes of the workload's class, in the order of time."""

    def __init__(
        self,
        scenario: Scenario,
        randomness: Randomness,
        members: Sequence[Sequence[int]],
        timed: tuple[TimedAction, ...],
        absences: dict[int, list[Absence]],
    ) -> None:
        self._nodes = scenario.network.nodes
        self._class = scenario.workload.publishers
        self._by_topic = self._class in (Publishers.SUBSCRIBERS, Publishers.NON_SUBSCRIBERS)
        self._randomness = randomness
        self._absences = absences
        self._timed = timed
        self._applied = 0
        self._members = [list(subscribed) for subscribed in members] if self._by_topic else []
        count = scenario.workload.publisher_count
        if scenario.workload.messages and self._by_topic:
            self._require_publishers(fixed=count > 0)
        self._fixed = [self._fixed_set(topic, count) for topic in range(len(members))] if count else None

    def draw(self, message: int, topic: int, time_us: Micros) -> int | None:
        """Return the publisher of a message, None when no node of the class is up; times must not decrease."""
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
            if self._can_publish(node, topic, time_us):
                return node
        able = [node for node in pool if self._can_publish(node, topic, time_us)]
        if not able:
            return None
        return able[self._randomness.below(len(able), Purpose.PUBLISHER, message, _ATTEMPTS)]

    def _can_publish(self, node: int, topic: int, time_us: Micros) -> bool:
        spans = self._absences.get(node)
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
        """Return `count` random nodes of the class at the start of the run; the same for all topics if the class does
        not depend on the topic."""
        candidates: Sequence[int] = range(self._nodes)
        words: tuple[int, ...] = ()
        if self._by_topic:
            words = (topic,)
            candidates = self._members[topic]
            if self._class is Publishers.NON_SUBSCRIBERS:
                subscribed = set(candidates)
                candidates = [node for node in range(self._nodes) if node not in subscribed]
        return sample(self._randomness.draw(Purpose.PUBLISHER, *words), candidates, count)

    def _require_publishers(self, *, fixed: bool) -> None:
        """Raise `ScenarioError` if the class has no node at any time."""
        subscribers = self._class is Publishers.SUBSCRIBERS
        if any(len(members) != (0 if subscribers else self._nodes) for members in self._members):
            return
        if not fixed and any(action.join == subscribers for action in self._timed):
            return
        found = "no topic has subscribers" if subscribers else "all nodes subscribe to all topics"
        found += " (topics.N.subscribers, subscribers_count)"
        raise ScenarioError([f'workload.publishers = "{self._class}": {found}, so no node can publish'])


def planned_publications(
    scenario: Scenario, randomness: Randomness, arrivals_us: list[Micros], publishers: PublisherDraw
) -> tuple[Publication, ...]:
    """Return all publications of a run in their order."""
    workload = scenario.workload
    nodes = scenario.network.nodes
    topics = {name: number for number, name in enumerate(scenario.topic_names)}
    groups = [group for group in scenario.topics for _ in group.names]
    turns = list(accumulate(group.weight for group in groups))
    due = [(time_us, 0, number) for number, time_us in enumerate(arrivals_us)]
    due += [
        (timed.at_us, 1, number) for number, timed in enumerate(scenario.timed) if timed.action is TimedKind.PUBLISH
    ]
    publications: list[Publication] = []
    for time_us, is_timed, number in sorted(due):
        message = len(publications)
        inject: tuple[int, ...] = ()
        if is_timed:
            publisher = scenario.timed[number].node
            topic = topics[scenario.timed[number].topic]
        else:
            turn = number % turns[-1]
            if workload.topic_choice is TopicChoice.RANDOM:
                turn = randomness.below(turns[-1], Purpose.TOPIC_OF_MESSAGE, number)
            topic = bisect_right(turns, turn)
            if workload.publishers is Publishers.SCRIPT:
                publisher = nodes
                inject = tuple(distinct(randomness, workload.inject, nodes, -1, Purpose.INJECTION, message))
            else:
                drawn = publishers.draw(message, topic, time_us)
                if drawn is None:
                    continue
                publisher = drawn
        own = groups[topic].size_bytes
        size_bytes = workload.size_bytes if own is None else own
        publications.append(Publication(time_us, message, topic, publisher, inject, size_bytes))
    return tuple(publications)


def _contains(ascending: list[int], number: int) -> bool:
    place = bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number
