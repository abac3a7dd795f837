"""Parameters of scores: of the peer, of a topic, and thresholds; and the numbers that the rules compute with.

They are the tables `[router.score]`, `[[router.score.topics]]` and `[router.score.thresholds]`. Rules (go, and others
where they are named):

* PARAMETERS-5: A quantum and a decay of invalid messages must be given; without them nothing could be counted.
* PARAMETERS-6: Mesh deliveries are expected after a second at the earliest, and need a cap, a threshold and a decay.
  A cap below the threshold is refused (nim, jvm): the deficit would never end.
* PARAMETERS-7: A penalty on shared addresses needs a threshold of 1 at least: every peer is one at its address.
* PARAMETERS-8: A refresh comes every second at most, and the zero of counters lies between 0 and 1.
* PARAMETERS-9: `graylist` is not above `publish`, which is not above `gossip`, which is not above 0: less trust never
  gives more. The other two are 0 or above."""

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
    bound,
    count,
    fraction,
    group,
    penalty,
    reward,
    span,
    switch,
    word,
)
from hearsay.core.shell.parameters import Parameters, Violation, texts


class TopicNumbers(NamedTuple):
    """Parameters of a topic as the rules compute with them: doubles and microseconds."""

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


class PeerNumbers(NamedTuple):
    """Parameters of the peer as the rules compute with them, and the differences of implementations."""

    topic_cap: float = 0.0
    application_weight: float = 0.0
    address_weight: float = 0.0
    address_threshold: int = 0
    misbehaviour_weight: float = 0.0
    misbehaviour_threshold: float = 0.0
    misbehaviour_decay: float = 0.0
    slow_weight: float = 0.0
    slow_threshold: float = 0.0
    slow_decay: float = 0.0
    zero: float = 0.01
    retain: Micros = 0
    whole_quanta: bool = True
    mesh_time_of_now: bool = False
    deficit_after_prune: bool = False
    second_prune_counts: bool = False
    blame_members_only: bool = False
    retain_positive: bool = False
    return_is_fresh: bool = False
    decay_while_away: bool = False
    delivery_ttl: Micros = 120_000_000


