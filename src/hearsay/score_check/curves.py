"""Scores over time of scripted peers, computed by the `Scorer` of the routers.

A play runs one `Script` on a `Stage`. The script is the behaviour of a peer: honest, or one kind of misbehaviour. The
stage has the topics and the number of refreshes. In a topic with much traffic, one played message stands for a bundle
of messages, and the topic's parameters are scaled by the size of the bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hearsay.core.language.actions import Reason
from hearsay.core.rules.score_parts import may_be_in_mesh, topic_sum
from hearsay.core.scores.score_parameters import TopicNumbers
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.guarantees import ScoreParts
from hearsay.number_text import plural
from hearsay.score_check.offences import (
    BROKEN_PROMISES,
    SHARING_PEERS,
    Verdict,
    active_after_s,
    offences_of_the_peer,
    silences,
)
from hearsay.score_check.worth import TopicWorth, Worth

MOST_TOPICS = 12
_MOST_BUNDLES = 40_000
_FEWEST_REFRESHES, _MOST_REFRESHES = 150, 3_000
_AFTER_ACTIVATION = 90


@dataclass(frozen=True, slots=True)
class StagedTopic:
    """A topic of a stage, or a group of equal topics that is played as one. `numbers` are scaled to bundles, and the
    topic's weight is multiplied by the number of topics.
    """

    name: str
    worth: TopicWorth
    """The worth of the topic, without bundles."""
    numbers: TopicNumbers
    bundles: float
    """Number of bundles between two refreshes."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The topics that are played, and the number of refreshes of the scorer."""

    worth: Worth
    refreshes: int
    played: Sequence[TopicWorth]
    left_out: int
    """Number of groups of topics that are not played."""

    def topics(self, apart: TopicWorth | None = None) -> Iterator[StagedTopic]:
        """Yield each group as one topic. Split the group `apart` into one topic and a topic for the others."""
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
    """Return the stage of a subject. It has at most `MOST_TOPICS` groups: those with the largest difference between
    the maximum score and P3 of a silent member, summed over the topics of the group. It lasts three times as long as
    it takes until deliveries are scored in all of them that score deliveries, and `_AFTER_ACTIVATION` refreshes more,
    within the bounds `_FEWEST_REFRESHES` and `_MOST_REFRESHES`.
    """
    heaviest = sorted(worth.topics, key=lambda topic: (topic.deficit - topic.most) * topic.group.count)[:MOST_TOPICS]
    played = [topic for topic in worth.topics if topic in heaviest]
    waits = max((active_after_s(worth, topic) for topic in played if topic.has_p3), default=0.0)
    refreshes = 3 * round(waits / worth.interval_s) + _AFTER_ACTIVATION
    bounded = min(_MOST_REFRESHES, max(_FEWEST_REFRESHES, refreshes))
    return Stage(worth, bounded, played, len(worth.topics) - len(played))


def traffic_of(worth: Worth, topic: TopicWorth) -> float:
    """Return the number of a topic's messages between two refreshes. If the traffic is unknown, return a number with
    which a usual member reaches the cap of first deliveries, and twice the threshold of mesh deliveries.
    """
    if topic.per_refresh is not None:
        return topic.per_refresh
    own, degree = topic.numbers, worth.subject.expected.degree
    first = own.first_cap * (1.0 - own.first_decay) / own.first_decay if own.first_decay else 1.0
    mesh = own.mesh_threshold * (1.0 - own.mesh_decay) / own.mesh_decay if own.mesh_decay else 0.0
    return max(first, 2.0 * mesh) * degree


PARTS = (
    "time in meshes",
    "first deliveries",
    "mesh deliveries",
    "mesh failures",
    "invalid messages",
    "shared addresses",
    "misbehaviour",
)
_MOST_SILENT = 3
_MOST_SAMPLES = 240
_MOST_INVALID = 20
_MOST_SHARING = 200
_PEER = "peer"
_ADDRESS = "192.0.2.1"


