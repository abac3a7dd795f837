"""The network of a run: addresses of nodes, latencies between them, and the peers that they dial first.

Rules of latencies:

* A pair of nodes has one base latency, the same in both directions. It depends on the pair and the seed only, and is
  at least 1 us.
* Each RPC has jitter, which is added to the base latency. It is uniform from -j to +j, and depends on source,
  destination and sequence number of the RPC.
* The script has latencies like a node. Its number is the number of nodes. With regions, it is in the first region.
* A file of regions is CSV with the header `from,to,latency_ms,jitter_ms`. It has the latency and the largest jitter
  between the regions of each pair, and within each region. One direction of a pair is enough; if the file has both,
  their means are used. Each node is in a random region, and all regions are equally likely.

Rules of dials:

* The *targets* of a node are the nodes that it dials, in the order of its dials. A node is never its own target, and
  no node is its target twice.
* `random`: a node dials `degree` random nodes, as in simsub.
* `ring_random`: a node dials the next node, then `degree` - 1 random ones.
* `scale_free`: the network grows as Barabási and Albert describe. Each new node dials `degree` // 2 earlier nodes (at
  least one), which are drawn in proportion to the number of their links.
* `complete`: a node dials all nodes with higher numbers.
* `edge_list`: the first node of each line of the file dials the second one. If two lines have the same two nodes,
  only the first line counts.
* With `random` and `ring_random`, two nodes may dial each other.
* If a node dials few of many nodes, its targets are those of `Randomness.distinct`, drawn for many nodes at once. If
  a node dials many nodes, such draws would often repeat; then Floyd's algorithm draws the targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from itertools import chain
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.randomness import GOLDEN, Purpose, Randomness, below, mix
from hearsay.sim.plan.draws import Words, distinct, draw_array, extend_words, is_few, log_normal_tables, log_normal_us
from hearsay.sim.scenario.network import Addresses, AddressForm, LatencyKind, Links, TopologyKind
from hearsay.sim.scenario.reading import Regions, read_edges, read_regions

if TYPE_CHECKING:
    from hearsay.sim.scenario.scenario import Scenario

_FIRST_IPV4 = int(IPv4Address("10.0.0.1"))
_FIRST_IPV6 = int(IPv6Address("2001:db8::1"))
_PREFIX_BITS = 64
_CHUNK = 1 << 16


def addresses(section: Addresses, nodes: int) -> list[str]:
    """Return the address of each node as text; an empty string for a node that has no known address.

    With `nodes_per_address` = n, nodes 0 to n - 1 share one address, nodes n to 2n - 1 share the next one, and so on.
    The nodes of a list in `shared` share an address of their own instead. If n is 0, a node that is in no list has no
    known address.
    """
    each = section.nodes_per_address
    numbers = [len(section.shared) + node // each if each else None for node in range(nodes)]
    for number, listed in enumerate(section.shared):
        for node in listed:
            numbers[node] = number
    return ["" if number is None else _address(section.form, number, node) for node, number in enumerate(numbers)]


def _address(form: AddressForm, number: int, node: int) -> str:
    match form:
        case AddressForm.IPV4:
            return str(IPv4Address(_FIRST_IPV4 + number))
        case AddressForm.IPV6:
            return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS)))
        case AddressForm.IPV6_PREFIX:
            return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS) + node))


class LatencyModel(ABC):
    """The latencies of a run."""

    def __init__(self, randomness: Randomness, jitter_us: Micros, shortest_us: Micros) -> None:
        self._randomness = randomness
        self._jitter_us = jitter_us
        self.has_jitter = jitter_us > 0
        self.minimum_us = max(1, shortest_us - jitter_us)
        """The shortest time of an RPC, jitter included; at least 1."""

    @abstractmethod
    def base_us(self, a: int, b: int) -> Micros:
        """Return the latency between two nodes without jitter, at least 1."""

    def jitter_us(self, source: int, destination: int, sequence: int) -> int:
        """Return the jitter of one RPC in microseconds. Engines add it to the base latency, but use at least 1 us."""
        reach_us = self._reach_us(source, destination)
        if reach_us == 0:
            return 0
        return self._randomness.below(2 * reach_us + 1, Purpose.JITTER, source, destination, sequence) - reach_us

    def region_of(self, node: int) -> str | None:
        """Return the name of the node's region; None if the scenario has no regions."""
        return None

    def _reach_us(self, source: int, destination: int) -> Micros:
        """Return the largest possible jitter of an RPC between two nodes."""
        return self._jitter_us

    def _draw(self, a: int, b: int) -> int:
        return self._randomness.draw(Purpose.LATENCY, min(a, b), max(a, b))