_PEER_GROUPS = (
    group("shared_address_weight", "shared_address_threshold", shared_address_threshold=1),
    group("misbehaviour_weight", "misbehaviour_threshold", "misbehaviour_decay", misbehaviour_decay=0),
    group("slow_peer_weight", "slow_peer_threshold", "slow_peer_decay", slow_peer_decay=0),
    group(
        "decay_interval_ms",
        "decay_to_zero",
        always={"decay_interval_ms": MIN_INTERVAL_MS, "decay_to_zero": 0},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerScoreParameters(GroupedParameters):
    """Weights and decays of what concerns a peer in all topics; bounds; differences. 0 is off."""

    owner: ClassVar[str] = "the score"

    topic_cap: float = amount("most that all topics together count; 0 is no cap")
    application_weight: float = reward("P5: for the application's own opinion")
    shared_address_weight: float = penalty("P6: for the square of the peers at an address beyond the threshold")
    shared_address_threshold: int = count("P6: peers that an address may have")
    shared_address_allowed: tuple[str, ...] = texts("P6: networks, as in `10.0.0.0/8`, whose addresses do not count")
    ipv6_addresses: Ipv6Counting = word("P6: as what an IPv6 address counts", Ipv6Counting.WHOLE_AND_PREFIX)
    misbehaviour_weight: float = penalty("P7: for the square of the misbehaviour beyond the threshold")
    misbehaviour_threshold: float = amount("P7: misbehaviour that is let pass")
    misbehaviour_decay: float = fraction("P7: what is left of the count after a refresh")
    slow_peer_weight: float = penalty("for each message beyond the threshold that a peer was too slow to take")
    slow_peer_threshold: float = amount("such messages that are let pass")
    slow_peer_decay: float = fraction("what is left of their count after a refresh")
    decay_interval_ms: int = span("the time between two refreshes")
    decay_to_zero: float = fraction("below this a counter is 0")
    retain_ms: int = span("how long the score of a peer that has gone is kept")

    time_in_mesh_quanta: QuantumRounding = word("P1: whole quanta, or fractions too", QuantumRounding.WHOLE)
    mesh_times: MeshTimes = word("P1 and P3: up to when the time in the mesh counts", MeshTimes.LAST_REFRESH)
    deficit_after_prune: bool = switch("P3: goes on when a peer has left the mesh (go)")
    second_prune_counts: bool = switch("P3b: a PRUNE of one who has left counts again (go)")
    invalid_copies: InvalidCopies = word("P4: who is blamed for copies", InvalidCopies.ALL)
    retained_scores: RetainedScores = word("whose scores are kept", RetainedScores.NOT_POSITIVE)
    decay_while_away: bool = switch("scores of peers that have gone decay (jvm)")

    delivery_ttl_ms: int = span("how long it is known who brought a message", 120_000)
    max_deliveries: int = bound("messages of which that is known", 100_000)
    max_senders_per_delivery: int = bound("peers of whom it is known", 1_000)
    max_retained_peers: int = bound("peers that have gone whose scores are kept", 10_000)
    max_addresses_per_peer: int = bound("addresses of a peer that count", 16)

    @classmethod
    def groups(cls) -> tuple[Group, ...]:
        return _PEER_GROUPS

    def cross_rules(self) -> Iterator[Violation]:
        for text in self.shared_address_allowed:
            try:
                ip_network(text, strict=False)
            except ValueError:
                yield Violation("shared_address_allowed", text, "must be networks, as in 10.0.0.0/8")

    @property
    def decay_interval_us(self) -> Micros:
        return self.decay_interval_ms * 1000

    def numbers(self) -> PeerNumbers:
        return PeerNumbers(
            topic_cap=float(self.topic_cap),
            application_weight=float(self.application_weight),
            address_weight=float(self.shared_address_weight),
            address_threshold=self.shared_address_threshold,
            misbehaviour_weight=float(self.misbehaviour_weight),
            misbehaviour_threshold=float(self.misbehaviour_threshold),
            misbehaviour_decay=float(self.misbehaviour_decay),
            slow_weight=float(self.slow_peer_weight),
            slow_threshold=float(self.slow_peer_threshold),
            slow_decay=float(self.slow_peer_decay),
            zero=float(self.decay_to_zero),
            retain=self.retain_ms * 1000,
            delivery_ttl=self.delivery_ttl_ms * 1000,
            whole_quanta=self.time_in_mesh_quanta is QuantumRounding.WHOLE,
            mesh_time_of_now=self.mesh_times is MeshTimes.NOW,
            deficit_after_prune=self.deficit_after_prune,
            second_prune_counts=self.second_prune_counts,
            blame_members_only=self.invalid_copies is InvalidCopies.MEMBERS,
            retain_positive=self.retained_scores is RetainedScores.ALL,
            return_is_fresh=self.retained_scores is RetainedScores.UNTIL_RETURN,
            decay_while_away=self.decay_while_away,
        )


_TOPIC_GROUPS = (
    group(
        "time_in_mesh_weight",
        "time_in_mesh_quantum_ms",
        "time_in_mesh_cap",
        always={"time_in_mesh_quantum_ms": 0},
        time_in_mesh_cap=0,
    ),
    group(
        "first_deliveries_weight",
        "first_deliveries_decay",
        "first_deliveries_cap",
        first_deliveries_decay=0,
        first_deliveries_cap=0,
    ),
    group(
        "mesh_deliveries_weight",
        "mesh_deliveries_decay",
        "mesh_deliveries_cap",
        "mesh_deliveries_threshold",
        "mesh_deliveries_window_ms",
        "mesh_deliveries_activation_ms",
        mesh_deliveries_decay=0,
        mesh_deliveries_cap=0,
        mesh_deliveries_threshold=0,
        mesh_deliveries_activation_ms=MIN_INTERVAL_MS,
    ),
    group("mesh_failure_weight", "mesh_failure_decay", mesh_failure_decay=0),
    group("invalid_messages_weight", "invalid_messages_decay", always={"invalid_messages_decay": 0}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoreParameters(GroupedParameters):
    """Weights, decays and caps of one topic. 0 is off."""

    owner: ClassVar[str] = "a topic's score"

    topic_weight: float = reward("what the topic's parts count in the score")
    time_in_mesh_weight: float = reward("P1: for each quantum in the mesh")
    time_in_mesh_quantum_ms: int = span("P1: the unit of time in the mesh")
    time_in_mesh_cap: float = amount("P1: quanta that count at most")
    first_deliveries_weight: float = reward("P2: for each message that the peer was first to bring")
    first_deliveries_decay: float = fraction("P2: what is left of the count after a refresh")
    first_deliveries_cap: float = amount("P2: most that is counted")
    mesh_deliveries_weight: float = penalty("P3: for the square of what a member's deliveries lack")
    mesh_deliveries_decay: float = fraction("P3: what is left of the count after a refresh")
    mesh_deliveries_cap: float = amount("P3: most that is counted")
    mesh_deliveries_threshold: float = amount("P3: deliveries that are expected")
    mesh_deliveries_window_ms: int = span("P3: how long after the verdict a copy counts")
    mesh_deliveries_activation_ms: int = span("P3: time in the mesh before deliveries are expected")
    mesh_failure_weight: float = penalty("P3b: for the squares that were lacking when the peer left the mesh")
    mesh_failure_decay: float = fraction("P3b: what is left after a refresh")
    invalid_messages_weight: float = penalty("P4: for the square of the number of invalid messages")
    invalid_messages_decay: float = fraction("P4: what is left of the count after a refresh")
    gater_weight: float = amount("what a message delivered in the topic counts for the gater", 1.0)

    @classmethod
    def groups(cls) -> tuple[Group, ...]:
        return _TOPIC_GROUPS

    def cross_rules(self) -> Iterator[Violation]:
        if self.mesh_deliveries_cap < self.mesh_deliveries_threshold:
            limit = f"must not be below mesh_deliveries_threshold ({self.mesh_deliveries_threshold})"
            yield Violation("mesh_deliveries_cap", self.mesh_deliveries_cap, limit)

    def numbers(self) -> TopicNumbers:
        """Return the numbers of the rules; they are in the order of the fields."""
        names = self.names()[1 : 1 + len(TopicNumbers._fields)]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        converted: list[Any] = [
            value * 1000 if name.endswith("_ms") else float(value) for name, value in given.items()
        ]
        return TopicNumbers(*converted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreThresholds(Parameters):
    """Scores below which a peer gets less, and two from which on it gets more."""

    owner: ClassVar[str] = "the thresholds"

    gossip: float = penalty("below it: no IHAVE to the peer, and its IHAVE and IWANT are not looked at")
    publish: float = penalty("below it: none of one's own messages to the peer, no place in a fan-out")
    graylist: float = penalty("below it: its RPCs are not looked at")
    accept_exchange: float = amount("from it on: peers that it names in a PRUNE are dialled")
    opportunistic_graft: float = amount("a mesh with a median below it grafts peers with better scores")

    def violations(self) -> Iterator[Violation]:
        found = tuple(self.field_violations())
        yield from found
        faulty = {violation.field for violation in found}
        for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
            value, limit = getattr(self, lower), getattr(self, upper)
            if faulty.isdisjoint((lower, upper)) and value > limit:
                yield Violation(lower, value, f"must not be above {upper} ({limit})")
