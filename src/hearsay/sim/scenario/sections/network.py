"""The network and how it carries: [network], [links], [loss] and [service]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.values import (
    MAX_DEGREE,
    MAX_NODES,
    MILLION,
    Bytes,
    Flag,
    Milliseconds,
    Share,
    Text,
    integer_in,
    number_in,
    one_of,
    scaled,
)

MAX_COMPLETE_NODES = 10_000


class TopologyKind(StrEnum):
    """Who dials whom."""

    RANDOM = "random"
    RING_RANDOM = "ring_random"
    SCALE_FREE = "scale_free"
    COMPLETE = "complete"
    EDGE_LIST = "edge_list"


class LatencyKind(StrEnum):
    """How the latency of a pair of nodes is drawn."""

    UNIFORM = "uniform"
    CONSTANT = "constant"
    LOG_NORMAL = "log_normal"
    REGIONS = "regions"


class Network(Section):
    """[network] – the nodes and who dials whom."""

    nodes: Annotated[int, integer_in(1, MAX_NODES)] = 100
    topology: Annotated[TopologyKind, one_of(TopologyKind)] = TopologyKind.RANDOM
    degree: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    edges_file: Text | None = None
    nat_share: Share = Decimal(0)
    rendezvous_ms: Milliseconds = Decimal(50)

    @property
    def nat_millionths(self) -> int:
        return scaled(self.nat_share, MILLION)

    @property
    def rendezvous_us(self) -> Micros:
        return scaled(self.rendezvous_ms, 1000)

    def cross_rules(self) -> Iterator[Violation]:
        listed = self.topology is TopologyKind.EDGE_LIST
        if listed and self.edges_file is None:
            yield Violation("topology", self.topology, "needs edges_file")
        if not listed and self.edges_file is not None:
            yield Violation("edges_file", self.edges_file, 'only with topology = "edge_list"')
        if self.topology is TopologyKind.COMPLETE and self.nodes > MAX_COMPLETE_NODES:
            yield Violation("nodes", self.nodes, f'must not be above {MAX_COMPLETE_NODES} with topology = "complete"')


class Links(Section):
    """[links] – latency, jitter and the sender's uplink."""

    latency: Annotated[LatencyKind, one_of(LatencyKind)] = LatencyKind.UNIFORM
    min_ms: Milliseconds = Decimal(10)
    max_ms: Milliseconds = Decimal(150)
    value_ms: Milliseconds = Decimal(50)
    median_ms: Milliseconds = Decimal(60)
    sigma: Annotated[Decimal, number_in("0", 3)] = Decimal("0.5")
    cap_ms: Milliseconds = Decimal(2000)
    regions_file: Text | None = None
    jitter_ms: Milliseconds = Decimal(0)
    uplink_mbit: Annotated[Decimal, number_in("0", MILLION)] = Decimal(0)
    uplink_queue_bytes: Bytes = 0

    def cross_rules(self) -> Iterator[Violation]:
        if self.min_ms > self.max_ms:
            if "min_ms" in self.model_fields_set:
                yield Violation("min_ms", self.min_ms, f"must not be above max_ms ({self.max_ms})")
            else:
                yield Violation("max_ms", self.max_ms, f"must not be below min_ms ({self.min_ms})")
        if self.median_ms > self.cap_ms:
            if "cap_ms" in self.model_fields_set:
                yield Violation("cap_ms", self.cap_ms, f"must not be below median_ms ({self.median_ms})")
            else:
                yield Violation("median_ms", self.median_ms, f"must not be above cap_ms ({self.cap_ms})")
        by_region = self.latency is LatencyKind.REGIONS
        if by_region and self.regions_file is None:
            yield Violation("latency", self.latency, "needs regions_file")
        if not by_region and self.regions_file is not None:
            yield Violation("regions_file", self.regions_file, 'only with latency = "regions"')

    @property
    def min_us(self) -> Micros:
        return scaled(self.min_ms, 1000)

    @property
    def max_us(self) -> Micros:
        return scaled(self.max_ms, 1000)

    @property
    def value_us(self) -> Micros:
        return scaled(self.value_ms, 1000)

    @property
    def median_us(self) -> Micros:
        return scaled(self.median_ms, 1000)

    @property
    def sigma_millionths(self) -> int:
        return scaled(self.sigma, MILLION)

    @property
    def cap_us(self) -> Micros:
        return scaled(self.cap_ms, 1000)

    @property
    def jitter_us(self) -> Micros:
        return scaled(self.jitter_ms, 1000)

    @property
    def uplink_bits_per_s(self) -> int:
        """0 is unlimited."""
        return scaled(self.uplink_mbit, MILLION)


class Loss(Section):
    """[loss] – how often an RPC is lost; `control` puts control parts at risk too."""

    rate: Share = Decimal(0)
    control: Flag = False

    @property
    def rate_millionths(self) -> int:
        return scaled(self.rate, MILLION)


class Service(Section):
    """[service] – how long a node works on one RPC."""

    time_ms: Milliseconds = Decimal(0)

    @property
    def time_us(self) -> Micros:
        return scaled(self.time_ms, 1000)
