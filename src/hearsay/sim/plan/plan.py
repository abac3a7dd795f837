"""The plan of a run: all decisions that precede the run, as integers. Both engines carry out the plan.

Rules:

* A node whose router does not allow a topic (`allowed_topics`) never subscribes to the topic. A scenario in which
  such a node joins the topic later, or publishes in it, is invalid.
* The rules of publications are in `events.py`, those of dials in `network.py`, and those of faults in
  `sim/reference/connections.py`.
* A message is either valid or invalid, at all nodes alike. A message that an entry of `validation.invalid` matches is
  invalid. If several entries match, the last one sets the verdict and the nodes that accept the message.
  Other messages are invalid at random (`reject_share`).
* If an entry has `forwards_invalid`, its nodes accept the messages that this entry makes invalid, and so forward
  them.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hearsay.core.language.events import Verdict
from hearsay.core.language.identifiers import Micros
from hearsay.core.registry import RouterKind
from hearsay.core.rules.randomness import Purpose, Randomness, key_of
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.received_parts import subscription_filter
from hearsay.sim.plan.draws import chosen, draw_array, natted_nodes, node_numbers, part_of, smallest
from hearsay.sim.plan.events import (
    Fault,
    Publication,
    PublisherDraw,
    TimedAction,
    planned_absences,
    planned_arrivals_us,
    planned_end_us,
    planned_faults,
    planned_publications,
)
from hearsay.sim.plan.network import Dials, dials
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import MILLION
from hearsay.sim.scenario.workload import TimedKind, TopicGroup


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions that precede a run. Nodes, topics, routers and messages are numbers."""

    scenario: Scenario
    topics: tuple[str, ...]
    routers: tuple[tuple[RouterKind, RouterParameters], ...]
    """The kind and the parameters of the scenario's router, followed by those of each population's router."""
    router_of: array[int]
    """For each node, the index of its router in `routers`."""
    members: tuple[Sequence[int], ...]
    """For each topic, the nodes that subscribe to it from the start, ascending."""
    dials: Dials
    publications: tuple[Publication, ...]
    timed: tuple[TimedAction, ...]
    """Joins and leaves in the order of time."""
    faults: tuple[Fault, ...]
    initially_down: frozenset[int]
    natted: frozenset[int]
    """The nodes that accept no inbound connection."""
    end_us: Micros

    @property
    def subscriptions(self) -> list[tuple[int, ...]]:
        """For each node, the topics to which it subscribes from the start."""
        subscriptions: list[list[int]] = [[] for _ in self.router_of]
        for topic, members in enumerate(self.members):
            for node in members:
                subscriptions[node].append(topic)
        return [tuple(topics) for topics in subscriptions]


def make_plan(scenario: Scenario) -> Plan:
    """Return the plan of a scenario. Equal scenarios always have equal plans.

    Raise `ScenarioError` if no node can publish, if a node is to join or publish in a topic that its router does not
    allow, or if the edge list cannot be used.
    """
    randomness = Randomness(scenario.seed)
    topics = scenario.topic_names
    routers = tuple((choice.definition, choice.parameters) for choice in scenario.routers.values())
    router_of = _router_of(scenario, randomness)
    refused = [_refused_topics(topics, parameters) for _, parameters in routers]
    groups = [group for group in scenario.topics for _ in group.names]
    members: list[Sequence[int]] = []
    for topic, group in enumerate(groups):
        nodes = _topic_members(group, topic, scenario.network.nodes, randomness)
        members.append([node for node in nodes if topic not in refused[router_of[node]]] if any(refused) else nodes)
    targets = dials(scenario, randomness)
    timed = _timed_actions(scenario)
    arrivals_us = planned_arrivals_us(scenario, randomness)
    end_us = planned_end_us(scenario, arrivals_us)
    absences = planned_absences(scenario, randomness, end_us)
    publishers = PublisherDraw(scenario, randomness, members, timed, absences)
    publications = planned_publications(scenario, randomness, arrivals_us, publishers)
    actions = [(action.node, action.topic) for action in timed if action.join]
    actions += [(node, each.topic) for each in publications for node in each.inject or (each.publisher,)]
    if any(refused):
        _require_allowed(actions, scenario, router_of, refused)
    return Plan(
        scenario=scenario,
        topics=topics,
        routers=routers,
        router_of=router_of,
        members=tuple(members),
        dials=targets,
        publications=publications,
        timed=timed,
        faults=planned_faults(scenario, randomness, targets, absences, end_us),
        initially_down=frozenset(node for node, spans in absences.items() if spans[0].start_us == 0),
        natted=natted_nodes(scenario.network, randomness),
        end_us=end_us,
    )


