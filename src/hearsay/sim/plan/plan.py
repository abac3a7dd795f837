"""The plan of a run: everything that is decided before it starts, as plain integers.

Rules (an engine only carries out, so that every engine does the same):

* Publications are numbered in time order, the workload's before `[[timed]]` ones of the same time. Message i of the
  workload is at warm-up + i × interval, or after Poisson gaps. The run ends one interval and the linger time after
  the last, or the linger time after the last timed event.
* A publisher is drawn among the nodes of its class that are up at the time, timed joins and leaves included; when
  there is none, the publication is left out. A timed publish, and the script's injection, are planned regardless.
* A node is away when churn or a crash says so. Its absences are merged, so that it never goes down twice in a row;
  one that starts at time 0 makes it initially down. A crash without rejoining is for good, whatever churn says.
* An exact share of n things is the nearest whole number of them, those with the smallest draws.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias, overload

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.registry import RouterKind
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.randomness import Purpose, Randomness, below, sample
from hearsay.sim.plan.quantiles import exponential_us
from hearsay.sim.plan.topology import Dials, Words, dials, distinct, draw_array
from hearsay.sim.scenario.scenario import Scenario, ScenarioError
from hearsay.sim.scenario.sections.values import MILLION
from hearsay.sim.scenario.sections.workload import Arrivals, Publishers, TimedKind, TopicChoice, TopicGroup

_FOREVER_US = 1 << 62
_ATTEMPTS = 64
_NO_PAIR = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class Publication:
    """A message and where it enters: `publisher` is a node, or `nodes` for the script, which sends it to `inject`."""

    time_us: Micros
    message: int
    topic: int
    publisher: int
    inject: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedAction:
    """A node joins or leaves a topic."""

    time_us: Micros
    node: int
    join: bool
    topic: int


@dataclass(frozen=True, slots=True)
class NodeDown:
    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """A partition names one side, and all links across are cut; a cut names the links."""

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed


@dataclass(frozen=True, slots=True)
class SameForAllNodes(Sequence[tuple[int, ...]]):
    """What all nodes subscribe to; a list would take eight bytes a node to say so."""

    topics: tuple[int, ...]
    nodes: int

    def __len__(self) -> int:
        return self.nodes

    @overload
    def __getitem__(self, node: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, node: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, node: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(node, slice):
            return [self.topics] * len(range(*node.indices(self.nodes)))
        if not 0 <= node < self.nodes:
            raise IndexError(node)
        return self.topics


@dataclass(frozen=True, slots=True)
class Plan:
    scenario: Scenario
    topics: tuple[str, ...]
    routers: tuple[tuple[RouterKind, RouterParameters], ...]
    router_of: array[int]
    subscriptions: Sequence[tuple[int, ...]]
    dials: Dials
    publications: tuple[Publication, ...]
    timed: tuple[TimedAction, ...]
    faults: tuple[Fault, ...]
    initially_down: frozenset[int]
    natted: frozenset[int]
    end_us: Micros

    def without_dials(self) -> Plan:
        """What is still to be known of a run once its network has come about."""
        return replace(self, dials=Dials.of_lists([]))


def make_plan(scenario: Scenario) -> Plan:
    """The plan of a scenario; depends on nothing else. Raises `ScenarioError` when nobody could ever publish."""
    randomness = Randomness(scenario.seed)
    nodes = scenario.network.nodes
    members = _members(scenario, randomness)
    targets = dials(scenario, randomness)
    timed = _timed_actions(scenario)
    arrivals_us = _arrivals_us(scenario, randomness)
    end_us = _end_us(scenario, arrivals_us)
    absences = _absences(scenario, randomness, end_us)
    publishers = _PublisherDraw(scenario, randomness, members, timed, absences)
    faults = [*_comings_and_goings(absences, end_us), *_link_faults(scenario, randomness, targets, end_us)]
    choices = (scenario.router, *(population.router for population in scenario.population))
    return Plan(
        scenario=scenario,
        topics=scenario.topic_names,
        routers=tuple((choice.definition, choice.parameters) for choice in choices),
        router_of=_router_of(scenario, randomness),
        subscriptions=_subscriptions(members, nodes),
        dials=targets,
        publications=_publications(scenario, randomness, arrivals_us, publishers),
        timed=timed,
        faults=tuple(sorted(faults, key=_fault_order)),
        initially_down=frozenset(node for node, spans in absences.items() if spans[0].start_us == 0),
        natted=_natted(scenario, randomness),
        end_us=end_us,
    )


def _natted(scenario: Scenario, randomness: Randomness) -> frozenset[int]:
    """The nodes that accept no inbound connection."""
    network = scenario.network
    if not network.nat_millionths:
        return frozenset()
    draws = draw_array(randomness, Purpose.NAT, (), _numbers(network.nodes))
    return frozenset(_smallest(draws, _part(network.nodes, network.nat_millionths)))


def _part(count: int, millionths: int) -> int:
    """The whole number nearest to that share of `count`."""
    return (count * millionths + MILLION // 2) // MILLION


def _numbers(count: int) -> Words:
    return np.arange(count, dtype=np.uint64)


def _smallest(draws: Words, count: int) -> list[int]:
    """The places of the `count` smallest draws, ascending."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())


