"""The sections of the network, its links, and their faults."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.values import (
    MAX_DEGREE,
    MAX_NODES,
    MAX_TIME_S,
    MILLION,
    Bytes,
    Flag,
    Link,
    Milliseconds,
    NodeNumber,
    Scaled,
    ScaledIfGiven,
    Seconds,
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
    """The rule that decides which peers a node dials at the start."""

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
    """[network]: the nodes, and the peers that they dial."""

    nodes: Annotated[int, integer_in(1, MAX_NODES)] = 100
    """Number of nodes."""
    topology: Annotated[TopologyKind, one_of(TopologyKind)] = TopologyKind.RANDOM
    """Peers that a node dials at the start: `random` (`degree` random ones, as in simsub), `ring_random` (the next
    node and `degree` - 1 random ones), `scale_free` (Barabási–Albert: each new node dials `degree` / 2 others),
    `complete` (each pair of nodes is connected), or `edge_list` (`edges_file`)."""
    degree: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    """Number of peers that a node dials (`random`, `ring_random`). A node has about twice as many connections."""
    edges_file: Text | None = None
    """File for `edge_list`: a line `a b` for each dial from node a to node b; # begins a comment."""
    nat_share: Share = Decimal(0)
    """Share of nodes that accept no inbound connection. They can dial."""
    rendezvous_ms: Milliseconds = Decimal(50)
    """Time that discovery takes to return contacts to routers that request them (episub)."""
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
    """CSV file for `regions`: `from,to,latency_ms,jitter_ms`. Each node is in a random region."""
    jitter_ms: Milliseconds = Decimal(0)
    """Largest jitter: an RPC takes up to this much less or more time. RPCs on a link stay in order."""
    uplink_mbit: Annotated[Decimal, number_in("0", MILLION)] = Decimal(0)
    """Capacity of a node's uplink in Mbit/s; 0 is unlimited. RPCs leave one after the other, those with only
    IDONTWANT first."""
    uplink_queue_bytes: Bytes = 0
    """Maximum bytes of the RPCs that wait for the uplink; 0 is unlimited. An RPC beyond this limit is refused, and
    the router is notified."""
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
    """[loss]: the loss of parts of RPCs on links."""

    rate: Share = Decimal(0)
    """Probability that a message, a partial message, an IHAVE or an IWANT is lost; drawn for each part of an RPC."""
    control: Flag = False
    """GRAFT and PRUNE can be lost too, with the same probability. The checker then does not require mutual mesh
    links."""
    rate_millionths = Scaled("rate", MILLION)


class Service(Section):
    """[service]: the time that a node takes to handle an event."""

    time_ms: Milliseconds = Decimal(0)
    """Time that a node takes to handle one event. A node handles one event at a time (simsub's lag)."""
    time_us = Scaled("time_ms", 1000)


class AddressForm(StrEnum):
    """The form of addresses. With `ipv6_prefix`, only the first 64 bits of a shared address are equal."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    IPV6_PREFIX = "ipv6_prefix"


class Addresses(Section):
    """[addresses]: IP addresses of nodes. Several nodes can share one. By default no node has a known address."""

    nodes_per_address: Annotated[int, integer_in(0, MAX_NODES)] = 0
    """Number of consecutive nodes that share an address. With 0, only nodes in `shared` have a known address."""
    shared: tuple[tuple[NodeNumber, ...], ...] = ()
    """Lists of nodes, such as `[[1, 5], [7, 8, 9]]`. The nodes of a list share an address."""
    form: Annotated[AddressForm, one_of(AddressForm)] = AddressForm.IPV4
    """Form of the addresses; with `ipv6_prefix`, only the first 64 bits are shared."""


class Rating(SomeNodes):
    """[[ratings]]: application-specific scores of some nodes (P5). If several entries match, the last one counts."""

    rating: Annotated[Decimal, number_in("-1000000000", 1_000_000_000)]
    """The application-specific score of these nodes."""
    by: tuple[NodeNumber, ...] | None = None
    """The nodes whose applications give this score; without this key, all nodes."""


class Churn(Section):
    """[faults.churn]: nodes leave and return. Sessions and absences have exponentially distributed lengths."""

    away_share: Annotated[Decimal, number_in("0", "0.95")] = Decimal("0.3")
    """Mean share of nodes that are away at a time."""
    mean_session_s: Annotated[Decimal, number_in("0.001", MAX_TIME_S)] = Decimal(60)
    """Mean time from a node's return until it leaves again."""
    goodbye: Flag = False
    """Nodes leave their topics before they stop; otherwise they crash."""
    start_s: Seconds = Decimal(0)
    """Time at which churn begins."""
    away_millionths = Scaled("away_share", MILLION)
    mean_session_us = Scaled("mean_session_s", MILLION)
    start_us = Scaled("start_s", MILLION)

    @property
    def mean_away_us(self) -> Micros:
        """The mean length of an absence. With this length, the share of absent nodes tends to `away_share`."""
        return self.mean_session_us * self.away_millionths // (MILLION - self.away_millionths)


