"""The planned events of a run: publications, joins, leaves and faults.

The *workload* of a scenario is its messages without those of `[[timed]]`. The *class* of its publishers is the value
of `workload.publishers`: `script`, `subscribers`, `non_subscribers` or `any`.

Rules of publications:

* Publications are numbered in the order of time. At the same time, publications of the workload precede those of
  `[[timed]]`. Message i of the workload, counted from 0, is published at warm-up + i × interval or, with `poisson`,
  after random gaps.
* The run ends one interval and the linger time after the workload's last message, or the linger time after the last
  `[[timed]]` action, if that is later. Without messages of the workload, the run does not end before the warm-up and
  the linger time.
* The publisher of a message is drawn from the nodes of the class that are up at the time of the message. Timed joins
  and leaves until that time change the class. If no node of the class is up, there is no publication. With a fixed
  set of publishers (`publisher_count`), the set is drawn from the class at the start of the run.
* Timed publications are planned even if their node is down, and publications of the script even if the nodes to which
  it sends the message are down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.randomness import Purpose, Randomness, below, extend, sample
from hearsay.sim.plan.draws import distinct, exponential_us, node_numbers, random_share
from hearsay.sim.plan.network import Dials
from hearsay.sim.scenario.network import Churn
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import MILLION
from hearsay.sim.scenario.workload import Arrivals, Publishers, TimedKind, TopicChoice

_FOREVER_US = 1 << 62
_NO_PAIR = np.uint64((1 << 64) - 1)
_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class Publication:
    """The publication of a message by a node or by the script.

    The number of the script is the number of nodes. The script sends the message to the nodes `inject`, and these
    publish it. Without the script, `inject` is empty.
    """

    time_us: Micros
    message: int
    topic: int
    publisher: int
    inject: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedAction:
    """The event that a node joins (`join` is True) or leaves a topic."""

    time_us: Micros
    node: int
    join: bool
    topic: int


@dataclass(frozen=True, slots=True)
class NodeDown:
    """The event that a node stops. With `goodbye`, the node leaves its topics first."""

    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    """The event that a node starts again."""

    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """The event that links are cut.

    In a partition, these are all links between the nodes of `side` and other nodes. Otherwise `side` is None, and
    these are the links between the pairs of nodes in `links`.
    """

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    """The event that nodes can connect again after they were separated by the fault with the number `fault`."""

    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed


@dataclass(frozen=True, slots=True, order=True)
class Absence:
    """A time in which a node is down, from `start_us` until just before `end_us`."""

    start_us: Micros
    end_us: Micros
    goodbye: bool


def planned_faults(
    scenario: Scenario, randomness: Randomness, dials: Dials, absences: dict[int, list[Absence]], end_us: Micros
) -> tuple[Fault, ...]:
    """Return all faults of a run until `end_us`, in the order in which they happen."""
    events: list[Fault] = []
    for node, spans in absences.items():
        for span in spans:
            if span.start_us > 0:
                events.append(NodeDown(span.start_us, node, span.goodbye))
            events.append(NodeUp(span.end_us, node))
    events += _link_faults(scenario, randomness, dials)
    return tuple(sorted((event for event in events if event.time_us <= end_us), key=_order))


def planned_absences(scenario: Scenario, randomness: Randomness, end_us: Micros) -> dict[int, list[Absence]]:
    """Return the absences of each node that is down at some time, by node.

    The absences of a node are in ascending order, and neither overlap nor touch.
    """
    nodes = range(scenario.network.nodes)
    churn = scenario.faults.churn
    spans = _churn_absences(churn, randomness, nodes, end_us) if churn is not None and churn.mean_away_us else {}
    for number, crash in sorted(enumerate(scenario.faults.crash), key=lambda numbered: numbered[1].at_us):
        at_us = crash.at_us
        rejoin_us = _FOREVER_US if crash.rejoin_after_us is None else at_us + max(1, crash.rejoin_after_us)
        up = [node for node in nodes if not any(span.start_us <= at_us < span.end_us for span in spans.get(node, ()))]
        if crash.share_millionths is None:
            crashed = set(crash.listed or ()) & set(up)
        else:
            numbers = np.array(up, dtype=np.uint64)
            places = random_share(crash.share_millionths, randomness, Purpose.CRASH, (number,), numbers)
            crashed = {up[place] for place in places}
        for node in sorted(crashed):
            spans.setdefault(node, []).append(Absence(at_us, rejoin_us, goodbye=False))
    return {node: _merged(spans[node]) for node in sorted(spans)}


def _churn_absences(churn: Churn, randomness: Randomness, nodes: range, end_us: Micros) -> dict[int, list[Absence]]:
    """Return the absences of each node that churn causes.

    Stays and absences of a node alternate. Draw 0 of a node decides whether the first one is an absence. Draw k
    decides the length of the k-th one.
    """
    means_us = (churn.mean_session_us, churn.mean_away_us)
    found: dict[int, list[Absence]] = {}
    for node in nodes:
        state = randomness.draw(Purpose.SESSION, node)
        away = below(extend(state, 0), MILLION) < churn.away_millionths
        time_us = churn.start_us
        count = 0
        while time_us <= end_us:
            count += 1
            until_us = time_us + max(1, exponential_us(extend(state, count), means_us[away]))
            if away:
                found.setdefault(node, []).append(Absence(time_us, until_us, churn.goodbye))
            time_us = until_us
            away = not away
    return found


def _merged(absences: list[Absence]) -> list[Absence]:
    """Return the sorted absences of a node. Those that overlap or touch become one, with `goodbye` of the first."""
    merged: list[Absence] = []
    for absence in sorted(absences):
        if merged and absence.start_us <= merged[-1].end_us:
            last = merged[-1]
            merged[-1] = Absence(last.start_us, max(last.end_us, absence.end_us), last.goodbye)
        else:
            merged.append(absence)
    return merged


def _link_faults(scenario: Scenario, randomness: Randomness, dials: Dials) -> list[Fault]:
    """Return the beginning and the end of each partition and each cut. Partitions have the fault numbers 0, 1, …, and
    the numbers of cuts follow."""
    nodes = node_numbers(scenario.network.nodes)
    events: list[Fault] = []
    for fault, partition in enumerate(scenario.faults.partition):
        side = random_share(partition.share_millionths, randomness, Purpose.PARTITION, (fault,), nodes)
        events.append(LinksCut(partition.at_us, fault, frozenset(side), ()))
        events.append(LinksHealed(partition.heal_us, fault))
    for fault, cut in enumerate(scenario.faults.cut, start=len(scenario.faults.partition)):
        if cut.share_millionths is None:
            links = sorted({(min(link), max(link)) for link in cut.links or ()})
        else:
            links = _links_to_cut(dials, fault, cut.share_millionths, randomness)
        events.append(LinksCut(cut.at_us, fault, None, tuple(links)))
        if cut.heal_us is not None:
            events.append(LinksHealed(cut.heal_us, fault))
    return events


def _links_to_cut(dials: Dials, fault: int, millionths: int, randomness: Randomness) -> list[tuple[int, int]]:
    """Return a random share of all pairs of nodes in which one node dials the other at the start of the run."""
    nodes = len(dials)
    dialling = np.repeat(node_numbers(nodes), np.diff(dials.starts))
    dialled = dials.targets.astype(np.uint64)
    ends = np.sort(np.minimum(dialling, dialled) * np.uint64(nodes) + np.maximum(dialling, dialled))
    pairs = ends[np.flatnonzero(np.diff(ends, prepend=_NO_PAIR))]  # ten times as fast as np.unique
    low, high = pairs // np.uint64(nodes), pairs % np.uint64(nodes)
    chosen = random_share(millionths, randomness, Purpose.LINK_CUT, (fault,), low, high)
    return list(zip(low[chosen].tolist(), high[chosen].tolist(), strict=True))


_KINDS_IN_ORDER = (LinksHealed, NodeUp, NodeDown, LinksCut)


def _order(fault: Fault) -> tuple[Micros, int, int]:
    number = fault.node if isinstance(fault, NodeUp | NodeDown) else fault.fault
    return fault.time_us, _KINDS_IN_ORDER.index(type(fault)), number


def planned_arrivals_us(scenario: Scenario, randomness: Randomness) -> list[Micros]:
    """Return the times of the workload's messages, ascending."""
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
    """Return the time at which the run ends; `arrivals_us` are the times of the workload's messages."""
    last_us = arrivals_us[-1] + scenario.workload.interval_us if arrivals_us else scenario.warmup_us
    return max(last_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us


class PublisherDraw:
    """The draw of publishers for the messages of a workload, in the order of time.

    Its creation raises `ScenarioError` if no node can ever publish.
    """

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
        """Return the publisher of a message, or None if no node that may publish is up.

        `time_us` must not be before that of the previous call.
        """
        self._apply_timed(time_us)
        if self._fixed is not None:
            pool: Sequence[int] = self._fixed[topic]
        elif self._class is Publishers.SUBSCRIBERS:
            pool = self._members[topic]
        else:
            pool = range(self._nodes)
        for attempt in range(_ATTEMPTS if pool else 0):
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
        """Apply the timed joins and leaves until the time `time_us` to the members of topics."""
        while self._by_topic and self._applied < len(self._timed) and self._timed[self._applied].time_us <= time_us:
            action = self._timed[self._applied]
            self._applied += 1
            members = self._members[action.topic]
            is_member = _contains(members, action.node)
            if action.join and not is_member:
                insort(members, action.node)
            elif is_member and not action.join:
                members.remove(action.node)

    def _fixed_set(self, topic: int, count: int) -> list[int]:
        """Return `count` random nodes that are in the class at the start of the run; all of them if there are fewer.

        If the class does not depend on the topic, all topics have the same set.
        """
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
        """Raise `ScenarioError` if no node is in the class at any time or, if the publishers are `fixed`, at the
        start of the run."""
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
    """Return all publications of a run in the order of their numbers."""
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