def _router_of(scenario: Scenario, randomness: Randomness) -> array[int]:
    nodes = scenario.network.nodes
    if not scenario.population:
        return array("H", bytes(2 * nodes))
    order = np.argsort(draw_array(randomness, Purpose.POPULATION, (), _numbers(nodes)), kind="stable")
    router_of = np.zeros(nodes, dtype=np.uint16)
    start = 0
    for number, population in enumerate(scenario.population, start=1):
        stop = start + _part(nodes, population.share_millionths)
        router_of[order[start:stop]] = number
        start = stop
    return array("H", router_of.tobytes())


def _members(scenario: Scenario, randomness: Randomness) -> list[Sequence[int]]:
    """For each topic the nodes that subscribe from the start, ascending."""
    groups = [group for group in scenario.topics for _ in group.names]
    nodes = scenario.network.nodes
    return [_topic_members(group, number, nodes, randomness) for number, group in enumerate(groups)]


def _topic_members(group: TopicGroup, topic: int, nodes: int, randomness: Randomness) -> Sequence[int]:
    if group.subscribers is not None:
        return sorted(group.subscribers)
    if group.share_millionths is None and group.subscribers_count is None:
        return range(nodes)
    draws = draw_array(randomness, Purpose.SUBSCRIPTION, (topic,), _numbers(nodes))
    if group.subscribers_count is not None:
        return _smallest(draws, group.subscribers_count)
    chances = ((draws >> np.uint64(32)) * np.uint64(MILLION)) >> np.uint64(32)
    return np.flatnonzero(chances < np.uint64(group.share_millionths or 0)).tolist()


def _subscriptions(members: list[Sequence[int]], nodes: int) -> Sequence[tuple[int, ...]]:
    if all(len(of_topic) == nodes for of_topic in members):
        return SameForAllNodes(tuple(range(len(members))), nodes)
    subscriptions: list[list[int]] = [[] for _ in range(nodes)]
    for topic, of_topic in enumerate(members):
        for node in of_topic:
            subscriptions[node].append(topic)
    return [tuple(topics) for topics in subscriptions]


def _timed_actions(scenario: Scenario) -> tuple[TimedAction, ...]:
    topics = {name: number for number, name in enumerate(scenario.topic_names)}
    actions = [
        TimedAction(timed.at_us, timed.node, timed.action is TimedKind.JOIN, topics[timed.topic])
        for timed in scenario.timed
        if timed.action is not TimedKind.PUBLISH
    ]
    return tuple(sorted(actions, key=lambda action: action.time_us))


def _arrivals_us(scenario: Scenario, randomness: Randomness) -> list[Micros]:
    """When the workload's messages are due."""
    workload = scenario.workload
    time_us = scenario.warmup_us
    if workload.arrivals is Arrivals.INTERVAL:
        return [time_us + number * workload.interval_us for number in range(workload.messages)]
    arrivals_us: list[Micros] = []
    for number in range(workload.messages):
        time_us += exponential_us(randomness.draw(Purpose.ARRIVAL, number), workload.interval_us)
        arrivals_us.append(time_us)
    return arrivals_us


