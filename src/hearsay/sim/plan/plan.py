"""The plan of a run: everything that is decided before it starts, as plain integers.

Rules (an engine only carries out, so that every engine does the same):

* When messages are published: `publications.py`. By whom: `publishers.py`. When a node is away: `absences.py`.
* An exact share of n things is the nearest whole number of them, those with the smallest draws.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.registry import RouterKind
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.absences import comings_and_goings, planned_absences
from hearsay.sim.plan.allowed_topics import AllowedTopics
from hearsay.sim.plan.link_faults import fault_order, planned_link_faults
from hearsay.sim.plan.planned_events import Fault, Publication, TimedAction
from hearsay.sim.plan.publications import planned_arrivals_us, planned_end_us, planned_publications
from hearsay.sim.plan.publishers import PublisherDraw
from hearsay.sim.plan.shares import natted_nodes, node_numbers, part_of
from hearsay.sim.plan.subscriptions import subscribed_from_the_start, topics_of_nodes
from hearsay.sim.plan.topology import Dials, dials, draw_array
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.sections.workload import TimedKind


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
    """The plan of a scenario; depends on nothing else. Raises `ScenarioError` when it cannot be carried out."""
    randomness = Randomness(scenario.seed)
    nodes = scenario.network.nodes
    choices = (scenario.router, *(population.router for population in scenario.population))
    router_of = _router_of(scenario, randomness)
    allowed = AllowedTopics(scenario.topic_names, [choice.parameters for choice in choices], router_of)
    members = allowed.members(subscribed_from_the_start(scenario, randomness))
    targets = dials(scenario, randomness)
    timed = _timed_actions(scenario)
    arrivals_us = planned_arrivals_us(scenario, randomness)
    end_us = planned_end_us(scenario, arrivals_us)
    absences = planned_absences(scenario, randomness, end_us)
    publishers = PublisherDraw(scenario, randomness, members, timed, absences)
    faults = [*comings_and_goings(absences, end_us), *planned_link_faults(scenario, randomness, targets, end_us)]
    publications = planned_publications(scenario, randomness, arrivals_us, publishers)
    allowed.check(timed, publications)
    return Plan(
        scenario=scenario,
        topics=scenario.topic_names,
        routers=tuple((choice.definition, choice.parameters) for choice in choices),
        router_of=router_of,
        subscriptions=topics_of_nodes(members, nodes),
        dials=targets,
        publications=publications,
        timed=timed,
        faults=tuple(sorted(faults, key=fault_order)),
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


def _timed_actions(scenario: Scenario) -> tuple[TimedAction, ...]:
    topics = {name: number for number, name in enumerate(scenario.topic_names)}
    actions = [
        TimedAction(timed.at_us, timed.node, timed.action is TimedKind.JOIN, topics[timed.topic])
        for timed in scenario.timed
        if timed.action is not TimedKind.PUBLISH
    ]
    return tuple(sorted(actions, key=lambda action: action.time_us))
