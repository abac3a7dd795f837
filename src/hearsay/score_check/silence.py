"""Detection of a peer that is silent in a topic, and the number of topics in which it may be silent.

A score is one sum, so what a peer earns in other topics stands against what it lacks in one (CVE-2022-47547;
arXiv 2212.05197). The cap of all topics does not help: it bounds that sum, from which the deficit is taken already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.rules import score_parts
from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import TopicWorth, Worth, first_that, left


class Verdict(StrEnum):
    CAUGHT = "caught"
    OUTWEIGHED = "outweighed"
    """Deliveries are scored, and other topics outweigh them."""
    NOT_EXPECTED = "not expected"
    """The topic is scored, its deliveries are not."""
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True)
class Silence:
    """Silence of a peer with the best score elsewhere."""

    group: TopicGroup
    verdict: Verdict
    score: float
    """The remaining score."""
    from_start_s: float | None = None
    """Until it is below 0, silent from its GRAFT on; None: never."""
    from_stop_s: float | None = None
    """… silent after it had delivered all that counts."""


def silences(worth: Worth) -> list[Silence]:
    """Return the silence of each group of topics, in their order."""
    scored = {id(each.group): each for each in worth.topics}
    found: list[Silence] = []
    for group in worth.subject.topics:
        topic = scored.get(id(group))
        if topic is None:
            found.append(Silence(group, Verdict.UNSCORED, worth.best))
        else:
            found.append(_silence(worth, topic))
    return found


def _silence(worth: Worth, topic: TopicWorth) -> Silence:
    score = worth.silent_in(topic)
    if not topic.expects:
        return Silence(topic.group, Verdict.NOT_EXPECTED, score)
    if may_be_in_mesh(score):
        return Silence(topic.group, Verdict.OUTWEIGHED, score)
    return Silence(topic.group, Verdict.CAUGHT, score, active_after_s(worth, topic), _after_stopping_s(worth, topic))


def active_after_s(worth: Worth, topic: TopicWorth) -> float:
    """From a GRAFT until deliveries are expected: a refresh sees to that (ACTIVE-2)."""
    interval = worth.subject.score.peer.decay_interval_us
    refreshes = first_that(lambda count: score_parts.is_active(count * interval, topic.numbers.activation))
    return (refreshes or 0) * worth.interval_s


def _after_stopping_s(worth: Worth, topic: TopicWorth) -> float | None:
    """Return the time after which its deliveries, and the score they gave, have decayed."""
    own, zero = topic.numbers, worth.peer.decay_to_zero
    others = worth.all_topics - topic.most + topic.in_mesh

    def caught(refreshes: int) -> bool:
        delivered = left(own.mesh_cap, own.mesh_decay, refreshes, zero)
        first = left(own.first_cap, own.first_decay, refreshes, zero) * own.first_weight * own.weight
        return not may_be_in_mesh(worth.score(others + first + worth.deficit(topic, delivered)))

    found = first_that(caught)
    return None if found is None else found * worth.interval_s


def most_silent(worth: Worth) -> list[tuple[TopicWorth, int]]:
    """The most topics in which a peer at its best elsewhere may be silent and keep a score of 0: those in which it
    costs least. Groups, with how many of their topics."""
    spare = worth.all_topics
    chosen: list[tuple[TopicWorth, int]] = []
    for topic in sorted(worth.topics, key=lambda each: each.lost):
        many = topic.group.count
        if topic.lost > 0:
            many = min(many, int(max(0.0, spare) / topic.lost))
        spare -= topic.lost * many
        if many and spare >= 0:
            chosen.append((topic, many))
    return chosen


def total_topics(topics: Sequence[tuple[TopicWorth, int]]) -> int:
    return sum(count for _, count in topics)
