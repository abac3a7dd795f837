"""The scores that peers can reach, from closed formulas for the counters. P1 … P7 are the parts of a score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules import score_parts
from hearsay.core.scores.declarations import QuantumRounding
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers, TopicScoreParameters
from hearsay.core.shell.parameters import MAX_TIME_MS
from hearsay.score_check.subject import Subject, TopicGroup

MOST = 1 << 40
"""A bound above all plausible waits and numbers of messages."""


def left(counter: float, decay: float, refreshes: int, zero: float) -> float:
    """Return a counter after decay without additions (COUNTER-2)."""
    found = counter * decay**refreshes
    return 0.0 if found < zero else found


def settles_at(by: float, decay: float, cap: float, zero: float) -> float:
    """Return the value after a refresh to which a counter settles, if `by` is added between any two refreshes."""
    found = min(by / (1.0 - decay), cap) * decay
    return 0.0 if found < zero else found


def refreshes_until(counter: float, decay: float, below: float) -> int:
    """Return the number of refreshes until the counter is less than `below`, which is positive."""
    if counter < below:
        return 0
    return 1 if decay <= 0 else max(1, ceil(log(below / counter) / log(decay)))


def refreshes_to_reach(level: float, by: float, decay: float) -> int | None:
    """Return the number of refreshes until a counter that starts at 0 reaches the level; None if it never does."""
    settled = by * decay / (1.0 - decay)
    if level >= settled:
        return None
    return max(1, ceil(log(1.0 - level / settled) / log(decay)))


def first_that(holds: Callable[[int], bool], most: int = MOST) -> int | None:
    """Return the least number for which a monotonic condition holds; None if it is above `most`."""
    if holds(0):
        return 0
    high = 1
    while not holds(high):
        if high >= most:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


A_MONTH: Micros = MAX_TIME_MS * 1000


@dataclass(frozen=True, slots=True)
class TopicWorth:
    """Score parts of one topic of a group, times the topic's weight."""

    group: TopicGroup
    parameters: TopicScoreParameters
    numbers: TopicNumbers
    in_mesh: float
    """Maximum of P1."""
    first: float
    """Maximum of P2."""
    deficit: float
    """P3 of a member that delivers nothing; 0 if deliveries are not scored."""
    per_refresh: float | None
    """Messages of the topic between two refreshes; None if unknown."""
    usual_first: float
    """P2 of a member that is first as often as the others; its maximum if the traffic is unknown."""

    @property
    def most(self) -> float:
        return self.in_mesh + self.first

    @property
    def silent(self) -> float:
        return self.in_mesh + self.deficit

    @property
    def lost(self) -> float:
        """Return the loss of score by silence, from the best score."""
        return self.first - self.deficit

    @property
    def expects(self) -> bool:
        """True if deliveries are scored (P3)."""
        return self.deficit < 0


@dataclass(frozen=True, slots=True)
class Worth:
    subject: Subject
    peer: PeerScoreParameters
    topics: Sequence[TopicWorth]
    all_topics: float
    """Maximum of all topics, before the cap."""
    usual_topics: float
    """Sum of all topics for a member of every mesh that is first as often as the others."""

    @property
    def interval_s(self) -> float:
        return self.subject.score.peer.decay_interval_ms / 1000

    @property
    def best(self) -> float:
        """Return the maximum score of a peer."""
        return self.score(self.all_topics)

    @property
    def usual(self) -> float:
        """Return the score of a member of every mesh that is first as often as the others, and delivers enough."""
        return self.score(self.usual_topics)

    def score(self, topics: float, shared: float = 0.0, misbehaviour: float = 0.0) -> float:
        """Return the score for a sum of all topics, a number of peers at the address, and a count for P7."""
        peer = self.peer
        return score_parts.total(
            score_parts.capped_topics(topics, float(peer.topic_cap)),
            0.0,
            score_parts.excess_square(shared, peer.shared_address_threshold) * peer.shared_address_weight,
            score_parts.excess_square(misbehaviour, peer.misbehaviour_threshold) * peer.misbehaviour_weight,
            0.0,
        )

    def silent_in(self, topic: TopicWorth) -> float:
        """Return the score of a peer that has the best score, but is silent in one topic of this group."""
        return self.score(self.all_topics - topic.lost)

    def delivered(self, topic: TopicWorth, share: float) -> float | None:
        """Return P3's count of a member that delivers this share of the messages; None if the traffic is unknown."""
        if topic.per_refresh is None:
            return None
        own = topic.numbers
        return settles_at(topic.per_refresh * share, own.mesh_decay, own.mesh_cap, self.peer.decay_to_zero)

    def deficit(self, topic: TopicWorth, deliveries: float) -> float:
        """Return P3 of an active member, times the topic's weight."""
        own = topic.numbers
        lacking = score_parts.deficit_square(deliveries, own.mesh_threshold)
        return score_parts.topic_sum(0.0, 0.0, lacking * own.mesh_weight, 0.0, 0.0, own.weight)

    def invalid(self, topic: TopicWorth, count: float) -> float:
        """Return P4 of `count` invalid messages, times the topic's weight."""
        own = topic.numbers
        return score_parts.topic_sum(0.0, 0.0, 0.0, 0.0, score_parts.square(count) * own.invalid_weight, own.weight)


def worth_of(subject: Subject) -> Worth:
    topics = tuple(_topics(subject))
    most = sum(each.most * each.group.count for each in topics)
    usual = sum((each.in_mesh + each.usual_first) * each.group.count for each in topics)
    return Worth(subject, subject.score.peer, topics, most, usual)


def _topics(subject: Subject) -> Iterator[TopicWorth]:
    peer = subject.score.peer
    interval_s = peer.decay_interval_ms / 1000
    whole = peer.time_in_mesh_quanta is QuantumRounding.WHOLE
    for group, parameters in subject.scored:
        own = parameters.numbers()
        time = score_parts.time_in_mesh(A_MONTH, own.quantum, own.time_in_mesh_cap, whole)
        rate = None if group.messages_per_s is None else group.messages_per_s * interval_s
        usual = own.first_cap
        if rate is not None:
            usual = settles_at(rate / subject.expected.degree, own.first_decay, own.first_cap, peer.decay_to_zero)
        lacking = score_parts.deficit_square(0.0, own.mesh_threshold) * own.mesh_weight
        yield TopicWorth(
            group,
            parameters,
            own,
            in_mesh=score_parts.topic_sum(time * own.time_in_mesh_weight, 0.0, 0.0, 0.0, 0.0, own.weight),
            first=score_parts.topic_sum(0.0, own.first_cap * own.first_weight, 0.0, 0.0, 0.0, own.weight),
            deficit=score_parts.topic_sum(0.0, 0.0, lacking, 0.0, 0.0, own.weight),
            per_refresh=rate,
            usual_first=score_parts.topic_sum(0.0, usual * own.first_weight, 0.0, 0.0, 0.0, own.weight),
        )
