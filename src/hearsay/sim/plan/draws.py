"""Random choices of nodes, drawn for many nodes at once.

* An exact share of n things is the nearest whole number of them, those with the smallest draws.
* Draws are those of `Randomness`, so a choice for one node does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, Randomness, sample_indices
from hearsay.sim.scenario.network import Network
from hearsay.sim.scenario.values import MILLION, SomeNodes

Words = NDArray[np.uint64]
extend_words = cast("Callable[[Words, Words], Words]", extend)
_FEW = 64


def draw_array(randomness: Randomness, purpose: Purpose, words: Sequence[int], *columns: Words) -> Words:
    """Return `randomness.draw(purpose, *words, *row)` for each row of the columns."""
    states = np.array(randomness.draw(purpose, *words), dtype=np.uint64)
    for column in columns:
        states = extend_words(states, column)
    return states


def node_numbers(count: int) -> Words:
    """Return 0 … count - 1."""
    return np.arange(count, dtype=np.uint64)


def part_of(count: int, millionths: int) -> int:
    """Return the whole number nearest to that share of `count`."""
    return (count * millionths + MILLION // 2) // MILLION


def smallest(draws: Words, count: int) -> list[int]:
    """Return the indices of the `count` smallest draws, ascending."""
    return sorted(np.argsort(draws, kind="stable")[:count].tolist())


def chosen(
    some: SomeNodes, router_of: Sequence[int], randomness: Randomness, purpose: Purpose, entry: int
) -> Container[int]:
    """Return the nodes of a scenario's entry, whose number makes its draws differ from those of other entries."""
    if some.listed is not None:
        return frozenset(some.listed)
    if some.population is not None:
        return frozenset(node for node, router in enumerate(router_of) if router == some.population + 1)
    if some.share_millionths is not None:
        draws = draw_array(randomness, purpose, (entry,), node_numbers(len(router_of)))
        return frozenset(smallest(draws, part_of(len(router_of), some.share_millionths)))
    return range(len(router_of))


def natted_nodes(network: Network, randomness: Randomness) -> frozenset[int]:
    """Return the nodes that accept no inbound connection."""
    if not network.nat_millionths:
        return frozenset()
    draws = draw_array(randomness, Purpose.NAT, (), node_numbers(network.nodes))
    return frozenset(smallest(draws, part_of(network.nodes, network.nat_millionths)))


def is_few(count: int, available: int) -> bool:
    """Return whether `count` distinct numbers are drawn quickly one after the other."""
    return count <= _FEW and 2 * count <= available


def distinct(
    randomness: Randomness, count: int, bound: int, exclude: int, purpose: Purpose, *words: int
) -> list[int]:
    """Return `Randomness.distinct` for any count: at most all numbers, and quickly if that is most of them."""
    available = bound - (0 <= exclude < bound)
    count = min(count, available)
    if is_few(count, available):
        return randomness.distinct(count, bound, exclude, purpose, *words)
    if count == available:
        return [index for index in range(bound) if index != exclude]
    indices = sample_indices(randomness.draw(purpose, *words), available, count)
    return [index + (0 <= exclude <= index) for index in indices]
