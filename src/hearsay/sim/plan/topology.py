"""Who dials whom when the run starts.

Rules:

* A node's targets are in the order it dials them, without itself and without repetition. Two nodes may dial each
  other; only an edge list names each pair once.
* random: `degree` others, as simsub does. ring_random: the next node, then degree - 1 random others. scale_free:
  Barabási and Albert's growth, max(1, degree // 2) links per new node, to old ones by their degree. complete: all
  higher numbers. edge_list: as the file says, the first of a line dials.
* Draws are those of `Randomness.distinct`, made for many nodes at once where there are many. When not few out of
  many are wanted, repeating draws until new would take long, and Floyd's sample of the others is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, cast, overload

import numpy as np
from numpy.typing import NDArray

from hearsay.core.rules.mixing import GOLDEN, extend, mix
from hearsay.core.shell.randomness import Purpose, Randomness, below, sample_indices
from hearsay.sim.scenario.sections.network import TopologyKind
from hearsay.sim.scenario.tables import read_edges

if TYPE_CHECKING:
    from hearsay.sim.scenario.scenario import Scenario

Words = NDArray[np.uint64]
_extend_words = cast(Callable[[Words, Words], Words], extend)

_FEW = 64
_CHUNK = 1 << 16


class Dials(Sequence[list[int]]):
    """For each node the nodes that it dials, in order: all in one array, as lists would take ten times the room."""

    def __init__(self, counts: Sequence[int] | NDArray[np.int64], targets: NDArray[np.int32]) -> None:
        self.starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=self.starts[1:])
        self.targets = targets

    @classmethod
    def of_lists(cls, lists: Sequence[Sequence[int]]) -> Dials:
        counts = [len(targets) for targets in lists]
        return cls(counts, np.fromiter(chain.from_iterable(lists), np.int32, sum(counts)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, node: int) -> list[int]: ...
    @overload
    def __getitem__(self, node: slice) -> list[list[int]]: ...
    def __getitem__(self, node: int | slice) -> list[int] | list[list[int]]:
        if isinstance(node, slice):
            return [self[each] for each in range(*node.indices(len(self)))]
        if not 0 <= node < len(self):
            raise IndexError(node)
        return self.targets[self.starts[node] : self.starts[node + 1]].tolist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        lists = cast("Sequence[object]", other)
        return len(self) == len(lists) and all(map(eq, self, lists))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def dials(scenario: Scenario, randomness: Randomness) -> Dials:
    network = scenario.network
    nodes = network.nodes
    match network.topology:
        case TopologyKind.RANDOM:
            return _random(nodes, network.degree, randomness)
        case TopologyKind.RING_RANDOM:
            return Dials.of_lists(_ring_random(nodes, network.degree, randomness))
        case TopologyKind.SCALE_FREE:
            return Dials.of_lists(_scale_free(nodes, max(1, network.degree // 2), randomness))
        case TopologyKind.COMPLETE:
            everyone = list(range(nodes))
            return Dials.of_lists([everyone[node + 1 :] for node in everyone])
        case TopologyKind.EDGE_LIST:
            return Dials.of_lists(_by_edges(nodes, Path(network.edges_file or "")))


def distinct(
    randomness: Randomness, count: int, bound: int, exclude: int, purpose: Purpose, *words: int
) -> list[int]:
    """`Randomness.distinct` for any count: at most all there are, and quick when that is most of them."""
    available = bound - (0 <= exclude < bound)
    count = min(count, available)
    if _few(count, available):
        return randomness.distinct(count, bound, exclude, purpose, *words)
    if count == available:
        return [index for index in range(bound) if index != exclude]
    indices = sample_indices(randomness.draw(purpose, *words), available, count)
    return [index + (0 <= exclude <= index) for index in indices]


def draw_array(randomness: Randomness, purpose: Purpose, words: Sequence[int], *columns: Words) -> Words:
    """`randomness.draw(purpose, *words, *row)` for each row of the columns."""
    states = np.array(randomness.draw(purpose, *words), dtype=np.uint64)
    for column in columns:
        states = _extend_words(states, column)
    return states


def _few(count: int, available: int) -> bool:
    return count <= _FEW and 2 * count <= available


def _random(nodes: int, degree: int, randomness: Randomness) -> Dials:
    count = min(degree, nodes - 1)
    if not _few(count, nodes - 1):
        return Dials.of_lists(
            [distinct(randomness, count, nodes, node, Purpose.TOPOLOGY, node) for node in range(nodes)]
        )
    targets = np.empty((nodes, count), dtype=np.int32)
    for start in range(0, nodes, _CHUNK):
        chunk = range(start, min(start + _CHUNK, nodes))
        targets[chunk.start : chunk.stop] = _few_random(chunk, count, nodes, randomness)
    return Dials(np.full(nodes, count), targets.ravel())


def _few_random(chunk: range, count: int, nodes: int, randomness: Randomness) -> Words:
    """What `Randomness.distinct` gives, for a run of nodes: first draws in one go, repetitions one by one."""
    numbers = np.arange(chunk.start, chunk.stop, dtype=np.uint64)
    states = draw_array(randomness, Purpose.TOPOLOGY, (), numbers)
    attempts = np.arange(count, dtype=np.uint64)
    draws = _extend_words(states[:, None], attempts[None, :])
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
        # Places count the nodes from two steps ahead round to the one before this.
        targets.append([following, *((node + 2 + place) % nodes for place in places)])
    return targets


def _scale_free(nodes: int, links: int, randomness: Randomness) -> list[list[int]]:
    """The first `links` nodes have none of their own; the next dials them all; `ends` has a node once per link."""
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
