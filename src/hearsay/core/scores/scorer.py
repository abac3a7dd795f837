"""The scores that one node gives its peers.

Topics without parameters have no counters. There is no clock and no randomness: callers pass the time in
microseconds, which never decreases. Events of disconnected peers may come late, so calls about unknown peers, or
about topics without parameters, have no effect on scores. But `set_application_score` for an unknown peer takes
effect when the peer connects. Among calls at the same time, the order of those about copies of different peers does
not matter unless a limit is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.rules import deliveries, score_parts
from hearsay.core.scores.declarations import InvalidCopies, MeshTimes, QuantumRounding, RetainedScores
from hearsay.core.scores.records import DeliveryRecords, PeerCounters, RetainedPeers, SharedAddresses, TopicCounters
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.shell.guarantees import PeerParts, ScoreParts, TopicParts
from hearsay.core.shell.parameters import MAX_COUNT

Weighted: TypeAlias = tuple[float, float, float, float, float]
"""Five parts of a score, each multiplied by its weight."""


class Scorer:
    """Counts the conduct of peers, and computes their scores."""

    def __init__(self, parameters: PeerScoreParameters, topics: Mapping[TopicId, TopicNumbers]) -> None:
        self._parameters = parameters
        self._times_are_now = parameters.mesh_times is MeshTimes.NOW
        self._counts_whole_quanta = parameters.time_in_mesh_quanta is QuantumRounding.WHOLE
        self._topics = dict(topics)
        self._peers: dict[PeerId, PeerCounters] = {}
        """The counters of connected peers, and those of disconnected peers that are kept."""
        self._retained = RetainedPeers(parameters.max_retained_peers)
        self._addresses = SharedAddresses(
            parameters.shared_address_allowed, parameters.ipv6_addresses, parameters.max_addresses_per_peer
        )
        self._deliveries = DeliveryRecords(parameters.delivery_ttl_ms * 1000, parameters.max_deliveries)
        self._application: dict[PeerId, float] = {}
        """The application's scores of peers, without those that are 0."""

    def connect(self, peer: PeerId, addresses: Iterable[str] = ()) -> None:
        found = self._peers.get(peer)
        if found is not None and not found.connected:
            self._retained.remove(peer)
            found.connected = True
            if self._parameters.retained_scores is RetainedScores.UNTIL_RETURN:
                found = None
        if found is None:
            self._peers[peer] = PeerCounters()
        self.set_addresses(peer, addresses)

    def set_addresses(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """Set the present addresses of a known peer, in place of earlier ones (P6)."""
        if peer in self._peers and self._parameters.shared_address_weight:
            self._addresses.set_addresses(peer, addresses)

    def disconnect(self, peer: PeerId, now: Micros) -> None:
        found = self._peers.get(peer)
        if found is None or not found.connected:
            return
        own = self._parameters
        if not score_parts.is_kept(self.score(peer, now), own.retained_scores is RetainedScores.ALL, own.retain_ms):
            self._forget(peer)
            return
        found.connected = False
        found.change()
        for topic, counted in found.topics.items():
            counted.go_away(self._topics[topic], own, now)
        evicted = self._retained.keep(peer, now + own.retain_ms * 1000, found.is_blameless)
        if evicted is not None:
            self._forget(evicted)

    def graft(self, peer: PeerId, topic: TopicId, now: Micros) -> None:
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.graft(now)

    def prune(self, peer: PeerId, topic: TopicId, now: Micros) -> None:
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.prune(self._topics[topic], self._parameters, now)

    def validate(self, topic: TopicId, message: MessageId, now: Micros) -> None:
        """Note that the validation of a message begins. If the message was throttled before, its record is open
        again."""
        if topic in self._topics:
            record = self._deliveries.record(message, now)
            record.state = deliveries.reopened(record.state)

    def deliver(self, peer: PeerId | None, topic: TopicId, message: MessageId, now: Micros) -> None:
        """Count an accepted message. `peer` sent the first copy; None for a message of this node."""
        if topic not in self._topics:
            return
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.deliver(self._topics[topic])
        record = self._deliveries.record(message, now)
        if record.state != deliveries.OPEN:
            return
        record.state = deliveries.ACCEPTED
        record.decided = now
        for sender in record.senders:
            if sender != peer:
                self._deliver_copy(sender, topic)

    def duplicate(self, peer: PeerId, topic: TopicId, message: MessageId, now: Micros) -> None:
        """Count a copy that `peer` sent after the first copy of a message (DELIVERY-2 to DELIVERY-4)."""
        if topic not in self._topics:
            return
        record = self._deliveries.record(message, now)
        answer = deliveries.copy_answer(record.state, peer in record.senders)
        if answer == deliveries.BLAMED:
            self._blame_copy(peer, topic)
        elif answer != deliveries.NOTHING and len(record.senders) < self._parameters.max_senders_per_delivery:
            record.senders[peer] = None
            in_window = deliveries.is_in_window(now - record.decided, self._topics[topic].window)
            if answer == deliveries.CREDITED and in_window:
                self._deliver_copy(peer, topic)

    def reject(self, peer: PeerId, topic: TopicId, message: MessageId, reason: int, now: Micros) -> None:
        """Count a message of this peer that is rejected, ignored or throttled. `reason` is the number of a
        `Reason`."""
        verdict = deliveries.rejection(reason)
        if verdict == deliveries.BLAMED_AT_ONCE:
            self.blame(peer, topic)
        if verdict < 0 or topic not in self._topics:
            return
        record = self._deliveries.record(message, now)
        if record.state != deliveries.OPEN:
            return
        record.state = verdict
        if verdict == deliveries.INVALID:
            self.blame(peer, topic)
            for sender in record.senders:
                self._blame_copy(sender, topic)
        record.senders.clear()

    def penalise(self, peer: PeerId, count: float = 1.0) -> None:
        """Add `count` to the misbehaviour of a peer (P7), for example for broken promises. Raise `ValueError` if
        `count` is negative or above `MAX_COUNT`."""
        _check(count, 0)
        found = self._peers.get(peer)
        if found is not None:
            found.misbehaviour += count
            found.score = None
            self._retained.blame(peer)

    def credit(self, peer: PeerId, topic: TopicId) -> None:
        """Count useful parts of a message as a first delivery of the peer."""
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.deliver(self._topics[topic])

    def blame(self, peer: PeerId, topic: TopicId) -> None:
        """Count an invalid message, or invalid parts of a message, of a peer (P4)."""
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.invalid += 1.0
            self._retained.blame(peer)

    def penalise_slow(self, peer: PeerId, count: float = 1.0) -> None:
        """Count messages to a peer that could not be sent. Raise `ValueError` as `penalise` does."""
        _check(count, 0)
        found = self._peers.get(peer)
        if found is not None:
            found.slow += count
            found.score = None

    def set_application_score(self, peer: PeerId, score: float) -> None:
        """Set the application's score of a peer (P5); 0 is neutral. The peer need not be known. Raise `ValueError` if
        the absolute value of the score is above `MAX_COUNT`."""
        _check(score, -MAX_COUNT)
        if score:
            self._application[peer] = float(score)
        else:
            self._application.pop(peer, None)
        if peer in self._peers:
            self._peers[peer].score = None

    def set_topic_parameters(self, topic: TopicId, numbers: TopicNumbers) -> None:
        """Set the parameters of a topic from now on. Smaller caps lower the counters at once (COUNTER-3)."""
        self._topics[topic] = numbers
        for found in self._peers.values():
            if topic in found.topics:
                found.change()
                found.topics[topic].cap(numbers)

    def refresh(self, now: Micros) -> None:
        """Decay the counters, and update the times in meshes. Forget disconnected peers and records whose time is
        over.

        The caller calls this every `decay_interval_ms`.
        """
        own = self._parameters
        for peer in self._retained.expire(now):
            self._forget(peer)
        for found in self._peers.values():
            if found.connected or own.decay_while_away:
                found.decay(own)
                found.change()
                for topic, counted in found.topics.items():
                    counted.decay(self._topics[topic], own.decay_to_zero)
                    counted.refresh_mesh_time(self._topics[topic], now)
        self._deliveries.expire(now)

    def score(self, peer: PeerId, now: Micros) -> float:
        """Return the score of a peer; 0 for an unknown peer.

        The score is cached until a counter of the peer, the application's score of the peer, the parameters of a
        topic, or the addresses of any peer change. With `MeshTimes.NOW` it is not cached.
        """
        found = self._peers.get(peer)
        if found is None:
            return 0.0
        changes = self._addresses.changes
        if found.score is None or found.address_changes != changes or self._times_are_now:
            found.score = score_parts.total(*self._peer_parts(peer, found, now))
            found.address_changes = changes
        return found.score

    def parts(self, peer: PeerId, now: Micros) -> ScoreParts | None:
        """Return the score of a peer with its parts, which are computed now; None if the peer is unknown."""
        found = self._peers.get(peer)
        if found is None:
            return None
        own = self._peer_parts(peer, found, now)
        topics = tuple(
            (topic, TopicParts(*self._topic_parts(topic, counted, now))) for topic, counted in found.topics.items()
        )
        return ScoreParts(score_parts.total(*own), PeerParts(*own), topics)

    def _peer_parts(self, peer: PeerId, found: PeerCounters, now: Micros) -> Weighted:
        """Return the values of `PeerParts`, as a plain tuple since that is faster to make."""
        own = self._parameters
        misbehaviour = score_parts.excess_square(found.misbehaviour, own.misbehaviour_threshold)
        slow = score_parts.excess(found.slow, own.slow_peer_threshold)
        shared = self._addresses.excess(peer, own.shared_address_threshold)
        return (
            self._sum_of_topics(found, now),
            self._application.get(peer, 0.0) * own.application_weight,
            shared * own.shared_address_weight,
            misbehaviour * own.misbehaviour_weight,
            slow * own.slow_peer_weight,
        )

    def _sum_of_topics(self, found: PeerCounters, now: Micros) -> float:
        summed = 0.0
        for topic, counted in found.topics.items():
            if counted.worth is None or self._times_are_now:
                weighted = self._topic_parts(topic, counted, now)
                counted.worth = score_parts.topic_sum(*weighted, self._topics[topic].weight)
            summed += counted.worth
        return score_parts.capped_topics(summed, float(self._parameters.topic_cap))

    def _topic_parts(self, topic: TopicId, counted: TopicCounters, now: Micros) -> Weighted:
        """Return the values of `TopicParts`, as a plain tuple."""
        own, of_peer = self._topics[topic], self._parameters
        time = counted.time_in_mesh(of_peer, now)
        active = counted.is_active(own, of_peer, now)
        deficit = score_parts.deficit_square(counted.mesh, own.mesh_threshold) if active else 0.0
        return (
            score_parts.time_in_mesh(time, own.quantum, own.time_in_mesh_cap, self._counts_whole_quanta)
            * own.time_in_mesh_weight,
            counted.first * own.first_weight,
            deficit * own.mesh_weight,
            counted.failures * own.failure_weight,
            score_parts.square(counted.invalid) * own.invalid_weight,
        )

    def _counted(self, peer: PeerId | None, topic: TopicId) -> TopicCounters | None:
        """Return the counters of a peer in a topic, new ones if there are none yet. Return None if the peer is
        unknown or the topic has no parameters.

        Clear the cached sums, since the caller changes the counters.
        """
        found = None if peer is None else self._peers.get(peer)
        if found is None:
            return None
        counted = found.topics.get(topic)
        if counted is None and topic in self._topics:
            counted = TopicCounters()
            found.topics = dict(sorted([*found.topics.items(), (topic, counted)], key=lambda item: item[0]))
        if counted is not None:
            found.score = counted.worth = None
        return counted

    def _deliver_copy(self, peer: PeerId, topic: TopicId) -> None:
        counted = self._counted(peer, topic)
        if counted is not None:
            counted.deliver_copy(self._topics[topic])

    def _blame_copy(self, peer: PeerId, topic: TopicId) -> None:
        counted = self._counted(peer, topic)
        members_only = self._parameters.invalid_copies is InvalidCopies.MEMBERS
        if counted is not None and deliveries.is_blamed(counted.member, members_only):
            self.blame(peer, topic)

    def _forget(self, peer: PeerId) -> None:
        del self._peers[peer]
        self._addresses.remove(peer)


def _check(value: float, low: float) -> None:
    """Raise `ValueError` if a count or score that the caller passes is not in low … MAX_COUNT."""
    if not low <= value <= MAX_COUNT:
        raise ValueError(f"a count or score of {value!r}: it must be in {low}…{MAX_COUNT}")