def _end_us(scenario: Scenario, arrivals_us: list[Micros]) -> Micros:
    over_us = arrivals_us[-1] + scenario.workload.interval_us if arrivals_us else scenario.warmup_us
    return max(over_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us


@dataclass(frozen=True, slots=True, order=True)
class _Absence:
    """A node is down from `start_us` until just before `end_us`."""

    start_us: Micros
    end_us: Micros
    goodbye: bool


def _absences(scenario: Scenario, randomness: Randomness, end_us: Micros) -> dict[int, list[_Absence]]:
    """The nodes that are ever away, ascending, each with its absences in order, none touching the next."""
    spans: dict[int, list[_Absence]] = {}
    churn = scenario.faults.churn
    if churn is not None and churn.mean_away_us > 0:
        rates = _ChurnRates(
            churn.away_millionths, (churn.mean_session_us, churn.mean_away_us), churn.start_us, churn.goodbye
        )
        for node in range(scenario.network.nodes):
            away = _churn(rates, randomness, node, end_us)
            if away:
                spans[node] = away
    in_order = sorted(enumerate(scenario.faults.crash), key=lambda numbered: numbered[1].at_us)
    for number, crash in in_order:
        at_us = crash.at_us
        rejoin_us = _FOREVER_US if crash.rejoin_after_us is None else at_us + max(1, crash.rejoin_after_us)
        up = [
            node
            for node in range(scenario.network.nodes)
            if not any(span.start_us <= at_us < span.end_us for span in spans.get(node, ()))
        ]
        draws = draw_array(randomness, Purpose.CRASH, (number,), np.array(up, dtype=np.uint64))
        for place in _smallest(draws, _part(len(up), crash.share_millionths)):
            spans.setdefault(up[place], []).append(_Absence(at_us, rejoin_us, goodbye=False))
    return {node: _merged(spans[node]) for node in sorted(spans)}


@dataclass(frozen=True, slots=True)
class _ChurnRates:
    """`[faults.churn]` in integers, computed once; `means_us` are those of a session and of an absence."""

    away_millionths: int
    means_us: tuple[Micros, Micros]
    start_us: Micros
    goodbye: bool


def _churn(churn: _ChurnRates, randomness: Randomness, node: int, end_us: Micros) -> list[_Absence]:
    """Absences of one node by churn: draw 0 says whether it starts away, draw k how long its k-th span lasts."""
    state = randomness.draw(Purpose.SESSION, node)
    away = below(extend(state, 0), MILLION) < churn.away_millionths
    time_us = churn.start_us
    absences: list[_Absence] = []
    count = 0
    while time_us <= end_us:
        count += 1
        until_us = time_us + max(1, exponential_us(extend(state, count), churn.means_us[away]))
        if away:
            absences.append(_Absence(time_us, until_us, churn.goodbye))
        time_us = until_us
        away = not away
    return absences


def _merged(absences: list[_Absence]) -> list[_Absence]:
    merged: list[_Absence] = []
    for absence in sorted(absences):
        if merged and absence.start_us <= merged[-1].end_us:
            last = merged[-1]
            merged[-1] = _Absence(last.start_us, max(last.end_us, absence.end_us), last.goodbye)
        else:
            merged.append(absence)
    return merged


def _comings_and_goings(absences: dict[int, list[_Absence]], end_us: Micros) -> list[Fault]:
    events: list[Fault] = []
    for node, spans in absences.items():
        for span in spans:
            if 0 < span.start_us <= end_us:
                events.append(NodeDown(span.start_us, node, span.goodbye))
            if span.end_us <= end_us:
                events.append(NodeUp(span.end_us, node))
    return events


def _link_faults(scenario: Scenario, randomness: Randomness, targets: Dials, end_us: Micros) -> list[Fault]:
    """Partitions are faults 0, 1, …, cuts have the numbers after them."""
    nodes = scenario.network.nodes
    events: list[Fault] = []
    for fault, partition in enumerate(scenario.faults.partition):
        draws = draw_array(randomness, Purpose.PARTITION, (fault,), _numbers(nodes))
        side = frozenset(_smallest(draws, _part(nodes, partition.share_millionths)))
        events.append(LinksCut(partition.at_us, fault, side, ()))
        events.append(LinksHealed(partition.heal_us, fault))
    for fault, cut in enumerate(scenario.faults.cut, start=len(scenario.faults.partition)):
        if cut.share_millionths is None:
            links = sorted({(min(link), max(link)) for link in cut.links or ()})
        else:
            links = _links_to_cut(targets, fault, cut.share_millionths, randomness)
        events.append(LinksCut(cut.at_us, fault, None, tuple(links)))
        if cut.heal_us is not None:
            events.append(LinksHealed(cut.heal_us, fault))
    return [event for event in events if event.time_us <= end_us]


def _links_to_cut(targets: Dials, fault: int, millionths: int, randomness: Randomness) -> list[tuple[int, int]]:
    """A share of the pairs that are linked when all dials succeed."""
    nodes = len(targets)
    dialling = np.repeat(_numbers(nodes), np.diff(targets.starts))
    dialled = targets.targets.astype(np.uint64)
    ends = np.sort(np.minimum(dialling, dialled) * np.uint64(nodes) + np.maximum(dialling, dialled))
    pairs = ends[np.flatnonzero(np.diff(ends, prepend=_NO_PAIR))]  # A tenth of the time of np.unique.
    low, high = pairs // np.uint64(nodes), pairs % np.uint64(nodes)
    chosen = _smallest(draw_array(randomness, Purpose.LINK_CUT, (fault,), low, high), _part(len(pairs), millionths))
    return list(zip(low[chosen].tolist(), high[chosen].tolist(), strict=True))


def _fault_order(fault: Fault) -> tuple[Micros, int, int]:
    """By time; at one time what comes back before what goes."""
    match fault:
        case LinksHealed():
            return fault.time_us, 0, fault.fault
        case NodeUp():
            return fault.time_us, 1, fault.node
        case NodeDown():
            return fault.time_us, 2, fault.node
        case LinksCut():
            return fault.time_us, 3, fault.fault


class _PublisherDraw:
    """Draws publishers among those of the workload's class, in the order of time."""

    def __init__(
        self,
        scenario: Scenario,
        randomness: Randomness,
        members: list[Sequence[int]],
        timed: tuple[TimedAction, ...],
        absences: dict[int, list[_Absence]],
    ) -> None:
        self._nodes = scenario.network.nodes
        self._class = scenario.workload.publishers
        self._randomness = randomness
        self._absences = absences
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


def _publications(
    scenario: Scenario, randomness: Randomness, arrivals_us: list[Micros], publishers: _PublisherDraw
) -> tuple[Publication, ...]:
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
    for time_us, by_timed, number in sorted(due):
        message = len(publications)
        inject: tuple[int, ...] = ()
        if by_timed:
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
