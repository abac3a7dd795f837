"""The costs of silence and of offences for a peer.

A score is one sum, so the gain of a peer in other topics offsets its deficit in one (CVE-2022-47547;
arXiv 2212.05197). The cap of all topics does not help: it bounds the sum, which includes the deficit.
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
from hearsay.core.scores.promises import PromiseParameters
from hearsay.score_check.subject import TopicGroup
from hearsay.score_check.worth import MOST, TopicWorth, Worth, first_that, left, refreshes_until

MOST_OF_A_PEER = PromiseParameters().max_promises_per_peer
"""Maximum promises of a peer that are tracked at a time."""


def promises_per_heartbeat(parameters: GossipsubParameters) -> int:
    """Return the maximum promises of a peer between two heartbeats; 0 if none is tracked. By `tracked_promises`, an
    IHAVE makes one promise, or one for each id.
    """
    match parameters.tracked_promises:
        case TrackedPromises.ONE:
            return min(parameters.max_ihave_messages or MOST_OF_A_PEER, MOST_OF_A_PEER)
        case TrackedPromises.ALL:
            return MOST_OF_A_PEER
        case TrackedPromises.NONE:
            return 0


LEVELS = ("negative", "gossip", "publish", "graylist")
"""Levels of a score: below 0, and below each threshold."""
INVALID_MESSAGES = "invalid messages"
"""The name of an offence: a number of invalid messages at the same time."""
BROKEN_PROMISES = "broken promises"
"""The name of an offence: the maximum of broken promises at each heartbeat."""
GRAFTS = "GRAFTs in a backoff"
"""The name of an offence: a number of GRAFTs at the same time."""
SHARING_PEERS = "peers at one address"
_MOST_HEARTBEATS = 3_600


@dataclass(frozen=True, slots=True)
class Offence:
    """An offence. `needed` is the number of offences that leads below each level; None if it is never reached."""

    name: str
    topic: str | None
    needed: dict[str, int | None]
    forgiven_s: float | None = None
    """Seconds until a peer that started with the best score is at 0 again, after it fell to the lowest level; None
    if it reaches no level, and for peers at an address, which count as long as they are connected."""
    forgotten_s: float | None = None
    """Seconds until the offence no longer counts."""


def offences(worth: Worth) -> Iterator[Offence]:
    for topic in worth.topics:
        yield _invalid_messages(worth, topic)
    yield from offences_of_the_peer(worth)


def offences_of_the_peer(worth: Worth) -> Iterator[Offence]:
    """Yield the offences that belong to no topic."""
    yield _broken_promises(worth)
    yield _grafts(worth)
    yield _shared_addresses(worth)


def levels(worth: Worth) -> dict[str, float]:
    found = worth.subject.score.thresholds
    return dict(zip(LEVELS, (0.0, found.gossip, found.publish, found.graylist), strict=True))


def _needed(worth: Worth, score: Callable[[int], float], most: int = MOST) -> dict[str, int | None]:
    """Return the least number of offences that brings the score below each level; None above `most`."""
    return {
        name: first_that(lambda count, level=level: score(count) < level, most)
        for name, level in levels(worth).items()
    }


def _invalid_messages(worth: Worth, topic: TopicWorth) -> Offence:
    best, own = worth.all_topics, topic.numbers

    def score(count: float) -> float:
        return worth.score(best + worth.invalid(topic, count))

    needed = _needed(worth, score)
    forgiven = _forgiven(worth, _most(needed), own.invalid_decay, score)
    return Offence(INVALID_MESSAGES, topic.group.words, needed, *forgiven)


def _broken_promises(worth: Worth) -> Offence:
    """Return the broken promises: the maximum at each heartbeat, until a level is reached."""
    needed: dict[str, int | None] = dict.fromkeys(LEVELS)
    peer, each = worth.peer, worth.subject.expected.promises_per_heartbeat
    sent, before, most = 0, 0.0, 0.0
    score = partial(worth.score, worth.all_topics, 0.0)
    for refreshes in _refreshes_before_heartbeats(worth) if each else ():
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


def _refreshes_before_heartbeats(worth: Worth) -> Iterator[int]:
    """Yield for each heartbeat the number of refreshes since the one before."""
    heartbeat, interval = worth.subject.expected.heartbeat_ms, worth.subject.score.peer.decay_interval_ms
    for beat in range(1, _MOST_HEARTBEATS + 1):
        yield beat * heartbeat // interval - (beat - 1) * heartbeat // interval


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
    """Deliveries are scored, but other topics outweigh the missing ones."""
    NOT_EXPECTED = "not expected"
    """The topic is scored, but its deliveries are not."""
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence in one topic of a group, of a peer that has the best score in all other topics."""

    group: TopicGroup
    verdict: Verdict
    score: float
    """The remaining score."""
    from_start_s: float | None = None
    """Seconds until the score is below 0, with silence from the GRAFT on; None if it never is."""
    from_stop_s: float | None = None
    """Seconds from the end of full deliveries until the score is below 0; None if it never is."""


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
    """Return the seconds from a GRAFT until deliveries are expected, which begins at a refresh (ACTIVE-2)."""
    interval = worth.subject.score.peer.decay_interval_us
    refreshes = first_that(lambda count: score_parts.is_active(count * interval, topic.numbers.activation))
    return (refreshes or 0) * worth.interval_s


def _after_stopping_s(worth: Worth, topic: TopicWorth) -> float | None:
    """Return the seconds after which a peer that stops delivering has a score below 0; None if it never has."""
    own, zero = topic.numbers, worth.peer.decay_to_zero
    others = worth.all_topics - topic.most + topic.in_mesh

    def caught(refreshes: int) -> bool:
        delivered = left(own.mesh_cap, own.mesh_decay, refreshes, zero)
        first = left(own.first_cap, own.first_decay, refreshes, zero) * own.first_weight * own.weight
        return not may_be_in_mesh(worth.score(others + first + worth.deficit(topic, delivered)))

    found = first_that(caught)
    return None if found is None else found * worth.interval_s


def most_silent(worth: Worth) -> list[tuple[TopicWorth, int]]:
    """Return the largest set of topics in which a peer with the best score elsewhere may be silent and keep a score
    of 0: those in which silence costs least. They are groups, each with a number of topics."""
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
