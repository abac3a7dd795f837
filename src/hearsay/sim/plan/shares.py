"""An exact share of n things: the nearest whole number of them, those with the smallest draws."""

from __future__ import annotations

import numpy as np

from hearsay.sim.plan.topology import Words
from hearsay.sim.scenario.values import MILLION


def part_of(count: int, millionths: int) -> int:
    """The whole number nearest to that share of `count`."""
    return (count * millionths + MILLION // 2) // MILLION


def node_numbers(count: int) -> Words:
    return np.arange(count, dtype=np.uint64)


def smallest(draws: Words, count: int) -> list[int]:
    """The places of the `count` smallest draws, ascending."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())
