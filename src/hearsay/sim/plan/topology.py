"""The peers that each node dials when the run starts.

Rules:

* A node's targets are in the order in which it dials them, without itself and without repetition. Two nodes may dial
  each other, except with an edge list, which has each pair once.
* random: `degree` others, as in simsub. ring_random: the next node, then degree - 1 random others. scale_free: as
  Barabási and Albert let a network grow, each new node links to max(1, degree // 2) old ones, chosen in proportion to
  their degrees. complete: all higher numbers. edge_list: as in the file; the first node of a line dials.
* If a node dials few of many nodes, its targets are those of `Randomness.distinct`, drawn for many nodes at once.
  Otherwise such draws would often repeat, and Floyd's algorithm samples the targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import eq
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.rules.mixing import GOLDEN, mix
from hearsay.core.shell.randomness import Purpose, Randomness, below
from hearsay.sim.plan.draws import Words, distinct, draw_array, extend_words, is_few
from hearsay.sim.scenario.network import TopologyKind
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.tables import read_edges

_CHUNK = 1 << 16


class Dials:
    """For each node the nodes that it dials, in order, in one array: lists would take ten times the memory.

    The targets of node n are `targets[starts[n]:starts[n + 1]]`.
    """

    def __init__(self, counts: Sequence[int] | NDArray[np.int64], targets: NDArray[np.int32]) -> None:
        self.starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=self.starts[1:])
        self.targets = targets

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> Dials:
        counts = [len(targets) for targets in lists]
        return cls(counts, np.fromiter(chain.from_iterable(lists), np.int32, sum(counts)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, node: int) -> list[int]:
        if not 0 <= node < len(self):
            raise IndexError(node)
        return self.targets[self.starts[node] : self.starts[node + 1]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dials | list):
            return NotImplemented
        lists = cast("Dials | list[object]", other)
        return len(self) == len(lists) and all(map(eq, self, lists))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def dials(scenario: Scenario, randomness: Randomness) -> Dials:
    """Return the dials of a scenario's topology."""
    network = scenario.network
    nodes = network.nodes
    match network.topology:
        case TopologyKind.RANDOM:
            return _random(nodes, network.degree, randomness)
        case TopologyKind.RING_RANDOM:
            return Dials.from_lists(_ring_random(nodes, network.degree, randomness))
        case TopologyKind.SCALE_FREE:
            return Dials.from_lists(_scale_free(nodes, max(1, network.degree // 2), randomness))
        case TopologyKind.COMPLETE:
            return Dials.from_lists([range(node + 1, nodes) for node in range(nodes)])
        case TopologyKind.EDGE_LIST:
            return Dials.from_lists(_by_edges(nodes, Path(network.edges_file or "")))


def _random(nodes: int, degree: int, randomness: Randomness) -> Dials:
    count = min(degree, nodes - 1)
    if not is_few(count, nodes - 1):
        return Dials.from_lists(
            [distinct(randomness, count, nodes, node, Purpose.TOPOLOGY, node) for node in range(nodes)]
        )
    targets = np.empty((nodes, count), dtype=np.int32)
    for start in range(0, nodes, _CHUNK):
        chunk = range(start, min(start + _CHUNK, nodes))
        targets[chunk.start : chunk.stop] = _few_random(chunk, count, nodes, randomness)
    return Dials(np.full(nodes, count), targets.ravel())


def _few_random(chunk: range, count: int, nodes: int, randomness: Randomness) -> Words:
    """Return `Randomness.distinct` for a chunk of nodes. Nodes whose draws collide are drawn again one by one."""
    numbers = np.arange(chunk.start, chunk.stop, dtype=np.uint64)
    states = draw_array(randomness, Purpose.TOPOLOGY, (), numbers)
    attempts = np.arange(count, dtype=np.uint64)
    draws = extend_words(states[:, None], attempts[None, :])
    candidates = ((draws >> np.uint64(32)) * np.uint64(nodes)) >> np.uint64(32)
    in_order = np.sort(candidates, axis=1)
    again = (candidates == numbers[:, None]).any(axis=1) | (in_order[:, 1:] == in_order[:, :-1]).any(axis=1)
    for place in np.flatnonzero(again).tolist():
        node = chunk.start + place
        candidates[place] = randomness.distinct(count, nodes, node, Purpose.TOPOLOGY, node)
    return candidates


def _ring_random(nodes: int, degree: int, randomness: Randomness) -> list[list[int]]:
    if nodes == 1 or degree == 0:
        return [[] for _ in range(nodes)]
    targets: list[list[int]] = []
    for node in range(nodes):
        following = (node + 1) % nodes
        places = distinct(randomness, degree - 1, nodes - 2, -1, Purpose.TOPOLOGY, node)
        # Place 0 is the node after the next one, which is a target already.
        targets.append([following, *((node + 2 + place) % nodes for place in places)])
    return targets


def _scale_free(nodes: int, links: int, randomness: Randomness) -> list[list[int]]:
    """Return the dials. The first `links` nodes dial none, and the next one dials all of them. `ends` has each node
    once for each of its links, so that a node is drawn in proportion to its degree."""
    first = min(links, nodes - 1)
    targets: list[list[int]] = [[] for _ in range(first)]
    ends: list[int] = []
    for node in range(first, nodes):
        chosen: list[int] = []
        if node == first:
            chosen += range(first)
        else:
            state = randomness.draw(Purpose.TOPOLOGY, node)
            while len(chosen) < first:
                target = ends[below(mix(state), len(ends))]
                state += GOLDEN
                if target not in chosen:
                    chosen.append(target)
        targets.append(chosen)
        ends += chosen
        ends += [node] * first
    return targets


def _by_edges(nodes: int, path: Path) -> list[list[int]]:
    targets: list[list[int]] = [[] for _ in range(nodes)]
    pairs: set[tuple[int, int]] = set()
    for a, b in read_edges(path, nodes):
        pair = (a, b) if a < b else (b, a)
        if pair not in pairs:
            pairs.add(pair)
            targets[a].append(b)
    return targets
