"""The network and how it carries messages: [network], [links], [loss], [service], [addresses] and [[ratings]]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.values import (
    MAX_DEGREE,
    MAX_NODES,
    MILLION,
    Bytes,
    Flag,
    Milliseconds,
    NodeNumber,
    Scaled,
    Section,
    Share,
    SomeNodes,
    Text,
    integer_in,
    number_in,
    one_of,
)

MAX_COMPLETE_NODES = 10_000


class TopologyKind(StrEnum):
    """The rule by which nodes choose the peers that they dial."""

    RANDOM = "random"
    RING_RANDOM = "ring_random"
    SCALE_FREE = "scale_free"
    COMPLETE = "complete"
    EDGE_LIST = "edge_list"


class LatencyKind(StrEnum):
    """The distribution from which the latency of a pair of nodes is drawn."""

    UNIFORM = "uniform"
    CONSTANT = "constant"
    LOG_NORMAL = "log_normal"
    REGIONS = "regions"


class Network(Section):
    """[network]: the nodes, and which peers they dial."""

    nodes: Annotated[int, integer_in(1, MAX_NODES)] = 100
    """Number of nodes."""
    topology: Annotated[TopologyKind, one_of(TopologyKind)] = TopologyKind.RANDOM
    """Peers that a node dials at the start: `random` (`degree` others, as in simsub), `ring_random` (the next node
    and `degree` - 1 random others), `scale_free` (Barabási–Albert with `degree` / 2 links a node), `complete` (all),
    or `edge_list` (`edges_file`)."""
    degree: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    """Number of peers that a node dials. A node has about twice as many connections."""
    edges_file: Text | None = None
    """File for `edge_list`: a line `a b` for each dial from a to b; # begins a comment."""
    nat_share: Share = Decimal(0)
    """Share of the nodes that accept no inbound connection; they can dial."""
    rendezvous_ms: Milliseconds = Decimal(50)
    """Time that discovery takes to return contacts, for routers that ask for them (episub)."""
    nat_millionths = Scaled("nat_share", MILLION)
    rendezvous_us = Scaled("rendezvous_ms", 1000)

    def cross_rules(self) -> Iterator[Violation]:
        listed = self.topology is TopologyKind.EDGE_LIST
        if listed and self.edges_file is None:
            yield Violation("topology", self.topology, "needs edges_file")
        if not listed and self.edges_file is not None:
            yield Violation("edges_file", self.edges_file, 'only with topology = "edge_list"')
        if self.topology is TopologyKind.COMPLETE and self.nodes > MAX_COMPLETE_NODES:
            yield Violation("nodes", self.nodes, f'must not be above {MAX_COMPLETE_NODES} with topology = "complete"')


class Links(Section):
    """[links]: latency, jitter and the uplink of each node."""

    latency: Annotated[LatencyKind, one_of(LatencyKind)] = LatencyKind.UNIFORM
    """Distribution of the latency of a pair of nodes, the same in both directions."""
    min_ms: Milliseconds = Decimal(10)
    """Lowest latency, for `uniform`."""
    max_ms: Milliseconds = Decimal(150)
    """Highest latency, for `uniform`."""
    value_ms: Milliseconds = Decimal(50)
    """Latency of every pair, for `constant`."""
    median_ms: Milliseconds = Decimal(60)
    """Median latency, for `log_normal`."""
    sigma: Annotated[Decimal, number_in("0", 3)] = Decimal("0.5")
    """Standard deviation of the latency's logarithm, for `log_normal`."""
    cap_ms: Milliseconds = Decimal(2000)
    """Highest latency, for `log_normal`."""
    regions_file: Text | None = None
    """CSV file for `regions`: `from,to,latency_ms,jitter_ms`. Nodes are assigned to the regions uniformly."""
    jitter_ms: Milliseconds = Decimal(0)
    """Uniform jitter of each RPC, in both directions from its latency; RPCs on a link stay in order."""
    uplink_mbit: Annotated[Decimal, number_in("0", MILLION)] = Decimal(0)
    """Rate at which RPCs leave a node, one after the other, those with only IDONTWANT first; 0 is unlimited."""
    uplink_queue_bytes: Bytes = 0
    """Bytes that may wait for the uplink. An RPC beyond them is refused, and the router is notified; 0 is
    unlimited."""
    min_us = Scaled("min_ms", 1000)
    max_us = Scaled("max_ms", 1000)
    value_us = Scaled("value_ms", 1000)
    median_us = Scaled("median_ms", 1000)
    sigma_millionths = Scaled("sigma", MILLION)
    cap_us = Scaled("cap_ms", 1000)
    jitter_us = Scaled("jitter_ms", 1000)
    uplink_bits_per_s = Scaled("uplink_mbit", MILLION)

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


class Loss(Section):
    """[loss]: how often parts of RPCs are lost."""

    rate: Share = Decimal(0)
    """Probability that a message (or a part of one), an IHAVE or an IWANT is lost; drawn for each part of an RPC."""
    control: Flag = False
    """GRAFT and PRUNE are lost too. The checker then does not require mutual mesh links."""
    rate_millionths = Scaled("rate", MILLION)


class Service(Section):
    """[service]: how long a node takes for an event."""

    time_ms: Milliseconds = Decimal(0)
    """Time that a node takes for one event; it handles one at a time (simsub's lag)."""
    time_us = Scaled("time_ms", 1000)


class AddressForm(StrEnum):
    """The form of addresses. With `ipv6_prefix`, nodes share the first 64 bits of an address only."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    IPV6_PREFIX = "ipv6_prefix"


class Addresses(Section):
    """[addresses]: which nodes share an address. Other nodes have no address that peers know."""

    nodes_per_address: Annotated[int, integer_in(0, MAX_NODES)] = 0
    """Number of consecutive nodes that share an address; 0: no addresses but those in `shared`."""
    shared: tuple[tuple[NodeNumber, ...], ...] = ()
    """Lists of nodes at one address each: `[[1, 5], [7, 8, 9]]`."""
    form: Annotated[AddressForm, one_of(AddressForm)] = AddressForm.IPV4
    """Form of the addresses; with `ipv6_prefix`, nodes share the first 64 bits only."""


class Rating(SomeNodes):
    """[[ratings]]: what applications think of some nodes (P5 of routers with scores). The last match counts."""

    rating: Annotated[Decimal, number_in("-1000000000", 1_000_000_000)]
    """The application-specific score of these nodes."""
    by: tuple[NodeNumber, ...] | None = None
    """The nodes whose applications give this rating; without it, all."""
