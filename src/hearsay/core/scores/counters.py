"""What is counted of a peer: in each topic, and as a whole."""

from __future__ import annotations

from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.rules.scores import counters, mesh_times, parts
from hearsay.core.scores.numbers import PeerNumbers, TopicNumbers


class TopicCounters:
    """Of a peer in one topic that has parameters. Only members of the mesh have a time in it."""

    __slots__ = ("_active", "failures", "first", "grafted", "invalid", "member", "mesh", "mesh_time", "worth")

    def __init__(self) -> None:
        self.member = False
        self.grafted: Micros = 0
        self.mesh_time: Micros = 0
        """As of the last refresh."""
        self._active = False
        self.first = 0.0
        self.mesh = 0.0
        self.failures = 0.0
        self.invalid = 0.0
        self.worth: float | None = None
        """The topic's sum, until something changes."""

    def graft(self, now: Micros) -> None:
        self.member = True
        self.grafted = now
        self.mesh_time = 0
        self._active = False

    def prune(self, topic: TopicNumbers, peer: PeerNumbers, now: Micros) -> None:
        active = self.is_active(topic, peer, now)
        if mesh_times.counts_as_failure(active, self.member, peer.second_prune_counts):
            self.failures += parts.deficit_square(self.mesh, topic.mesh_threshold)
        self.member = False
        self._active = mesh_times.stays_active(active, peer.deficit_after_prune)

    def go_away(self, topic: TopicNumbers, peer: PeerNumbers, now: Micros) -> None:
        """The peer disconnects and is kept."""
        self.first = 0.0
        if self.member:
            self.prune(topic, peer, now)

    def deliver(self, topic: TopicNumbers) -> None:
        self.first = counters.counted(self.first, 1.0, topic.first_cap)
        self.deliver_copy(topic)

    def deliver_copy(self, topic: TopicNumbers) -> None:
        if self.member:
            self.mesh = counters.counted(self.mesh, 1.0, topic.mesh_cap)

    def blame(self) -> None:
        self.invalid += 1.0

    def time_in_mesh(self, peer: PeerNumbers, now: Micros) -> Micros:
        if not self.member:
            return 0
        return now - self.grafted if peer.mesh_time_of_now else self.mesh_time

    def is_active(self, topic: TopicNumbers, peer: PeerNumbers, now: Micros) -> bool:
        """Whether mesh deliveries are expected."""
        if peer.mesh_time_of_now and self.member:
            return mesh_times.is_active(now - self.grafted, topic.activation)
        return self._active

    def recap(self, topic: TopicNumbers) -> None:
        self.first = min(self.first, topic.first_cap)
        self.mesh = min(self.mesh, topic.mesh_cap)

    def decay(self, topic: TopicNumbers, zero: float) -> None:
        self.first = counters.decayed(self.first, topic.first_decay, zero)
        self.mesh = counters.decayed(self.mesh, topic.mesh_decay, zero)
        self.failures = counters.decayed(self.failures, topic.failure_decay, zero)
        self.invalid = counters.decayed(self.invalid, topic.invalid_decay, zero)

    def refresh_mesh_time(self, topic: TopicNumbers, now: Micros) -> None:
        if self.member:
            self.mesh_time = now - self.grafted
            if mesh_times.is_active(self.mesh_time, topic.activation):
                self._active = True


class PeerCounters:
    """Of one peer, connected or kept."""

    __slots__ = ("connected", "least", "misbehaviour", "neighbourhood", "score", "slow", "topics")

    def __init__(self) -> None:
        self.connected = True
        self.topics: dict[TopicId, TopicCounters] = {}
        self.misbehaviour = 0.0
        self.slow = 0.0
        self.score: float | None = None
        """The total, until something changes …"""
        self.least: float | None = None
        """What it was when it was last summed, as long as only credit has come since."""
        self.neighbourhood = 0
        """… here, or at any address: as of so many changes of addresses."""

    def change(self) -> None:
        """Everything is to be summed anew."""
        self.score = self.least = None
        for counted in self.topics.values():
            counted.worth = None

    def decay(self, peer: PeerNumbers) -> None:
        self.misbehaviour = counters.decayed(self.misbehaviour, peer.misbehaviour_decay, peer.zero)
        self.slow = counters.decayed(self.slow, peer.slow_decay, peer.zero)

    @property
    def is_blameless(self) -> bool:
        """Whether forgetting the peer forgets nothing against it."""
        return not (self.misbehaviour or self.slow) and not any(
            counted.failures or counted.invalid for counted in self.topics.values()
        )
