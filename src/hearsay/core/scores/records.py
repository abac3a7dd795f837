"""Memory of a scorer: counters of peers, deliveries of messages, shared addresses, disconnected peers.

* DELIVERY-8: Records last as long as messages are remembered as seen; their number is limited, and the oldest is
  dropped first. The number of peers of one message is limited: identities are free, and later ones get neither credit
  nor blame.
* ADDRESS-1: Loopback addresses and addresses in an allowed network do not count. An IPv4-mapped IPv6 address counts
  as IPv4. A text that is not an address counts unchanged.
* ADDRESS-2: An IPv6 address counts as itself and as its /64 (go), as one of them, or not at all (jvm).
* ADDRESS-3: A disconnected peer that is kept continues to count at its addresses.
* ADDRESS-4: Only the first addresses of a peer count, up to a limit.
* RETAIN-5: The number of disconnected peers that are kept is limited. Peers without penalties are dropped first, then
  the oldest: otherwise an attacker could reset a bad score by connections under new identities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.rules import score_parts
from hearsay.core.rules.deliveries import OPEN
from hearsay.core.rules.score_parts import excess_square, is_forgotten
from hearsay.core.scores.declarations import Ipv6Counting, MeshTimes
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers


class TopicCounters:
    """Counters of a peer in one scored topic. Only mesh members have a time in the mesh."""

    __slots__ = ("_active", "failures", "first", "grafted", "invalid", "member", "mesh", "mesh_time", "worth")

    def __init__(self) -> None:
        self.member = False
        self.grafted: Micros = 0
        self.mesh_time: Micros = 0
        """The time in the mesh at the last refresh."""
        self._active = False
        self.first = 0.0
        self.mesh = 0.0
        self.failures = 0.0
        self.invalid = 0.0
        self.worth: float | None = None
        """The topic's cached part of the score; None after a change."""

    def graft(self, now: Micros) -> None:
        self.member = True
        self.grafted = now
        self.mesh_time = 0
        self._active = False

    def prune(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> None:
        active = self.is_active(topic, peer, now)
        if score_parts.counts_as_failure(active, self.member, peer.second_prune_counts):
            self.failures += score_parts.deficit_square(self.mesh, topic.mesh_threshold)
        self.member = False
        self._active = score_parts.stays_active(active, peer.deficit_after_prune)

    def go_away(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> None:
        """Adapt the counters when the peer disconnects and is kept."""
        self.first = 0.0
        if self.member:
            self.prune(topic, peer, now)

    def deliver(self, topic: TopicNumbers) -> None:
        self.first = score_parts.counted(self.first, 1.0, topic.first_cap)
        self.deliver_copy(topic)

    def deliver_copy(self, topic: TopicNumbers) -> None:
        if self.member:
            self.mesh = score_parts.counted(self.mesh, 1.0, topic.mesh_cap)

    def blame(self) -> None:
        self.invalid += 1.0

    def time_in_mesh(self, peer: PeerScoreParameters, now: Micros) -> Micros:
        if not self.member:
            return 0
        return now - self.grafted if peer.mesh_times is MeshTimes.NOW else self.mesh_time

    def is_active(self, topic: TopicNumbers, peer: PeerScoreParameters, now: Micros) -> bool:
        """Return True if mesh deliveries are expected."""
        if peer.mesh_times is MeshTimes.NOW and self.member:
            return score_parts.is_active(now - self.grafted, topic.activation)
        return self._active

    def recap(self, topic: TopicNumbers) -> None:
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
                self._active = True


class PeerCounters:
    """Counters of one peer, connected or kept."""

    __slots__ = ("connected", "least", "misbehaviour", "neighbourhood", "score", "slow", "topics")

    def __init__(self) -> None:
        self.connected = True
        self.topics: dict[TopicId, TopicCounters] = {}
        self.misbehaviour = 0.0
        self.slow = 0.0
        self.score: float | None = None
        """The cached score; None after a change."""
        self.least: float | None = None
        """The last score, a lower bound as long as only credit has been added; None after other changes."""
        self.neighbourhood = 0
        """`SharedAddresses.changes` at the time when the last score was computed."""

    def change(self) -> None:
        """Invalidate the cached sums."""
        self.score = self.least = None
        for counted in self.topics.values():
            counted.worth = None

    def decay(self, peer: PeerScoreParameters) -> None:
        self.misbehaviour = score_parts.decayed(self.misbehaviour, peer.misbehaviour_decay, peer.decay_to_zero)
        self.slow = score_parts.decayed(self.slow, peer.slow_peer_decay, peer.decay_to_zero)

    @property
    def is_blameless(self) -> bool:
        """Return True if the peer has no penalties."""
        return not (self.misbehaviour or self.slow) and not any(
            counted.failures or counted.invalid for counted in self.topics.values()
        )


class DeliveryRecord:
    __slots__ = ("decided", "senders", "state", "until")

    def __init__(self, until: Micros) -> None:
        self.state = OPEN
        self.until = until
        self.decided: Micros = 0
        """The time of the verdict."""
        self.senders: dict[PeerId, None] = {}
        """Senders of copies, in the order of arrival."""


class DeliveryRecords:
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
        while self._records:
            oldest = next(iter(self._records))
            if now <= self._records[oldest].until:
                break
            del self._records[oldest]


_WHOLE = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.WHOLE)
_PREFIX = (Ipv6Counting.WHOLE_AND_PREFIX, Ipv6Counting.PREFIX)


class SharedAddresses:
    def __init__(self, allowed: Sequence[str], ipv6: Ipv6Counting, most_per_peer: int) -> None:
        self._allowed = tuple(ip_network(text, strict=False) for text in allowed)
        self._ipv6 = ipv6
        self._most = most_per_peer
        self._at: dict[str, int] = {}
        """Number of peers of an address."""
        self._of: dict[PeerId, tuple[str, ...]] = {}
        """Addresses of a peer, in ascending order, so that sums do not depend on the order of events."""
        self.changes = 0
        """Number of changes so far, of any peer's addresses."""

    def __len__(self) -> int:
        return len(self._at)

    def place(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """Set the addresses of a peer, in place of earlier ones."""
        self.remove(peer)
        counted = sorted({name for text in self._first(addresses) for name in self.names(text)})
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
        """Return P6 of the peer, without its weight."""
        found = 0.0
        for name in self._of.get(peer, ()):
            found += excess_square(float(self._at[name]), float(threshold))
        return found

    def _first(self, addresses: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(addresses))[: self._most]

    def names(self, text: str) -> Iterator[str]:
        """Yield the forms in which an address counts."""
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
    def __init__(self, most: int) -> None:
        self._most = most
        self._until: dict[PeerId, Micros] = {}
        """The times until which peers are kept, the longest disconnected first."""
        self._blameless: dict[PeerId, None] = {}
        """Kept peers without penalties, the longest disconnected first."""

    def __len__(self) -> int:
        return len(self._until)

    def keep(self, peer: PeerId, until: Micros, blameless: bool) -> PeerId | None:
        """Keep a disconnected peer. Returns the peer that is forgotten for it if there is no room."""
        self._until[peer] = until
        if blameless:
            self._blameless[peer] = None
        if len(self) <= self._most:
            return None
        oldest = next(iter(self._blameless or self._until))
        self.take_back(oldest)
        return oldest

    def blame(self, peer: PeerId) -> None:
        """Note a penalty of a disconnected peer: a late verdict, or a broken promise."""
        self._blameless.pop(peer, None)

    def take_back(self, peer: PeerId) -> None:
        self._until.pop(peer, None)
        self._blameless.pop(peer, None)

    def expire(self, now: Micros) -> Iterator[PeerId]:
        """Yield the peers whose time is over, and forget them."""
        while self._until:
            oldest = next(iter(self._until))
            if not is_forgotten(now, self._until[oldest]):
                return
            self.take_back(oldest)
            yield oldest
