"""The scores that peers can reach, from closed formulas for the counters. P1 … P7 are the parts of a score, which
`hearsay.core.rules.score_parts` describes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log

from hearsay.core.rules import score_parts
from hearsay.core.scores.declarations import QuantumRounding
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers, TopicScoreParameters
from hearsay.core.shell.parameters import MAX_TIME_MS
from hearsay.score_check.subject import Subject, TopicGroup

_MOST = 1 << 40
"""The largest number of refreshes or events that `first_that` considers."""


def left(counter: float, decay: float, refreshes: int, zero: float) -> float:
    """Return the value of a counter after a number of refreshes without additions; a value below `zero` is 0
    (COUNTER-2).
    """
    found = counter * decay**refreshes
    return 0.0 if found < zero else found


def settles_at(by: float, decay: float, cap: float, zero: float) -> float:
    """Return the value of a counter after a refresh in the long run, if `by` is added between each refresh and the
    next.
    """
    found = min(by / (1.0 - decay), cap) * decay
    return 0.0 if found < zero else found


def refreshes_until(counter: float, decay: float, below: float) -> int:
    """Return the number of refreshes until a counter without additions is less than `below`, which is positive."""
    if counter < below:
        return 0
    return 1 if decay <= 0 else max(1, ceil(log(below / counter) / log(decay)))


def refreshes_to_reach(level: float, by: float, decay: float) -> int | None:
    """Return the number of refreshes until a counter that starts at 0 reaches `level`, if `by` is added before each
    refresh; None if it never does.
    """
    settled = by * decay / (1.0 - decay)
    if level >= settled:
        return None
    return max(1, ceil(log(1.0 - level / settled) / log(decay)))


def first_that(holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number for which `holds` returns True; it must also return True for all larger numbers.
    Return None if this number is above `_MOST`.
    """
    found = bisect_left(range(_MOST + 1), True, key=holds)
    return found if found <= _MOST else None


@dataclass(frozen=True, slots=True)
class TopicWorth:
    """The worth of one topic of a group. All score parts are multiplied by the topic's weight."""

    group: TopicGroup
    parameters: TopicScoreParameters
    numbers: TopicNumbers
    in_mesh: float
    """Maximum of P1."""
    first: float
    """Maximum of P2."""
    deficit: float
    """P3 of an active member that delivers nothing; 0 if deliveries are not scored."""
    per_refresh: float | None
    """Messages of the topic between two refreshes; None if unknown."""
    usual_first: float
    """P2 of a usual member, which is first with an equal share of the messages; the maximum if the traffic is
    unknown.
    """

    @property
    def most(self) -> float:
        """Return the maximum of the topic's score: the sum of the maximums of P1 and P2."""
        return self.in_mesh + self.first

    @property
    def silent(self) -> float:
        """Return the sum of the parts of a member that delivers nothing: the maximum of P1, and P3."""
        return self.in_mesh + self.deficit

    @property
    def lost(self) -> float:
        """Return the score that a peer at its best loses, before the cap of all topics, if it delivers nothing in the
        topic.
        """
        return self.first - self.deficit

    @property
    def has_p3(self) -> bool:
        """Return True if the topic scores deliveries in the mesh (P3)."""
        return self.deficit < 0

    @property
    def most_counted(self) -> float:
        """Return the maximum of the counter of mesh deliveries after a refresh."""
        return self.numbers.mesh_cap * self.numbers.mesh_decay


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of a subject: score parts of all topics, and scores that follow from these parts."""

    subject: Subject
    peer: PeerScoreParameters
    topics: Sequence[TopicWorth]
    all_topics: float
    """Maximum sum of the scores of all topics, before the cap of all topics."""
    usual_topics: float
    """Sum of the scores of all topics for a usual member of every mesh, before the cap of all topics."""

    @property
    def share(self) -> float:
        """Return the share of the messages with which a usual member of the mesh is first."""
        return 1.0 / self.subject.expected.degree

    @property
    def interval_s(self) -> float:
        """Return the seconds between two refreshes."""
        return self.subject.score.peer.decay_interval_ms / 1000

    @property
    def best(self) -> float:
        """Return the maximum score of a peer, without the application's part (P5)."""
        return self.score(self.all_topics)

    @property
    def usual(self) -> float:
        """Return the score of a usual member of every mesh, which has no deficit."""
        return self.score(self.usual_topics)

    def score(self, topics: float, shared: float = 0.0, misbehaviour: float = 0.0) -> float:
        """Return the score of a peer without P5 and slow peers. `topics` is the sum of the scores of all topics,
        before the cap; `shared` is the number of peers at the peer's address (P6), and `misbehaviour` the count of
        misbehaviour (P7).
        """
        peer = self.peer
        return score_parts.total(
            score_parts.capped_topics(topics, float(peer.topic_cap)),
            0.0,
            score_parts.excess_square(shared, peer.shared_address_threshold) * peer.shared_address_weight,
            score_parts.excess_square(misbehaviour, peer.misbehaviour_threshold) * peer.misbehaviour_weight,
            0.0,
        )

    def silent_in(self, topic: TopicWorth) -> float:
        """Return the score of a peer that is silent in one topic of this group, and has the best score in
        all others.
        """
        return self.score(self.all_topics - topic.lost)

    def delivered(self, topic: TopicWorth, share: float) -> float | None:
        """Return the counter of mesh deliveries (P3) of a member that delivers this share of the messages, after a
        refresh; None if the traffic is unknown.
        """
        if topic.per_refresh is None:
            return None
        own = topic.numbers
        return settles_at(topic.per_refresh * share, own.mesh_decay, own.mesh_cap, self.peer.decay_to_zero)

    def invalid(self, topic: TopicWorth, count: float) -> float:
        """Return P4 of `count` invalid messages, times the topic's weight."""
        own = topic.numbers
        return score_parts.topic_sum(0.0, 0.0, 0.0, 0.0, score_parts.square(count) * own.invalid_weight, own.weight)


def deficit_of(own: TopicNumbers, deliveries: float) -> float:
    """Return P3 of an active member whose counter of mesh deliveries is `deliveries`, times the topic's weight."""
    lacking = score_parts.deficit_square(deliveries, own.mesh_threshold)
    return score_parts.topic_sum(0.0, 0.0, lacking * own.mesh_weight, 0.0, 0.0, own.weight)


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
        time = score_parts.time_in_mesh(MAX_TIME_MS * 1000, own.quantum, own.time_in_mesh_cap, whole)
        rate = None if group.messages_per_s is None else group.messages_per_s * interval_s
        usual = own.first_cap
        if rate is not None:
            usual = settles_at(rate / subject.expected.degree, own.first_decay, own.first_cap, peer.decay_to_zero)
        yield TopicWorth(
            group,
            parameters,
            own,
            in_mesh=score_parts.topic_sum(time * own.time_in_mesh_weight, 0.0, 0.0, 0.0, 0.0, own.weight),
            first=score_parts.topic_sum(0.0, own.first_cap * own.first_weight, 0.0, 0.0, 0.0, own.weight),
            deficit=deficit_of(own, 0.0),
            per_refresh=rate,
            usual_first=score_parts.topic_sum(0.0, usual * own.first_weight, 0.0, 0.0, 0.0, own.weight),
        )
