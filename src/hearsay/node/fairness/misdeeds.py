"""Which of the things that a router tells of its peers are offences, and which GRAFTs in backoff are forgiven."""

from __future__ import annotations

from collections.abc import Callable

from hearsay.core.language.actions import MessageRejected, PartDropped, Reason
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import PartKind, knows_backoff
from hearsay.core.shell.router import Router
from hearsay.node.fairness.conduct import Offence

_BOUNDED = (PartKind.SUBSCRIBE, PartKind.PUBLISH)
"""Parts that no honest peer sends too many of; GRAFTs and ids beyond a limit come from honest ones, too."""


class EarlyGrafts:
    """Which GRAFTs in backoff are forgiven, by connection and topic: those until `grace_s` after the first.

    The first is answered with PRUNE, so a peer that comes again after that time knows that it comes too early.
    """

    _TOPICS = 1024
    """Of a peer; beyond that the oldest is forgotten, and forgiven anew."""

    def __init__(self, now_s: Callable[[], float], grace_s: float) -> None:
        self._now_s = now_s
        self._grace_s = grace_s
        self._first_s: dict[Identifier, dict[Identifier, float]] = {}

    def forgives(self, peer: Identifier, topic: Identifier) -> bool:
        """A peer that knows of backoffs said GRAFT in one."""
        now_s = self._now_s()
        known = self._first_s.setdefault(peer, {})
        first_s = known.setdefault(topic, now_s)
        if len(known) > self._TOPICS:
            del known[next(iter(known))]
        return now_s - first_s < self._grace_s

    def grafted(self, peer: Identifier, topic: Identifier) -> None:
        """The backoff is over."""
        self._first_s.get(peer, {}).pop(topic, None)

    def gone(self, peer: Identifier) -> None:
        self._first_s.pop(peer, None)


def offence_in(told: MessageRejected | PartDropped, router: Router, early_grafts: EarlyGrafts) -> Offence | None:
    """Where scores are kept, they are about rejected messages and broken backoffs."""
    keeps_scores = router.strategy.keeps_scores
    if isinstance(told, MessageRejected):
        return Offence.REJECTED if told.reason is Reason.REJECTED and not keeps_scores else None
    if told.reason is Reason.BACKOFF and not keeps_scores and _broke_backoff(told, router, early_grafts):
        return Offence.BACKOFF_BROKEN
    return Offence.OVER_LIMIT if told.reason is Reason.OVER_LIMIT and told.kind in _BOUNDED else None


def _broke_backoff(told: PartDropped, router: Router, early_grafts: EarlyGrafts) -> bool:
    """Whether a peer that said GRAFT in backoff must have known."""
    peer = router.connected.get(told.peer)
    if peer is None or not knows_backoff(peer.protocol) or told.topic is None:
        return False
    return not early_grafts.forgives(told.peer, told.topic)
