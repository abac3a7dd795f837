"""The topics that scripted peers are played in: few, and with few messages, so that any set is played in seconds.

* Topics alike in which a peer does the same are one topic with their weights added.
* Messages are counted in bundles of a power of two: caps and thresholds are divided by it, weights of squares are
  multiplied by its square. Powers of two round nothing.
* The topics that can count most are played, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hearsay.core.scores.score_parameters import TopicNumbers
from hearsay.score_check.silence import active_after_s
from hearsay.score_check.worth import TopicWorth, Worth

MOST_TOPICS = 12
_MOST_BUNDLES = 40_000
_FEWEST_REFRESHES, _MOST_REFRESHES = 150, 3_000
_AFTER_ACTIVATION = 90


@dataclass(frozen=True, slots=True)
class StagedTopic:
    name: str
    of: TopicWorth
    numbers: TopicNumbers
    bundles: float
    """Between two refreshes."""


@dataclass(frozen=True, slots=True)
class Stage:
    worth: Worth
    refreshes: int
    played: Sequence[TopicWorth]
    left_out: int

    def topics(self, apart: TopicWorth | None = None) -> Iterator[StagedTopic]:
        """All that are played; of the group of `apart` one topic stands by itself, with the group's name."""
        for topic in self.played:
            if topic is apart:
                yield self._staged(topic, topic.group.name, 1)
                if topic.group.count > 1:
                    yield self._staged(topic, f"{topic.group.name}, the others", topic.group.count - 1)
            else:
                yield self._staged(topic, topic.group.name, topic.group.count)

    def _staged(self, topic: TopicWorth, name: str, many: int) -> StagedTopic:
        room = max(1, _MOST_BUNDLES // (self.refreshes * len(self.played)))
        rate = traffic_of(self.worth, topic)
        bundle = 1.0
        while rate / bundle > room:
            bundle *= 2.0
        own = topic.numbers
        numbers = own._replace(
            weight=own.weight * many,
            first_weight=own.first_weight * bundle,
            first_cap=own.first_cap / bundle,
            mesh_weight=own.mesh_weight * bundle * bundle,
            mesh_cap=own.mesh_cap / bundle,
            mesh_threshold=own.mesh_threshold / bundle,
            failure_weight=own.failure_weight * bundle * bundle,
        )
        return StagedTopic(name, topic, numbers, rate / bundle)


def stage_of(worth: Worth) -> Stage:
    heaviest = sorted(worth.topics, key=lambda topic: (topic.deficit - topic.most) * topic.group.count)[:MOST_TOPICS]
    played = [topic for topic in worth.topics if any(topic is each for each in heaviest)]
    waits = max((active_after_s(worth, topic) for topic in played if topic.expects), default=0.0)
    refreshes = 3 * round(waits / worth.interval_s) + _AFTER_ACTIVATION
    bounded = min(_MOST_REFRESHES, max(_FEWEST_REFRESHES, refreshes))
    return Stage(worth, bounded, played, len(worth.topics) - len(played))


def traffic_of(worth: Worth, topic: TopicWorth) -> float:
    """Messages between two refreshes; where that is not known, enough for a usual member to be at its caps."""
    if topic.per_refresh is not None:
        return topic.per_refresh
    own, degree = topic.numbers, worth.subject.expected.degree
    first = own.first_cap * (1.0 - own.first_decay) / own.first_decay if own.first_decay else 1.0
    mesh = own.mesh_threshold * (1.0 - own.mesh_decay) / own.mesh_decay if own.mesh_decay else 0.0
    return max(first, 2.0 * mesh) * degree
