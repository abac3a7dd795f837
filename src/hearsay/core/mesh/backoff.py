"""Backoff: after a PRUNE two peers keep apart in that topic for a while (gossipsub v1.1, "Prune backoff").

Rules:

* BACKOFF-5: whoever prunes says for how long: `prune_backoff_ms`, or `unsubscribe_backoff_ms` when it leaves the
  topic. Both sides remember it, through a disconnection too. A member that unsubscribes without a PRUNE is kept apart
  with `backoff_on_unsubscribe` (rust), and a PRUNE for a topic that is not joined counts with
  `backoff_when_not_joined` (jvm). How long that is in the end says
  `rules/backoff_times.py`.
* BACKOFF-6: the number of entries is bounded; the oldest goes first.

`prune_backoff_ms` 0 turns all of it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.backoff_times import is_early, is_early_of_us, later_end, time_left
from hearsay.core.shell.parameters import RouterParameters, integer, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffParameters(RouterParameters):
    """Parameters of backoff and peer exchange."""

    prune_backoff_ms: int = milliseconds(0)
    """Time without a GRAFT after a PRUNE (v1.1: 60 000); 0 turns backoff off."""
    unsubscribe_backoff_ms: int = milliseconds(10_000)
    """Time without a GRAFT after a PRUNE that is sent because a node leaves the topic."""
    max_backoff_ms: int = milliseconds(3_600_000)
    """Longest backoff that is accepted from a peer."""
    backoff_slack_heartbeats: int = integer(2, low=0)
    """Heartbeats that the router's own GRAFT waits after the end of a backoff."""
    max_backoffs: int = integer(100_000, low=1)
    """Backoffs that are remembered; the oldest is dropped first."""
    exchange_peers: int = integer(0, low=0, high=1_000)
    """Other peers that a PRUNE names."""
    accept_exchange: bool = False
    """Dial peers that a PRUNE names."""
    exchange_dials: int = integer(0, low=0, high=1_000)
    """Peers of one PRUNE that are dialled; 0: as many as `exchange_peers`."""

    @property
    def dials_per_prune(self) -> int:
        """How many of those that a PRUNE names are dialled at most."""
        return (self.exchange_dials or self.exchange_peers) if self.accept_exchange else 0


class Backoffs:
    """Until when this router and its peers keep apart, by topic and peer."""

    __slots__ = ("_limit", "_slack_us", "_until")

    def __init__(self, limit: int, slack_us: Micros) -> None:
        self._limit = limit
        self._slack_us = slack_us
        self._until: dict[tuple[TopicId, PeerId], Micros] = {}

    def start(self, topic: TopicId, peer: PeerId, now: Micros, backoff_us: Micros) -> None:
        """Keep apart for so long, or longer if that was agreed before."""
        before = self._until.pop((topic, peer), now)
        self._until[topic, peer] = later_end(before, now, backoff_us)
        if len(self._until) > self._limit:
            del self._until[next(iter(self._until))]

    def holds(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Whether a GRAFT of this peer comes too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early(now, until)

    def until(self, topic: TopicId, peer: PeerId) -> Micros:
        """When a backoff that runs ends."""
        return self._until[topic, peer]

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        """Whether one's own GRAFT would be too early."""
        until = self._until.get((topic, peer))
        return until is not None and is_early_of_us(now, until, self._slack_us)

    def remaining_us(self, topic: TopicId, peer: PeerId, now: Micros) -> Micros:
        """How much of a backoff is left."""
        return time_left(now, self._until.get((topic, peer), now))

    def expire(self, now: Micros) -> None:
        over = [key for key, until in self._until.items() if not is_early_of_us(now, until, self._slack_us)]
        for key in over:
            del self._until[key]

    def ends(self) -> Iterator[tuple[TopicId, PeerId, Micros]]:
        """Those that are remembered."""
        for (topic, peer), until in self._until.items():
            yield topic, peer, until

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[tuple[TopicId, PeerId]]:
        return iter(self._until)


class LastingBackoffs(Backoffs):
    """Backoffs whose peers are grafted again only when they are forgotten."""

    __slots__ = ()

    def forbids_graft(self, topic: TopicId, peer: PeerId, now: Micros) -> bool:
        del now
        return (topic, peer) in self._until
