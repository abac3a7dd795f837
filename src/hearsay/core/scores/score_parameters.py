"""Parameters of scores: of the peer, of a topic, and thresholds; and the numbers that the rules compute with.

They are the tables `[router.score]`, `[[router.score.topics]]` and `[router.score.thresholds]`. Rules (go, and others
where they are named):

* PARAMETERS-5: A quantum and a decay of invalid messages must be given; without them nothing could be counted.
* PARAMETERS-6: Mesh deliveries are expected after a second at the earliest, and need a cap, a threshold and a decay.
  A cap below the threshold is refused (nim, jvm): the deficit would never end.
* PARAMETERS-7: A penalty on shared addresses needs a threshold of at least 1, because each peer itself counts.
* PARAMETERS-8: A refresh comes every second at most, and the zero of counters lies between 0 and 1.
* PARAMETERS-9: `graylist` is not above `publish`, which is not above `gossip`, which is not above 0: less trust never
  gives more. `accept_exchange` and `opportunistic_graft` are 0 or above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, ClassVar, NamedTuple

from hearsay.core.language.identifiers import Micros
from hearsay.core.scores.declarations import (
    MIN_INTERVAL_MS,
    Group,
    GroupedParameters,
    InvalidCopies,
    Ipv6Counting,
    MeshTimes,
    QuantumRounding,
    RetainedScores,
    amount,
    fraction,
    group,
    penalty,
)
from hearsay.core.shell.parameters import Parameters, Violation, choice, integer, milliseconds, texts


class TopicNumbers(NamedTuple):
    """Parameters of a topic in the form for the rules: floats and microseconds."""

    weight: float = 0.0
    time_in_mesh_weight: float = 0.0
    quantum: Micros = 0
    time_in_mesh_cap: float = 0.0
    first_weight: float = 0.0
    first_decay: float = 0.0
    first_cap: float = 0.0
    mesh_weight: float = 0.0
    mesh_decay: float = 0.0
    mesh_cap: float = 0.0
    mesh_threshold: float = 0.0
    window: Micros = 0
    activation: Micros = 0
    failure_weight: float = 0.0
    failure_decay: float = 0.0
    invalid_weight: float = 0.0
    invalid_decay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerScoreParameters(GroupedParameters):
    """Weights and decays for the peer in all topics, bounds, and differences between implementations. 0 is off."""

    owner: ClassVar[str] = "the score"
    groups: ClassVar[tuple[Group, ...]] = (
        group("shared_address_weight", shared_address_threshold=1),
        group("misbehaviour_weight", "misbehaviour_threshold", misbehaviour_decay=0),
        group("slow_peer_weight", "slow_peer_threshold", slow_peer_decay=0),
        group(always={"decay_interval_ms": MIN_INTERVAL_MS, "decay_to_zero": 0}),
    )

    topic_cap: float = amount()
    """Cap of the sum of all topics; 0 is none."""
    application_weight: float = amount()
    """P5: weight of the application's own score."""
    shared_address_weight: float = penalty()
    """P6: weight of the square of the peers at an address beyond the threshold."""
    shared_address_threshold: int = integer(0, low=0)
    """P6: peers that an address may have."""
    shared_address_allowed: tuple[str, ...] = texts()
    """P6: networks whose addresses do not count, as `10.0.0.0/8`."""
    ipv6_addresses: Ipv6Counting = choice(Ipv6Counting.WHOLE_AND_PREFIX)
    """P6: forms in which an IPv6 address counts."""
    misbehaviour_weight: float = penalty()
    """P7: weight of the square of the misbehaviour beyond the threshold."""
    misbehaviour_threshold: float = amount()
    """P7: misbehaviour without a penalty."""
    misbehaviour_decay: float = fraction()
    """P7: share of the count that is left after a refresh."""
    slow_peer_weight: float = penalty()
    """Weight of each message beyond the threshold that could not be sent to a slow peer."""
    slow_peer_threshold: float = amount()
    """Number of messages that may fail to be sent to a peer before it is penalised."""
    slow_peer_decay: float = fraction()
    """Share of the count of such messages that is left after a refresh."""
    decay_interval_ms: int = milliseconds(0)
    """Time between two refreshes."""
    decay_to_zero: float = fraction()
    """A counter below this is 0."""
    retain_ms: int = milliseconds(0)
    """Time that the score of a disconnected peer is kept."""

    time_in_mesh_quanta: QuantumRounding = choice(QuantumRounding.WHOLE)
    """P1: whole quanta, or fractions too."""
    mesh_times: MeshTimes = choice(MeshTimes.LAST_REFRESH)
    """P1 and P3: end of the time in the mesh that counts."""
    deficit_after_prune: bool = False
    """P3: the deficit still counts after a peer has left the mesh (go)."""
    second_prune_counts: bool = False
    """P3b: a PRUNE of a peer that has left counts again (go)."""
    invalid_copies: InvalidCopies = choice(InvalidCopies.ALL)
    """P4: peers that are blamed for copies."""
    retained_scores: RetainedScores = choice(RetainedScores.NOT_POSITIVE)
    """Disconnected peers whose scores are kept."""
    decay_while_away: bool = False
    """Scores of disconnected peers decay (jvm)."""

    delivery_ttl_ms: int = milliseconds(120_000)
    """Time that the senders of a message are remembered."""
    max_deliveries: int = integer(100_000, low=1)
    """Messages whose senders are remembered."""
    max_senders_per_delivery: int = integer(1_000, low=1)
    """Senders of a message that are remembered."""
    max_retained_peers: int = integer(10_000, low=1)
    """Scores of disconnected peers that are kept."""
    max_addresses_per_peer: int = integer(16, low=1)
    """Addresses of a peer that count."""

    def cross_rules(self) -> Iterator[Violation]:
        for text in self.shared_address_allowed:
            try:
                ip_network(text, strict=False)
            except ValueError:
                yield Violation("shared_address_allowed", text, "must be networks, as in 10.0.0.0/8")

    @property
    def decay_interval_us(self) -> Micros:
        return self.decay_interval_ms * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoreParameters(GroupedParameters):
    """Weights, decays and caps of one topic. 0 is off."""

    owner: ClassVar[str] = "a topic's score"
    groups: ClassVar[tuple[Group, ...]] = (
        group("time_in_mesh_weight", always={"time_in_mesh_quantum_ms": 0}, time_in_mesh_cap=0),
        group("first_deliveries_weight", first_deliveries_decay=0, first_deliveries_cap=0),
        group(
            "mesh_deliveries_weight",
            "mesh_deliveries_window_ms",
            mesh_deliveries_decay=0,
            mesh_deliveries_cap=0,
            mesh_deliveries_threshold=0,
            mesh_deliveries_activation_ms=MIN_INTERVAL_MS,
        ),
        group("mesh_failure_weight", mesh_failure_decay=0),
        group("invalid_messages_weight", always={"invalid_messages_decay": 0}),
    )

    topic_weight: float = amount()
    """Weight of the topic in the score."""
    time_in_mesh_weight: float = amount()
    """P1: weight of each quantum in the mesh."""
    time_in_mesh_quantum_ms: int = milliseconds(0)
    """P1: unit of time in the mesh."""
    time_in_mesh_cap: float = amount()
    """P1: cap of the quanta."""
    first_deliveries_weight: float = amount()
    """P2: weight of each message that the peer was first to deliver."""
    first_deliveries_decay: float = fraction()
    """P2: share of the count that is left after a refresh."""
    first_deliveries_cap: float = amount()
    """P2: cap of the count."""
    mesh_deliveries_weight: float = penalty()
    """P3: weight of the square of a member's missing deliveries."""
    mesh_deliveries_decay: float = fraction()
    """P3: share of the count that is left after a refresh."""
    mesh_deliveries_cap: float = amount()
    """P3: cap of the count."""
    mesh_deliveries_threshold: float = amount()
    """P3: deliveries that are expected."""
    mesh_deliveries_window_ms: int = milliseconds(0)
    """P3: time after the verdict in which a copy counts."""
    mesh_deliveries_activation_ms: int = milliseconds(0)
    """P3: time in the mesh before deliveries are expected."""
    mesh_failure_weight: float = penalty()
    """P3b: weight of the squares of missing deliveries when the peer left the mesh."""
    mesh_failure_decay: float = fraction()
    """P3b: share that is left after a refresh."""
    invalid_messages_weight: float = penalty()
    """P4: weight of the square of the number of invalid messages."""
    invalid_messages_decay: float = fraction()
    """P4: share of the count that is left after a refresh."""
    gater_weight: float = amount(1.0)
    """Weight of a message delivered in the topic for the gater."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.mesh_deliveries_cap < self.mesh_deliveries_threshold:
            limit = f"must not be below mesh_deliveries_threshold ({self.mesh_deliveries_threshold})"
            yield Violation("mesh_deliveries_cap", self.mesh_deliveries_cap, limit)

    def numbers(self) -> TopicNumbers:
        """Return the parameters in the form for the rules, in the order of the fields."""
        names = self.names()[1 : 1 + len(TopicNumbers._fields)]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        converted: list[Any] = [
            value * 1000 if name.endswith("_ms") else float(value) for name, value in given.items()
        ]
        return TopicNumbers(*converted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreThresholds(Parameters):
    """Scores from which on, or below which, peers are treated differently."""

    owner: ClassVar[str] = "the thresholds"

    gossip: float = penalty()
    """Below it a peer gets no IHAVE, and its IHAVE and IWANT are ignored."""
    publish: float = penalty()
    """Below it a peer gets none of the node's own messages, and is in no fan-out."""
    graylist: float = penalty()
    """Below it a peer's RPCs are ignored."""
    accept_exchange: float = amount()
    """From this score on, the peers that a peer's PRUNE names are dialled."""
    opportunistic_graft: float = amount()
    """A mesh with a median below it grafts peers with better scores."""

    def _rules_between(self, faulty: set[str]) -> Iterator[Violation]:
        for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
            value, limit = getattr(self, lower), getattr(self, upper)
            if faulty.isdisjoint((lower, upper)) and value > limit:
                yield Violation(lower, value, f"must not be above {upper} ({limit})")