class Crash(Section):
    """[[faults.crash]]: some nodes stop without notice. Nodes that are down already are not affected."""

    at_s: Seconds
    """Time of the crash."""
    share: Share | None = None
    """Share of the running nodes that crash. The nodes are drawn at random."""
    listed: tuple[NodeNumber, ...] | None = None
    """The nodes, by number; in place of `share`."""
    rejoin_after_s: Seconds | None = None
    """Time after the crash at which the nodes return; without this key, they never return."""
    at_us = Scaled("at_s", MILLION)
    share_millionths = ScaledIfGiven("share", MILLION)
    rejoin_after_us = ScaledIfGiven("rejoin_after_s", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.share is None and self.listed is None:
            yield Violation("at_s", self.at_s, "needs share or listed")
        yield from self.exclusive("share", "listed")


class Partition(Section):
    """[[faults.partition]]: the network is split in two until it heals."""

    at_s: Seconds
    """Time of the split."""
    heal_s: Seconds
    """Time at which both sides can connect again."""
    share: Share
    """Share of random nodes on one side. All other nodes are on the other side."""
    at_us = Scaled("at_s", MILLION)
    heal_us = Scaled("heal_s", MILLION)
    share_millionths = Scaled("share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")


class Cut(Section):
    """[[faults.cut]]: some links are cut."""

    at_s: Seconds
    """Time of the cut."""
    heal_s: Seconds | None = None
    """Time at which the nodes of a cut link can connect again; without this key, they never can."""
    share: Share | None = None
    """Random share of the links of the initial dials."""
    links: tuple[Link, ...] | None = None
    """The links, as pairs of nodes: `[[1, 2], [3, 4]]`; in place of `share`."""
    at_us = Scaled("at_s", MILLION)
    heal_us = ScaledIfGiven("heal_s", MILLION)
    share_millionths = ScaledIfGiven("share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us is not None and self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")
        if self.share is None and self.links is None:
            yield Violation("at_s", self.at_s, "needs share or links")
        yield from self.exclusive("share", "links")
        for number, (a, b) in enumerate(self.links or ()):
            if a == b:
                yield Violation(f"links.{number}", [a, b], "must be two different nodes")


class Faults(Section):
    """[faults]: faults of nodes and links, and the time until peers notice a fault."""

    detection_s: Seconds = Decimal(1)
    """Time after a crash, a cut or a partition until peers notice it."""
    redial: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    """Number of live peers that a node dials when it returns; when links heal, the maximum."""
    churn: Churn | None = None
    """Nodes that leave and return; without this table, none do."""
    crash: tuple[Crash, ...] = ()
    """Crashes of several nodes at one time."""
    partition: tuple[Partition, ...] = ()
    """Splits of the network in two."""
    cut: tuple[Cut, ...] = ()
    """Cuts of some links."""
    detection_us = Scaled("detection_s", MILLION)
