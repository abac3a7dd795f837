"""The costs of silence and of offences for a peer.

A score is a sum, so the scores of other topics offset a deficit in one topic (CVE-2022-47547; arXiv 2212.05197). The
cap of all topics does not help: it bounds the sum, which includes the deficit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules import score_parts
from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.promises import MAX_PROMISES_OF_PEER
from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import TopicWorth, Worth, deficit_of, first_that, left, refreshes_until


def promises_per_heartbeat(parameters: GossipsubParameters) -> int:
    """Return the maximum number of promises that one peer can make between two heartbeats; 0 if the router tracks
    none. An IHAVE makes one promise, or one for each id, as `tracked_promises` says.
    """
    match parameters.tracked_promises:
        case TrackedPromises.ONE:
            return min(parameters.max_ihave_messages or MAX_PROMISES_OF_PEER, MAX_PROMISES_OF_PEER)
        case TrackedPromises.ALL:
            return MAX_PROMISES_OF_PEER
        case TrackedPromises.NONE:
            return 0


LEVELS = ("negative", "gossip", "publish", "graylist")
"""Names of levels: a score below 0 (`negative`), and below each threshold."""
INVALID_MESSAGES = "invalid messages"
"""The name of an offence: several invalid messages at the same time."""
BROKEN_PROMISES = "broken promises"
"""The name of an offence: at each heartbeat the maximum number of broken promises."""
GRAFTS = "GRAFTs in a backoff"
"""The name of an offence: several GRAFTs in a backoff at the same time."""
SHARING_PEERS = "peers at one address"
"""The name of an offence: several peers that are connected from the same address."""
_MOST_HEARTBEATS = 3_600


@dataclass(frozen=True, slots=True)
class Offence:
    """An offence, and its cost for a peer that starts with the best score."""

    name: str
    topic: str | None
    """The group of topics of invalid messages; None for other offences."""
    needed: dict[str, int | None]
    """The smallest number of offences that brings the score below a level, by level; None if no number does. The
    number of broken promises is the sum over heartbeats; the search ends after `_MOST_HEARTBEATS` heartbeats.
    """
    forgiven_s: float | None = None
    """Seconds from the last offence until the score is at least 0 again. The peer commits as many offences as the
    largest number in `needed`. None if the score stays below 0, or if `needed` has no number. None also for the
    offence of sharing an address, which does not decay.
    """
    forgotten_s: float | None = None
    """Seconds from the last offence until the counter of offences is 0, after the largest number in `needed`. None if
    `needed` has no number, and for peers at one address.
    """


def offences(worth: Worth) -> Iterator[Offence]:
    """Yield all offences: invalid messages in each group of topics, and the offences of `offences_of_the_peer`."""
    for topic in worth.topics:
        yield _invalid_messages(worth, topic)
    yield from offences_of_the_peer(worth)


def offences_of_the_peer(worth: Worth) -> Iterator[Offence]:
    """Yield the offences that belong to no topic: broken promises, GRAFTs in a backoff, and peers at one address."""
    yield _broken_promises(worth)
    yield _grafts(worth)
    yield _shared_addresses(worth)


def levels(worth: Worth) -> dict[str, float]:
    """Return the score at the upper end of each level, by the name of the level."""
    found = worth.subject.score.thresholds
    return dict(zip(LEVELS, (0.0, found.gossip, found.publish, found.graylist), strict=True))


def _needed(worth: Worth, score: Callable[[int], float]) -> dict[str, int | None]:
    """Return the smallest number of offences that brings the score below a level, by level; None if no number does.
    `score` returns the score after a number of offences.
    """
    return {
        name: first_that(lambda count, level=level: score(count) < level) for name, level in levels(worth).items()
    }


def _invalid_messages(worth: Worth, topic: TopicWorth) -> Offence:
    best, own = worth.all_topics, topic.numbers

    def score(count: float) -> float:
        return worth.score(best + worth.invalid(topic, count))

    needed = _needed(worth, score)
    forgiven = _forgiven(worth, _most(needed), own.invalid_decay, score)
    return Offence(INVALID_MESSAGES, topic.group.words, needed, *forgiven)


def _broken_promises(worth: Worth) -> Offence:
    """Return the offence of a peer that breaks the maximum number of promises at each heartbeat, for at most
    `_MOST_HEARTBEATS` heartbeats.
    """
    needed: dict[str, int | None] = dict.fromkeys(LEVELS)
    peer, each = worth.peer, worth.subject.expected.promises_per_heartbeat
    sent, before, most = 0, 0.0, 0.0
    score = partial(worth.score, worth.all_topics, 0.0)
    heartbeat, interval = worth.subject.expected.heartbeat_ms, peer.decay_interval_ms
    for beat in range(_MOST_HEARTBEATS if each else 0):
        refreshes = (beat + 1) * heartbeat // interval - beat * heartbeat // interval
        before = left(before, peer.misbehaviour_decay, refreshes, peer.decay_to_zero)
        for name, level in levels(worth).items():
            if needed[name] is None and score(before + each) < level:
                more = first_that(lambda count, level=level, before=before: score(before + count) < level) or 0
                needed[name] = sent + more
                most = max(most, before + more)
        if None not in needed.values():
            break
        sent, before = sent + each, before + each
    return Offence(BROKEN_PROMISES, None, needed, *_forgiven(worth, most, peer.misbehaviour_decay, score))


def _grafts(worth: Worth) -> Offence:
    each = 2.0 if worth.subject.expected.graft_flood_ms else 1.0
    score = partial(worth.score, worth.all_topics, 0.0)
    counted = _needed(worth, score)
    needed = {name: None if count is None else ceil(count / each) for name, count in counted.items()}
    forgiven = _forgiven(worth, _most(counted), worth.peer.misbehaviour_decay, score)
    return Offence(GRAFTS, None, needed, *forgiven)


def _shared_addresses(worth: Worth) -> Offence:
    return Offence(SHARING_PEERS, None, _needed(worth, partial(worth.score, worth.all_topics)))


def _most(needed: dict[str, int | None]) -> int:
    return max((count for count in needed.values() if count is not None), default=0)


def _forgiven(
    worth: Worth, counted: float, decay: float, score: Callable[[float], float]
) -> tuple[float | None, float | None]:
    if not counted:
        return None, None
    zero = worth.peer.decay_to_zero
    back = first_that(lambda refreshes: score(left(counted, decay, refreshes, zero)) >= 0.0)
    gone = refreshes_until(counted, decay, zero)
    return None if back is None else back * worth.interval_s, gone * worth.interval_s


class Verdict(StrEnum):
    """The effect of silence in a topic on the score of a peer."""

    CAUGHT = "caught"
    """The score falls below 0, so the peer is pruned."""
    OUTWEIGHED = "outweighed"
    """Deliveries are scored (P3), but the scores of other topics and the time in the mesh outweigh the deficit."""
    NOT_EXPECTED = "not expected"
    """The topic has parameters, but deliveries are not scored (P3)."""
    UNSCORED = "unscored"
    """The topic has no parameters."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence of a peer in one topic of a group. The peer has the best score in all other topics."""

    group: TopicGroup
    topic: TopicWorth | None
    """The worth of the topic; None if the topic has no parameters."""
    verdict: Verdict
    score: float
    """The score of the peer after it has delivered nothing for long."""
    from_start_s: float | None = None
    """Seconds from the GRAFT until the score is below 0, if the peer never delivers; None if the verdict is not
    `CAUGHT`.
    """
    from_stop_s: float | None = None
    """Seconds from the last delivery of a peer at its best until the score is below 0; None if the verdict is not
    `CAUGHT`.
    """