@dataclass(frozen=True, slots=True)
class Script:
    """The behaviour of a peer; `does` is a description that continues "the peer …"."""

    name: str
    does: str
    silent_in: TopicWorth | None = None
    """The group with a topic in which the peer delivers nothing."""
    is_late: bool = False
    """True if the peer delivers only copies after the window of mesh deliveries."""
    invalid_in: TopicWorth | None = None
    """The group with a topic in which the peer sends invalid messages."""
    breaks_promises: int = 0
    """Number of promises that the peer breaks at each heartbeat, in the second third of the play."""
    shares_with: int = 0
    """Number of other peers at the peer's address in the second third of the play."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Samples of the score of a peer. `parts` has a row of samples for each of `PARTS`, without the cap of all
    topics.
    """

    name: str
    does: str
    times_s: Sequence[float]
    """Times of the samples, each at a refresh."""
    scores: Sequence[float]
    parts: Sequence[Sequence[float]]
    first_pruned_s: float | None
    """Time at which the peer is first pruned; None if it never is."""


@dataclass(frozen=True, slots=True)
class Played:
    stage: Stage
    curves: Sequence[Curve]


def play_all(worth: Worth) -> Played:
    stage = stage_of(worth)
    return Played(stage, [_Play(stage, script).curve() for script in scripts(stage)])


def scripts(stage: Stage) -> Iterator[Script]:
    """Yield the scripts of an honest peer, of peers that are silent in one topic each (`_silent_topics`), and of a
    late peer. Then yield a script for each other kind of misbehaviour that has a weight; for broken promises only if
    the router tracks promises.
    """
    worth = stage.worth
    yield Script("honest", "does what it should")
    for topic in _silent_topics(stage):
        name = topic.group.name
        yield Script(
            f"silent in {name}", f"delivers nothing in one topic ({name}), and all it should elsewhere", topic
        )
    yield Script("late", "brings copies of everything after their window, and is first with nothing", is_late=True)
    punished = [topic for topic in stage.played if worth.invalid(topic, 1.0)]
    if punished:
        worst = min(punished, key=lambda topic: worth.invalid(topic, 1.0))
        name = worst.group.name
        yield Script("invalid messages", f"sends an invalid message in {name} between two refreshes, "
                     f"{_MOST_INVALID} times at most", invalid_in=worst)  # fmt: skip
    needed = {each.name: each.needed["negative"] for each in offences_of_the_peer(worth)}
    most = worth.subject.expected.promises_per_heartbeat
    if worth.peer.misbehaviour_weight and most:
        broken = min(most, needed[BROKEN_PROMISES] or most)
        yield Script("broken promises", f"breaks {plural(broken, 'promise')} at every heartbeat for a third of the "
                     "time", breaks_promises=broken)  # fmt: skip
    if worth.peer.shared_address_weight:
        others = min(_MOST_SHARING, int(needed[SHARING_PEERS] or worth.peer.shared_address_threshold + 3)) - 1
        yield Script(
            "shared address", f"has {others} others at its address for a third of the time", shares_with=others
        )


def _silent_topics(stage: Stage) -> list[TopicWorth]:
    """Return at most `_MOST_SILENT` topics: first those in which other topics outweigh silence, then those that catch
    silent peers, then those that do not score deliveries; each in descending order of the score of a silent peer.
    """
    order = (Verdict.OUTWEIGHED, Verdict.CAUGHT, Verdict.NOT_EXPECTED)
    found = {each.topic: (order.index(each.verdict), -each.score) for each in silences(stage.worth) if each.topic}
    return sorted(stage.played, key=found.__getitem__)[:_MOST_SILENT]