class UniformLatency(LatencyModel):
    """Uniformly distributed latencies between two bounds, which are included; constant if the bounds are equal."""

    def __init__(self, randomness: Randomness, jitter_us: Micros, lowest_us: Micros, highest_us: Micros) -> None:
        super().__init__(randomness, jitter_us, lowest_us)
        self.bounds = lowest_us, highest_us - lowest_us + 1
        """The lowest latency in microseconds, and the number of possible latencies."""

    def base_us(self, a: int, b: int) -> Micros:
        lowest_us, width_us = self.bounds
        return max(1, lowest_us + below(self._draw(a, b), width_us))


class LogNormalLatency(LatencyModel):
    """Latencies with a log-normal distribution, cut off at a maximum."""

    def __init__(
        self, randomness: Randomness, jitter_us: Micros, median_us: Micros, sigma_millionths: int, cap_us: Micros
    ) -> None:
        self.shape = (median_us, sigma_millionths, cap_us)
        """The arguments of `log_normal_us` that follow the draw."""
        _, low_tail, _ = log_normal_tables(*self.shape)
        super().__init__(randomness, jitter_us, low_tail[0])

    def base_us(self, a: int, b: int) -> Micros:
        return max(1, log_normal_us(self._draw(a, b), *self.shape))


class RegionLatency(LatencyModel):
    """Latencies between regions. The latency of a pair of nodes is that between the regions of both nodes."""

    def __init__(self, randomness: Randomness, jitter_us: Micros, regions: Regions, nodes: int) -> None:
        self.regions = regions
        self._nodes = nodes
        bases, jitters = (list(chain.from_iterable(rows)) for rows in (regions.latency_us, regions.jitter_us))
        super().__init__(randomness, jitter_us, min(map(sub, bases, jitters)))
        self.has_jitter = self.has_jitter or any(jitters)

    def base_us(self, a: int, b: int) -> Micros:
        return max(1, self.regions.latency_us[self._region(a)][self._region(b)])

    def _reach_us(self, source: int, destination: int) -> Micros:
        return self._jitter_us + self.regions.jitter_us[self._region(source)][self._region(destination)]

    def region_of(self, node: int) -> str | None:
        return self.regions.names[self._region(node)]

    def _region(self, node: int) -> int:
        if node == self._nodes:
            return 0
        return self._randomness.below(len(self.regions.names), Purpose.REGION, node)


def make_latency(links: Links, nodes: int, randomness: Randomness) -> LatencyModel:
    """Return the latency model of a network with this number of nodes. Read the file of regions if there is one."""
    match links.latency:
        case LatencyKind.UNIFORM:
            return UniformLatency(randomness, links.jitter_us, links.min_us, links.max_us)
        case LatencyKind.CONSTANT:
            return UniformLatency(randomness, links.jitter_us, links.value_us, links.value_us)
        case LatencyKind.LOG_NORMAL:
            shape = links.median_us, links.sigma_millionths, links.cap_us
            return LogNormalLatency(randomness, links.jitter_us, *shape)
        case LatencyKind.REGIONS:
            regions = read_regions(Path(links.regions_file or ""))
            return RegionLatency(randomness, links.jitter_us, regions, nodes)


class Dials:
    """The targets of all nodes in one array; lists would take ten times the memory.

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


def dials(scenario: Scenario, randomness: Randomness) -> Dials:
    """Return the targets of all nodes according to a scenario's topology. Read the edge list if there is one."""
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
    """Return a row of targets for each node of a chunk, as `Randomness.distinct` returns them.

    That function is called only for a node whose draws repeat a number or have the number of the node itself.
    """
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
    """Return the targets of each node.

    The first `links` nodes dial no node, and the next node dials all of these. The list `ends` has each node once for
    each of the node's links, so that a node is drawn in proportion to the number of its links.
    """
    first = min(links, nodes - 1)
    targets: list[list[int]] = [[] for _ in range(first)]
    ends: list[int] = []
    for node in range(first, nodes):
        chosen = list(range(first)) if node == first else []
        if node > first:
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