def silences(worth: Worth) -> list[Silence]:
    """Return the silence in each group of topics, in the order of the groups."""
    scored = {topic.group: topic for topic in worth.topics}
    return [_silence(worth, group, scored.get(group)) for group in worth.subject.topics]


def _silence(worth: Worth, group: TopicGroup, topic: TopicWorth | None) -> Silence:
    if topic is None:
        return Silence(group, None, Verdict.UNSCORED, worth.best)
    score = worth.silent_in(topic)
    if not topic.has_p3:
        return Silence(group, topic, Verdict.NOT_EXPECTED, score)
    if may_be_in_mesh(score):
        return Silence(group, topic, Verdict.OUTWEIGHED, score)
    times = active_after_s(worth, topic), _after_stopping_s(worth, topic)
    return Silence(group, topic, Verdict.CAUGHT, score, *times)


def active_after_s(worth: Worth, topic: TopicWorth) -> float:
    """Return the seconds from a GRAFT at the time of a refresh to the first refresh at which deliveries are scored
    (ACTIVE-2).
    """
    interval = worth.subject.score.peer.decay_interval_us
    refreshes = first_that(lambda count: score_parts.is_active(count * interval, topic.numbers.activation))
    return (refreshes or 0) * worth.interval_s


def _after_stopping_s(worth: Worth, topic: TopicWorth) -> float | None:
    """Return the seconds after which a peer at its best that stops delivering has a score below 0; None for never."""
    own, zero = topic.numbers, worth.peer.decay_to_zero
    others = worth.all_topics - topic.most + topic.in_mesh

    def caught(refreshes: int) -> bool:
        delivered = left(own.mesh_cap, own.mesh_decay, refreshes, zero)
        first = left(own.first_cap, own.first_decay, refreshes, zero) * own.first_weight * own.weight
        return not may_be_in_mesh(worth.score(others + first + deficit_of(topic.numbers, delivered)))

    found = first_that(caught)
    return None if found is None else found * worth.interval_s


def most_silent(worth: Worth) -> list[tuple[TopicWorth, int]]:
    """Return the largest set of topics in which a peer may be silent with a score of at least 0, if it has the best
    score in all other topics. The result has the groups of these topics, each with the number of its topics in the
    set. The groups in which silence costs least come first.
    """
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
