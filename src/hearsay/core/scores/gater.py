"""The gater: its parameters (the table `[router.gater]`) and its counts by address (rules: `rules/gater.py`).

* PARAMETERS-10: All parameters with the default 0 must be given. The weights of ignored and rejected messages are at
  least 1, `decay_interval_ms` and `quiet_ms` at least a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules import gater
from hearsay.core.rules.score_parts import decayed
from hearsay.core.scores.declarations import MIN_INTERVAL_MS, amount, fraction
from hearsay.core.scores.promises import Draw
from hearsay.core.shell.parameters import Parameters, Violation, integer, milliseconds

_LEAST: tuple[tuple[str, float], ...] = (
    ("threshold", 0),
    ("global_decay", 0),
    ("source_decay", 0),
    ("decay_interval_ms", MIN_INTERVAL_MS),
    ("decay_to_zero", 0),
    ("quiet_ms", MIN_INTERVAL_MS),
    ("duplicate_weight", 0),
    ("ignore_weight", 1),
    ("reject_weight", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaterParameters(Parameters):
    """The condition under which messages are accepted at random, and the weights that determine the probability."""

    owner: ClassVar[str] = "the gater"

    threshold: float = amount()
    """Ratio of throttled to validated messages from which the gater drops messages."""
    global_decay: float = fraction()
    """Factor of the node's counts at a refresh."""
    source_decay: float = fraction()
    """Factor of an address's counts at a refresh."""
    decay_interval_ms: int = milliseconds(1_000)
    """Time between two refreshes."""
    decay_to_zero: float = fraction()
    """Value below which a counter becomes 0."""
    quiet_ms: int = milliseconds(60_000)
    """Time without a throttled message after which all messages are accepted."""
    retain_ms: int = milliseconds(6 * 3_600_000)
    """Time that an address is remembered after its last peer disconnected."""
    duplicate_weight: float = amount()
    """Weight of a duplicate compared with a delivered message."""
    ignore_weight: float = amount()
    """Weight of an ignored message."""
    reject_weight: float = amount()
    """Weight of a rejected message."""
    max_retained_addresses: int = integer(10_000, low=1)
    """Limit on remembered addresses without connected peers."""

    def _rules_between(self, faulty: set[str]) -> Iterator[Violation]:
        for name, least in _LEAST:
            value = getattr(self, name)
            if name not in faulty and (value < least or value <= 0):
                yield Violation(name, value, f"must be at least {least}" if least else "must be above 0")


SourceKey: TypeAlias = tuple[str, PeerId | None]
"""The key of a `_Source`: an address and None or, for a peer without a known address, an empty text and the peer."""


@dataclass(slots=True)
class _Source:
    """Counts of messages from one address, or from one peer without a known address."""

    peers: int = 0
    """Number of connected peers at the address."""
    until: Micros = 0
    """Time until which the counts are kept, if the last peer has disconnected."""
    delivered: float = 0.0
    duplicate: float = 0.0
    ignored: float = 0.0
    rejected: float = 0.0

    def decay(self, by: float, zero: float) -> None:
        self.delivered = decayed(self.delivered, by, zero)
        self.duplicate = decayed(self.duplicate, by, zero)
        self.ignored = decayed(self.ignored, by, zero)
        self.rejected = decayed(self.rejected, by, zero)


class Gater:
    """The counts of the node and of each address, and the decision whether messages of a peer are accepted."""

    def __init__(self, parameters: GaterParameters) -> None:
        self._parameters = parameters
        self._topic_weights: dict[TopicId, float] = {}
        self._validated = 0.0
        self._throttled = 0.0
        self._throttled_at: Micros = 0
        self._keys: dict[PeerId, SourceKey] = {}
        """By connected peer, the key of its source."""
        self._sources: dict[SourceKey, _Source] = {}
        self._away: dict[SourceKey, None] = {}
        """The keys of the sources whose peers have all disconnected, in the order of the last disconnection."""

    def weigh(self, topic: TopicId, weight: float) -> None:
        """Set the weight of a delivered message of this topic, which is 1 by default."""
        self._topic_weights[topic] = weight

    def connect(self, peer: PeerId, address: str = "") -> None:
        if peer not in self._keys:
            key = self._keys[peer] = (address, None) if address else ("", peer)
            self._sources.setdefault(key, _Source()).peers += 1
            self._away.pop(key, None)

    def disconnect(self, peer: PeerId, now: Micros) -> None:
        key = self._keys.pop(peer, None)
        if key is None:
            return
        source = self._sources[key]
        source.peers -= 1
        source.until = now + self._parameters.retain_ms * 1000
        if not source.peers:
            self._away[key] = None
            if len(self._away) > self._parameters.max_retained_addresses:
                self._forget(next(iter(self._away)))

    def validate(self) -> None:
        """Count a message whose validation begins."""
        self._validated += 1.0

    def deliver(self, peer: PeerId | None, topic: TopicId) -> None:
        source = self._source(peer)
        if source is not None:
            source.delivered += self._topic_weights.get(topic, 1.0)

    def duplicate(self, peer: PeerId) -> None:
        source = self._source(peer)
        if source is not None:
            source.duplicate += 1.0

    def reject(self, peer: PeerId, reason: int, now: Micros) -> None:
        """Count a message of this peer that is not used; `reason` is the number of a `Reason`."""
        counts_as = gater.rejection(reason)
        source = self._source(peer)
        if counts_as == gater.TURNED_AWAY:
            self._throttled += 1.0
            self._throttled_at = now
        elif source is not None and counts_as == gater.IGNORED:
            source.ignored += 1.0
        elif source is not None and counts_as == gater.REJECTED:
            source.rejected += 1.0

    def lets_in(self, peer: PeerId, now: Micros, draw: Draw) -> bool:
        """Return whether messages of the peer are accepted now (GATER-1, GATER-2)."""
        own = self._parameters
        since = now - self._throttled_at
        if gater.is_open(since, own.quiet_ms * 1000, self._throttled, self._validated, own.threshold):
            return True
        source = self._source(peer)
        if source is None:
            return True
        sent = gater.sent_by_address(
            source.delivered,
            source.duplicate * own.duplicate_weight,
            source.ignored * own.ignore_weight,
            source.rejected * own.reject_weight,
        )
        return gater.is_let_in(draw(), source.delivered, sent)

    def refresh(self, now: Micros) -> None:
        """Decay the counts of the node, and of addresses with connected peers. Forget addresses whose peers
        disconnected more than `retain_ms` ago.

        The caller calls this every `decay_interval_ms`.
        """
        own = self._parameters
        self._validated = decayed(self._validated, own.global_decay, own.decay_to_zero)
        self._throttled = decayed(self._throttled, own.global_decay, own.decay_to_zero)
        for source in self._sources.values():
            if source.peers:
                source.decay(own.source_decay, own.decay_to_zero)
        while self._away and self._sources[oldest := next(iter(self._away))].until < now:
            self._forget(oldest)

    def _source(self, peer: PeerId | None) -> _Source | None:
        key = None if peer is None else self._keys.get(peer)
        return None if key is None else self._sources[key]

    def _forget(self, key: SourceKey) -> None:
        del self._away[key]
        del self._sources[key]
