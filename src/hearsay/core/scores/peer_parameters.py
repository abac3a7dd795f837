"""What a peer's own parts of a score are made with, and where implementations differ: the table `[router.score]`.

Rules:

* PARAMETERS-7: A penalty on shared addresses needs a threshold of 1 at least: every peer is one at its address.
* PARAMETERS-8: A refresh comes every second at most, and the zero of counters lies between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import ClassVar

from hearsay.core.language.identifiers import Micros
from hearsay.core.scores.choices import InvalidCopies, Ipv6Counting, MeshTimes, QuantumRounding, RetainedScores
from hearsay.core.scores.declarations import (
    MIN_INTERVAL_MS,
    Group,
    GroupedParameters,
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
from hearsay.core.scores.numbers import PeerNumbers
from hearsay.core.shell.parameters import Violation, texts

_GROUPS = (
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
        return _GROUPS

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