def _router_of(scenario: Scenario, randomness: Randomness) -> array[int]:
    nodes = scenario.network.nodes
    if not scenario.population:
        return array("H", bytes(2 * nodes))
    order = np.argsort(draw_array(randomness, Purpose.POPULATION, (), node_numbers(nodes)), kind="stable")
    router_of = np.zeros(nodes, dtype=np.uint16)
    for number, population in enumerate(scenario.population, start=1):
        router_of[list(population.listed or ())] = number
    order = order[router_of[order] == 0]
    start = 0
    for number, population in enumerate(scenario.population, start=1):
        stop = start + part_of(nodes, population.share_millionths)
        router_of[order[start:stop]] = number
        start = stop
    return array("H", router_of.tobytes())


def _topic_members(group: TopicGroup, topic: int, nodes: int, randomness: Randomness) -> Sequence[int]:
    """Return the nodes whose applications subscribe to a topic, ascending. Some of their routers may not allow it."""
    if group.subscribers is not None:
        return sorted(group.subscribers)
    if group.share_millionths is None and group.subscribers_count is None:
        return range(nodes)
    draws = draw_array(randomness, Purpose.SUBSCRIPTION, (topic,), node_numbers(nodes))
    if group.subscribers_count is not None:
        return smallest(draws, group.subscribers_count)
    chances = ((draws >> np.uint64(32)) * np.uint64(MILLION)) >> np.uint64(32)
    return np.flatnonzero(chances < np.uint64(group.share_millionths or 0)).tolist()


def _refused_topics(topics: Sequence[str], parameters: RouterParameters) -> frozenset[int]:
    allowed = subscription_filter(parameters)
    if allowed is None:
        return frozenset()
    return frozenset(number for number, name in enumerate(topics) if not allowed.allows(name))


def _require_allowed(
    actions: Iterable[tuple[int, int]], scenario: Scenario, router_of: Sequence[int], refused: list[frozenset[int]]
) -> None:
    """Raise `ScenarioError` if one of the `actions`, which are pairs of node and topic, is in a topic that the node's
    router does not allow. `refused` has the topics that each router does not allow."""
    for node, topic in actions:
        if topic in refused[router_of[node]]:
            table, name = list(scenario.routers)[router_of[node]], scenario.topic_names[topic]
            what = f"node {node} is to join or publish in {name!r}, which its router does not allow"
            raise ScenarioError([f"{table}.allowed_topics: {what}"])


def _timed_actions(scenario: Scenario) -> tuple[TimedAction, ...]:
    topics = {name: number for number, name in enumerate(scenario.topic_names)}
    actions = [
        TimedAction(timed.at_us, timed.node, timed.action is TimedKind.JOIN, topics[timed.topic])
        for timed in scenario.timed
        if timed.action is not TimedKind.PUBLISH
    ]
    return tuple(sorted(actions, key=lambda action: action.time_us))


class Verdicts:
    """The verdict of each node's application on each message."""

    def __init__(self, plan: Plan, randomness: Randomness) -> None:
        self._randomness = randomness
        self._reject_millionths = plan.scenario.validation.reject_millionths
        self._invalid: dict[Any, tuple[Verdict, Container[int]]] = {}
        """The verdict on each message that an entry of `validation.invalid` matches, and the nodes that accept the
        message in spite of that verdict."""
        for number, entry in enumerate(plan.scenario.validation.invalid):
            senders = chosen(entry, plan.router_of, randomness, Purpose.INVALID_SENDERS, number)
            topics = {place for place, name in enumerate(plan.topics) if entry.topics is None or name in entry.topics}
            found = (Verdict(entry.verdict), senders if entry.forwards_invalid else frozenset[int]())
            for publication in plan.publications:
                message = publication.message
                matches = publication.publisher in senders and publication.topic in topics
                if matches and randomness.chance(entry.message_millionths, Purpose.INVALID, number, message):
                    self._invalid[message] = found

    def of(self, node: int, message: Any) -> Verdict:
        """Return the verdict of a node's application on a message."""
        verdict, accepting = self.of_all(message)
        return Verdict.ACCEPT if node in accepting else verdict

    def of_all(self, message: Any) -> tuple[Verdict, Container[int]]:
        """Return the verdict on a message, and the nodes that accept the message in spite of that verdict."""
        found = self._invalid.get(message)
        if found is not None:
            return found
        rejected = self._randomness.chance(self._reject_millionths, Purpose.REJECT, key_of(message))
        return Verdict.REJECT if rejected else Verdict.ACCEPT, frozenset[int]()
