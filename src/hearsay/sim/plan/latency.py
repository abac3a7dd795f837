"""The time that an RPC takes between two nodes.

Rules:

* A pair of nodes has one base latency, the same in both directions, which depends on the pair alone. It is at least
  1 us.
* Jitter is added to each RPC: uniform from -j to +j, drawn by source, destination and sequence number.
* The script node, number `nodes`, has latencies like any other; with regions it is in the first one.
* Regions: a CSV file with the header `from,to,latency_ms,jitter_ms` has the latency of each pair of regions, and of
  each region with itself. One direction is enough; if both are given, their mean counts. Nodes are assigned to the
  regions uniformly, in the order in which the file names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Purpose, Randomness, below
from hearsay.sim.plan.draws import log_normal_minimum_us, log_normal_us
from hearsay.sim.scenario.network import LatencyKind, Links
from hearsay.sim.scenario.tables import Regions, read_regions


class LatencyModel(ABC):
    """The latencies of a run."""

    def __init__(self, randomness: Randomness, jitter_us: Micros) -> None:
        self._randomness = randomness
        self._jitter_us = jitter_us

    @abstractmethod
    def base_us(self, a: int, b: int) -> Micros:
        """Return the latency between two nodes before jitter, at least 1."""

    @property
    @abstractmethod
    def minimum_us(self) -> Micros:
        """The shortest time of an RPC, jitter included; at least 1."""

    @property
    def has_jitter(self) -> bool:
        return self._jitter_us > 0

    def jitter_us(self, source: int, destination: int, sequence: int) -> int:
        """Return the jitter of one RPC. Its sum with the base latency counts as at least 1."""
        return self._uniform_jitter_us(self._jitter_us, source, destination, sequence)

    def region_of(self, node: int) -> str | None:
        """Return the node's region; None when there are no regions."""
        return None

    def _uniform_jitter_us(self, reach_us: Micros, source: int, destination: int, sequence: int) -> int:
        if reach_us == 0:
            return 0
        return self._randomness.below(2 * reach_us + 1, Purpose.JITTER, source, destination, sequence) - reach_us

    def _draw(self, a: int, b: int) -> int:
        if a > b:
            a, b = b, a
        return self._randomness.draw(Purpose.LATENCY, a, b)


class UniformLatency(LatencyModel):
    """Uniform latencies between two bounds, both included; constant if the bounds are equal."""

    def __init__(self, randomness: Randomness, jitter_us: Micros, lowest_us: Micros, highest_us: Micros) -> None:
        super().__init__(randomness, jitter_us)
        self._lowest_us = lowest_us
        self._width_us = highest_us - lowest_us + 1

    @property
    def bounds(self) -> tuple[Micros, Micros]:
        """The lowest latency and the number of values."""
        return self._lowest_us, self._width_us

    def base_us(self, a: int, b: int) -> Micros:
        return max(1, self._lowest_us + below(self._draw(a, b), self._width_us))

    @property
    def minimum_us(self) -> Micros:
        return max(1, self._lowest_us - self._jitter_us)


class LogNormalLatency(LatencyModel):
    """Log-normal latencies with a median, a sigma and a cap."""

    def __init__(
        self, randomness: Randomness, jitter_us: Micros, median_us: Micros, sigma_millionths: int, cap_us: Micros
    ) -> None:
        super().__init__(randomness, jitter_us)
        self.shape = (median_us, sigma_millionths, cap_us)

    def base_us(self, a: int, b: int) -> Micros:
        return max(1, log_normal_us(self._draw(a, b), *self.shape))

    @property
    def minimum_us(self) -> Micros:
        return max(1, log_normal_minimum_us(*self.shape) - self._jitter_us)


class RegionLatency(LatencyModel):
    """The latency between the regions of both nodes."""

    def __init__(self, randomness: Randomness, jitter_us: Micros, regions: Regions, nodes: int) -> None:
        super().__init__(randomness, jitter_us)
        self.regions = regions
        self._nodes = nodes
        self._lowest_us = max(
            1,
            min(
                base - jitter
                for bases, jitters in zip(regions.latency_us, regions.jitter_us, strict=True)
                for base, jitter in zip(bases, jitters, strict=True)
            )
            - jitter_us,
        )

    def base_us(self, a: int, b: int) -> Micros:
        return max(1, self.regions.latency_us[self._region(a)][self._region(b)])

    @property
    def minimum_us(self) -> Micros:
        return self._lowest_us

    @property
    def has_jitter(self) -> bool:
        return self._jitter_us > 0 or any(map(any, self.regions.jitter_us))

    def jitter_us(self, source: int, destination: int, sequence: int) -> int:
        reach_us = self._jitter_us + self.regions.jitter_us[self._region(source)][self._region(destination)]
        return self._uniform_jitter_us(reach_us, source, destination, sequence)

    def region_of(self, node: int) -> str | None:
        return self.regions.names[self._region(node)]

    def _region(self, node: int) -> int:
        if node == self._nodes:
            return 0
        return self._randomness.below(len(self.regions.names), Purpose.REGION, node)


def make_latency(links: Links, nodes: int, randomness: Randomness) -> LatencyModel:
    """Return the latency model of a network with this number of nodes."""
    match links.latency:
        case LatencyKind.UNIFORM:
            return UniformLatency(randomness, links.jitter_us, links.min_us, links.max_us)
        case LatencyKind.CONSTANT:
            return UniformLatency(randomness, links.jitter_us, links.value_us, links.value_us)
        case LatencyKind.LOG_NORMAL:
            return LogNormalLatency(
                randomness, links.jitter_us, links.median_us, links.sigma_millionths, links.cap_us
            )
        case LatencyKind.REGIONS:
            regions = read_regions(Path(links.regions_file or ""))
            return RegionLatency(randomness, links.jitter_us, regions, nodes)
