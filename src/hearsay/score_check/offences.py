"""How much of a misbehaviour it takes to fall below each threshold, and how long until it is forgiven.

The peer is at its best when it begins, so these are the longest ways down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from hearsay.core.rules.scores import counters
from hearsay.score_check.counting import MOST, first_that, left, refreshes_until
from hearsay.score_check.worth import TopicWorth, Worth

LEVELS = ("negative", "gossip", "publish", "graylist")
"""Below 0, and below the thresholds."""
INVALID_MESSAGES = "invalid messages"
"""At once."""
BROKEN_PROMISES = "broken promises"
"""One at each heartbeat."""
GRAFTS = "GRAFTs in a backoff"
"""At once."""
SHARING_PEERS = "peers at one address"
_MOST_HEARTBEATS = 3_600


@dataclass(frozen=True, slots=True)
class Offence:
    """`needed` is so many of what the name says by level, None where it is never reached."""

    name: str
    topic: str | None
    needed: dict[str, float | None]
    forgiven_s: float | None = None
    """Until a peer at its best is at 0 again, after what it took to reach the last level that can be reached."""
    forgotten_s: float | None = None
    """Until nothing of it is counted."""


def offences(worth: Worth) -> Iterator[Offence]:
    for topic in worth.topics:
        yield _invalid_messages(worth, topic)
    yield from offences_of_the_peer(worth)


def offences_of_the_peer(worth: Worth) -> Iterator[Offence]:
    """In no topic."""
    yield _broken_promises(worth)
    yield _grafts(worth)
    yield _shared_addresses(worth)


def levels(worth: Worth) -> dict[str, float]:
    found = worth.subject.score.thresholds
    return dict(zip(LEVELS, (0.0, found.gossip, found.publish, found.graylist), strict=True))


def _needed(worth: Worth, score: Callable[[int], float], most: int = MOST) -> dict[str, float | None]:
    """The least number that brings the score below each level."""
    return {
        name: first_that(lambda count, level=level: score(count) < level, most)
        for name, level in levels(worth).items()
    }


def _invalid_messages(worth: Worth, topic: TopicWorth) -> Offence:
    best, own = worth.all_topics, topic.numbers

    def score(count: float) -> float:
        return worth.score(best + worth.invalid(topic, count))

    needed = _needed(worth, score)
    forgiven = _forgiven(worth, needed, own.invalid_decay, score)
    return Offence(INVALID_MESSAGES, topic.group.words, needed, *forgiven)


def _broken_promises(worth: Worth) -> Offence:
    """Counted at heartbeats: one at each."""
    needed: dict[str, float | None] = dict.fromkeys(LEVELS)
    wanted = levels(worth)
    peer, expected = worth.peer, worth.subject.expected
    heartbeat, interval = expected.heartbeat_ms, worth.subject.score.peer.decay_interval_ms
    broken, refreshed = 0.0, 0
    if worth.subject.promises_are_tracked:
        for beat in range(1, _MOST_HEARTBEATS + 1):
            while (refreshed + 1) * interval <= beat * heartbeat:
                broken = counters.decayed(broken, peer.misbehaviour_decay, peer.zero)
                refreshed += 1
            broken += 1.0
            score = worth.score(worth.all_topics, 0.0, broken)
            for name in LEVELS:
                if needed[name] is None and score < wanted[name]:
                    needed[name] = beat
            if None not in needed.values():
                break
    return Offence(BROKEN_PROMISES, None, needed)


def _grafts(worth: Worth) -> Offence:
    each = 2.0 if worth.subject.expected.graft_flood_ms else 1.0

    def score(count: float) -> float:
        return worth.score(worth.all_topics, 0.0, count)

    counted = _needed(worth, score)
    needed = {name: None if count is None else float(ceil(count / each)) for name, count in counted.items()}
    forgiven = _forgiven(worth, counted, worth.peer.misbehaviour_decay, score)
    return Offence(GRAFTS, None, needed, *forgiven)


def _shared_addresses(worth: Worth) -> Offence:
    needed = _needed(worth, lambda count: worth.score(worth.all_topics, float(count)))
    return Offence(SHARING_PEERS, None, needed)


def _forgiven(
    worth: Worth, needed: dict[str, float | None], decay: float, score: Callable[[float], float]
) -> tuple[float | None, float | None]:
    counts = [count for count in needed.values() if count is not None]
    if not counts:
        return None, None
    count, zero = max(counts), worth.peer.zero
    back = first_that(lambda refreshes: score(left(count, decay, refreshes, zero)) >= 0.0)
    gone = refreshes_until(count, decay, zero)
    return None if back is None else back * worth.interval_s, gone * worth.interval_s
