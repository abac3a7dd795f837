"""An exact share of n things: the nearest whole number of them, those with the smallest draws."""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.topology import Words, draw_array
from hearsay.sim.scenario.sections.network import Network
from hearsay.sim.scenario.sections.values import MILLION


def part_of(count: int, millionths: int) -> int:
    """The whole number nearest to that share of `count`."""
    return (count * millionths + MILLION // 2) // MILLION


def node_numbers(count: int) -> Words:
    return np.arange(count, dtype=np.uint64)


def smallest(draws: Words, count: int) -> list[int]:
    """The places of the `count` smallest draws, ascending."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())


def natted_nodes(network: Network, randomness: Randomness) -> frozenset[int]:
    """Return the nodes that accept no inbound connection."""
    if not network.nat_millionths:
        return frozenset()
    draws = draw_array(randomness, Purpose.NAT, (), node_numbers(network.nodes))
    return frozenset(smallest(draws, part_of(network.nodes, network.nat_millionths)))