class _Play:
    """The play of one script, with its own scorer."""

    def __init__(self, stage: Stage, script: Script) -> None:
        self._stage, self._script = stage, script
        self._topics: Sequence[StagedTopic] = list(stage.topics(script.silent_in))
        score = stage.worth.subject.score
        self._interval = score.peer.decay_interval_us
        self._scorer = Scorer(score.peer, {topic.name: topic.numbers for topic in self._topics})
        self._messages = dict.fromkeys((topic.name for topic in self._topics), 0)
        self._is_member = True
        self._pruned_at = 0

    def curve(self) -> Curve:
        stage, script = self._stage, self._script
        self._scorer.connect(_PEER, [_ADDRESS])
        self._graft(0)
        every = -(-stage.refreshes // _MOST_SAMPLES)
        times: list[float] = []
        samples: list[ScoreParts] = []
        pruned: float | None = None
        for refresh in range(1, stage.refreshes + 1):
            now = refresh * self._interval
            self._act(refresh, now - self._interval)
            self._scorer.refresh(now)
            found = self._scorer.parts(_PEER, now)
            assert found is not None
            if refresh % every == 0 or refresh == stage.refreshes:
                times.append(now / 1_000_000)
                samples.append(found)
            if self._prune_or_graft(found.score, now) and pruned is None:
                pruned = now / 1_000_000
        rows = [self._row(each) for each in samples]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return Curve(script.name, script.does, times, [each.score for each in samples], columns, pruned)

    def _act(self, refresh: int, now: int) -> None:
        """Report to the scorer all events before a refresh, at `now`, the time of the refresh before."""
        third = self._stage.refreshes // 3
        if self._is_member:
            for topic in self._topics:
                silent = self._script.silent_in is topic.worth and topic.name == topic.worth.group.name
                for _ in range(int(topic.bundles * refresh) - int(topic.bundles * (refresh - 1))):
                    self._message(topic, silent, now)
        offending = third <= refresh < 2 * third
        if self._script.invalid_in is not None and third <= refresh < third + _MOST_INVALID:
            self._invalid(self._script.invalid_in, now)
        if self._script.breaks_promises and offending:
            beats = self._stage.worth.subject.expected.heartbeat_ms * 1000
            heartbeats = (now + self._interval) // beats - now // beats
            self._scorer.penalise(_PEER, float(self._script.breaks_promises * heartbeats))
        for other in range(self._script.shares_with):
            if refresh == third:
                self._scorer.connect(f"other {other}", [_ADDRESS])
            elif refresh == 2 * third:
                self._scorer.disconnect(f"other {other}", now)

    def _message(self, topic: StagedTopic, silent: bool, now: int) -> None:
        number, message = self._next(topic.name)
        name, script = topic.name, self._script
        is_first = number % self._stage.worth.subject.expected.degree == 0 and not (silent or script.is_late)
        self._scorer.validate(name, message, now)
        self._scorer.deliver(_PEER if is_first else None, name, message, now)
        if script.is_late:
            self._scorer.duplicate(_PEER, name, message, now + topic.numbers.window + 1)
        elif not (silent or is_first) and number % 2:
            self._scorer.duplicate(_PEER, name, message, now)

    def _next(self, topic: str) -> tuple[int, str]:
        """Return the number and the id of a topic's next message."""
        self._messages[topic] += 1
        return self._messages[topic], f"{self._messages[topic]} {topic}"

    def _invalid(self, where: TopicWorth, now: int) -> None:
        name = next(topic.name for topic in self._topics if topic.worth is where)
        _, message = self._next(name)
        self._scorer.validate(name, message, now)
        self._scorer.reject(_PEER, name, message, int(Reason.REJECTED), now)

    def _prune_or_graft(self, score: float, now: int) -> bool:
        """Prune or graft the peer by its score after a refresh. Return True if this prunes the peer."""
        if self._is_member and not may_be_in_mesh(score):
            self._is_member = False
            self._pruned_at = now
            for topic in self._topics:
                self._scorer.prune(_PEER, topic.name, now)
            return True
        backoff = self._stage.worth.subject.expected.prune_backoff_ms * 1000
        if not self._is_member and may_be_in_mesh(score) and now - self._pruned_at >= backoff:
            self._graft(now)
        return False

    def _graft(self, now: int) -> None:
        self._is_member = True
        for topic in self._topics:
            self._scorer.graft(_PEER, topic.name, now)

    def _row(self, found: ScoreParts) -> list[float]:
        weights = {topic.name: topic.numbers.weight for topic in self._topics}
        of_topics = [
            sum(topic_sum(own[place], 0.0, 0.0, 0.0, 0.0, weights[str(name)]) for name, own in found.topics)
            for place in range(5)
        ]
        return [*of_topics, found.peer.shared_addresses, found.peer.misbehaviour]
