"""Who subscribes to what from the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.shares import node_numbers, smallest
from hearsay.sim.plan.topology import draw_array
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import MILLION
from hearsay.sim.scenario.workload import TopicGroup


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


def subscribed_from_the_start(scenario: Scenario, randomness: Randomness) -> list[Sequence[int]]:
    """For each topic the nodes that subscribe from the start, ascending."""
    groups = [group for group in scenario.topics for _ in group.names]
    nodes = scenario.network.nodes
    return [_topic_members(group, number, nodes, randomness) for number, group in enumerate(groups)]


def _topic_members(group: TopicGroup, topic: int, nodes: int, randomness: Randomness) -> Sequence[int]:
    if group.subscribers is not None:
        return sorted(group.subscribers)
    if group.share_millionths is None and group.subscribers_count is None:
        return range(nodes)
    draws = draw_array(randomness, Purpose.SUBSCRIPTION, (topic,), node_numbers(nodes))
    if group.subscribers_count is not None:
        return smallest(draws, group.subscribers_count)
    chances = ((draws >> np.uint64(32)) * np.uint64(MILLION)) >> np.uint64(32)
    return np.flatnonzero(chances < np.uint64(group.share_millionths or 0)).tolist()


def topics_of_nodes(members: list[Sequence[int]], nodes: int) -> Sequence[tuple[int, ...]]:
    if all(len(of_topic) == nodes for of_topic in members):
        return SameForAllNodes(tuple(range(len(members))), nodes)
    subscriptions: list[list[int]] = [[] for _ in range(nodes)]
    for topic, of_topic in enumerate(members):
        for node in of_topic:
            subscriptions[node].append(topic)
    return [tuple(topics) for topics in subscriptions]
