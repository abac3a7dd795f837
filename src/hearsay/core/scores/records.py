"""State of a scorer: counters of peers, records of messages, shared addresses, disconnected peers.

* DELIVERY-8: A record lasts for `delivery_ttl_ms`, by default as long as ids stay in the seen cache. The number of
  records is limited; the oldest is removed first. The number of senders of later copies in one record is limited,
  since peers can create identities for free. Peers beyond this limit get no credit, and no blame for copies before
  the verdict.
* ADDRESS-1: P6 does not count loopback addresses and addresses in an allowed network. It counts an IPv4-mapped IPv6
  address as IPv4, and a text that is not an address unchanged.
* ADDRESS-2: P6 counts an IPv6 address as itself and as its /64 (go), as one of the two, or not at all (jvm).
* ADDRESS-3: P6 also counts a disconnected peer that is kept, at its last addresses.
* ADDRESS-4: P6 counts only the first addresses of a peer, up to a limit.
* RETAIN-5: The number of disconnected peers that are kept is limited. Peers without penalties are removed first, then
  the peers that disconnected first. Otherwise an attacker could connect under many new identities to reset a bad
  score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.rules import score_parts
from hearsay.core.rules.deliveries import OPEN
from hearsay.core.rules.score_parts import excess_square, is_forgotten
from hearsay.core.scores.declarations import Ipv6Counting, MeshTimes
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers


@dataclass(slots=True)
class TopicCounters:
    """Counters of a peer in one scored topic. `grafted` and `mesh_time` have a meaning only for mesh members."""

    member: bool = False
    grafted: Micros = 0
    """Time at which the peer entered the mesh."""
    mesh_time: Micros = 0
    """Time in the mesh at the last refresh."""
    active: bool = False
    """True if mesh deliveries are expected, as of the last refresh, GRAFT or PRUNE."""
    first: float = 0.0
    mesh: float = 0.0
    failures: float = 0.0
    invalid: float = 0.0
    worth: float | None = None
    """The topic's part of the score, cached; None after a change."""

    def graft(self, now: Micros) -> None:
        self.member = True
        self.grafted = now
        self.mesh_time = 0
        self.active = False

    def prune(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> None:
        active = self.is_active(topic, peer, now)
        if score_parts.counts_as_failure(active, self.member, peer.second_prune_counts):
            self.failures += score_parts.deficit_square(self.mesh, topic.mesh_threshold)
        self.member = False
        self.active = score_parts.stays_active(active, peer.deficit_after_prune)

    def go_away(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> None:
        """Handle the disconnection of a peer whose counters are kept (RETAIN-2)."""
        self.first = 0.0
        if self.member:
            self.prune(topic, peer, now)

    def deliver(self, topic: TopicNumbers) -> None:
        self.first = score_parts.counted(self.first, 1.0, topic.first_cap)
        self.deliver_copy(topic)

    def deliver_copy(self, topic: TopicNumbers) -> None:
        if self.member:
            self.mesh = score_parts.counted(self.mesh, 1.0, topic.mesh_cap)

    def time_in_mesh(self, peer: PeerScoreParameters, now: Micros) -> Micros:
        if not self.member:
            return 0
        return now - self.grafted if peer.mesh_times is MeshTimes.NOW else self.mesh_time

    def is_active(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> bool:
        """Return whether mesh deliveries are expected of the peer (ACTIVE-1 to ACTIVE-3)."""
        if peer.mesh_times is MeshTimes.NOW and self.member:
            return score_parts.is_active(now - self.grafted, topic.activation)
        return self.active

    def cap(self, topic: TopicNumbers) -> None:
        """Apply the caps of new parameters (COUNTER-3)."""
        self.first = min(self.first, topic.first_cap)
        self.mesh = min(self.mesh, topic.mesh_cap)

    def decay(self, topic: TopicNumbers, zero: float) -> None:
        self.first = score_parts.decayed(self.first, topic.first_decay, zero)
        self.mesh = score_parts.decayed(self.mesh, topic.mesh_decay, zero)
        self.failures = score_parts.decayed(self.failures, topic.failure_decay, zero)
        self.invalid = score_parts.decayed(self.invalid, topic.invalid_decay, zero)

    def refresh_mesh_time(self, topic: TopicNumbers, now: Micros) -> None:
        if self.member:
            self.mesh_time = now - self.grafted
            if score_parts.is_active(self.mesh_time, topic.activation):
                self.active = True


@dataclass(slots=True)
class PeerCounters:
    """Counters of one peer, which is connected or kept."""

    connected: bool = True
    topics: dict[TopicId, TopicCounters] = field(default_factory=lambda: {})
    misbehaviour: float = 0.0
    slow: float = 0.0
    score: float | None = None
    """The score, cached; None after a change."""
    address_changes: int = 0
    """Value of `SharedAddresses.changes` when the cached score was computed."""

    def change(self) -> None:
        """Clear the cached score, and the cached parts of all topics."""
        self.score = None
        for counted in self.topics.values():
            counted.worth = None

    def decay(self, peer: PeerScoreParameters) -> None:
        self.misbehaviour = score_parts.decayed(self.misbehaviour, peer.misbehaviour_decay, peer.decay_to_zero)
        self.slow = score_parts.decayed(self.slow, peer.slow_peer_decay, peer.decay_to_zero)

    @property
    def is_blameless(self) -> bool:
        """True if all counters that only lower the score are 0: P3b, P4, P7 and slow peers."""
        return not (self.misbehaviour or self.slow) and not any(
            counted.failures or counted.invalid for counted in self.topics.values()
        )


@dataclass(slots=True)
class DeliveryRecord:
    """The record of one message: its state, and the peers that sent later copies (`rules/deliveries.py`)."""

    until: Micros
    """Time until which the record is kept."""
    state: int = OPEN
    decided: Micros = 0
    """Time at which the message was accepted; 0 before that."""
    senders: dict[PeerId, None] = field(default_factory=lambda: {})
    """Senders of later copies, in the order of arrival; empty after a rejection."""


class DeliveryRecords:
    """Records by message, at most `most`, each for `ttl` microseconds."""

    def __init__(self, ttl: Micros, most: int) -> None:
        self._ttl = ttl
        self._most = most
        self._records: dict[MessageId, DeliveryRecord] = {}
        """Records by message, the oldest first."""

    def __len__(self) -> int:
        return len(self._records)

    def record(self, message: MessageId, now: Micros) -> DeliveryRecord:
        found = self._records.get(message)
        if found is None:
            if len(self._records) >= self._most:
                del self._records[next(iter(self._records))]
            found = self._records[message] = DeliveryRecord(now + self._ttl)
        return found

    def expire(self, now: Micros) -> None:
        while self._records and now > self._records[oldest := next(iter(self._records))].until:
            del self._records[oldest]


_WHOLE = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.WHOLE)
_PREFIX = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.PREFIX)


class SharedAddresses:
    """The number of peers at each address, for P6."""

    def __init__(self, allowed: Sequence[str], ipv6: Ipv6Counting, most_per_peer: int) -> None:
        self._allowed = tuple(ip_network(text, strict=False) for text in allowed)
        self._ipv6 = ipv6
        self._most = most_per_peer
        self._at: dict[str, int] = {}
        """By address, the number of its peers."""
        self._of: dict[PeerId, tuple[str, ...]] = {}
        """By peer, its addresses in ascending order, so that sums do not depend on the order of events."""
        self.changes = 0
        """Number of changes so far of the addresses of any peer."""

    def __len__(self) -> int:
        return len(self._at)

    def set_addresses(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """Set the addresses of a peer, in place of its earlier addresses."""
        self.remove(peer)
        first = list(dict.fromkeys(addresses))[: self._most]
        counted = sorted({name for text in first for name in self.names(text)})
        if counted:
            self._of[peer] = tuple(counted)
            self.changes += 1
            for name in counted:
                self._at[name] = self._at.get(name, 0) + 1

    def remove(self, peer: PeerId) -> None:
        left = self._of.pop(peer, ())
        self.changes += bool(left)
        for name in left:
            if self._at[name] == 1:
                del self._at[name]
            else:
                self._at[name] -= 1

    def excess(self, peer: PeerId, threshold: int) -> float:
        """Return P6 of the peer before the multiplication by the weight."""
        found = 0.0
        for name in self._of.get(peer, ()):
            found += excess_square(float(self._at[name]), float(threshold))
        return found

    def names(self, text: str) -> Iterator[str]:
        """Yield the texts under which an address is counted (ADDRESS-1, ADDRESS-2); none if it is not counted."""
        address = _parsed(text)
        if address is None:
            if text:
                yield text
        elif address.is_loopback or any(address in network for network in self._allowed):
            return
        elif isinstance(address, IPv4Address):
            yield str(address)
        else:
            if self._ipv6 in _WHOLE:
                yield str(address)
            if self._ipv6 in _PREFIX:
                yield str(IPv6Network((address, 64), strict=False))


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


class RetainedPeers:
    """The disconnected peers whose counters are kept; at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._until: dict[PeerId, Micros] = {}
        """By peer, the time until which it is kept; the peer that disconnected first comes first."""
        self._blameless: dict[PeerId, None] = {}
        """Kept peers without penalties; the peer that disconnected first comes first."""

    def __len__(self) -> int:
        return len(self._until)

    def keep(self, peer: PeerId, until: Micros, blameless: bool) -> PeerId | None:
        """Keep a disconnected peer. Return the peer that is removed because there are too many, or None.

        The result may be the same peer.
        """
        self._until[peer] = until
        if blameless:
            self._blameless[peer] = None
        if len(self) <= self._most:
            return None
        oldest = next(iter(self._blameless or self._until))
        self.remove(oldest)
        return oldest

    def blame(self, peer: PeerId) -> None:
        """Note that a peer got a penalty; do nothing if it is not kept. A late verdict can penalise a disconnected
        peer."""
        self._blameless.pop(peer, None)

    def remove(self, peer: PeerId) -> None:
        self._until.pop(peer, None)
        self._blameless.pop(peer, None)

    def expire(self, now: Micros) -> Iterator[PeerId]:
        """Remove and yield the peers whose time is over (RETAIN-3)."""
        while self._until and is_forgotten(now, self._until[oldest := next(iter(self._until))]):
            self.remove(oldest)
            yield oldest
