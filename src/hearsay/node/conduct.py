"""Conduct of peers and the counters of a node. Offences add demerits, which decay; too many lead to a ban."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Generic, TypeVar

from hearsay.core.language.actions import MessageRejected, PartDropped, Reason
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import PartKind, knows_backoff
from hearsay.core.shell.router import Router
from hearsay.libp2p.names.peer_id import PeerId, to_text

Name = TypeVar("Name", bound=Hashable)

FADED = 1.0
"""Demerits below which the counts of offences in a record are reset."""


@dataclass(slots=True)
class _Account:
    """The record of a peer or an address."""

    at_s: float
    demerits: float = 0.0
    """Demerits at the time `at_s`. The present value is lower, because demerits decay."""
    banned_until_s: float = 0.0
    """End of the latest ban; not in the future without a ban."""
    counts: dict[str, int] = field(default_factory=dict[str, int])


_NONE = _Account(0.0, banned_until_s=-inf)
"""The record of a peer without offences. It never changes."""


class Demerits(Generic[Name]):
    """The records of peers or addresses, at most `limit`. Times are seconds of any monotonic clock.

    With `ban_at` demerits a peer or an address is banned for `ban_s` seconds.
    """

    def __init__(self, ban_at: float, ban_s: float, half_life_s: float, limit: int) -> None:
        self._ban_at = ban_at
        self._ban_s = ban_s
        self._half_life_s = half_life_s
        self._limit = limit
        self._accounts: dict[Name, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, name: Name, now_s: float) -> float:
        """Return the present demerits."""
        return self._faded(self._accounts.get(name, _NONE), now_s)

    def add(self, name: Name, demerits: float, what: str, count: int, now_s: float) -> bool:
        """Add `demerits` for `count` offences of the kind `what`. Return True if these lead to a ban.

        During a ban nothing is added.
        """
        account = self._accounts.get(name)
        if account is None:
            account = _Account(now_s, banned_until_s=now_s)
            self._make_room(now_s)
            self._accounts[name] = account
        elif now_s < account.banned_until_s:
            return False
        before = self._faded(account, now_s)
        if before < FADED:
            account.counts.clear()
        account.counts[what] = account.counts.get(what, 0) + count
        account.at_s = now_s
        account.demerits = before + demerits
        if account.demerits < self._ban_at:
            return False
        account.demerits = 0.0
        account.banned_until_s = now_s + self._ban_s
        return True

    def ban_left_s(self, name: Name, now_s: float) -> float:
        """Return the remaining seconds of a ban; 0 without a ban."""
        return max(0.0, self._accounts.get(name, _NONE).banned_until_s - now_s)

    def counts(self, name: Name) -> dict[str, int]:
        """Return the number of offences by kind since the record was last reset."""
        return dict(self._accounts.get(name, _NONE).counts)

    def _faded(self, account: _Account, now_s: float) -> float:
        return account.demerits * 0.5 ** ((now_s - account.at_s) / self._half_life_s)

    def _make_room(self, now_s: float) -> None:
        if len(self._accounts) < self._limit:
            return
        ranked = sorted(self._accounts, key=lambda name: (self.ban_left_s(name, now_s), self.of(name, now_s)))
        for name in ranked[: max(1, self._limit // 4)]:
            del self._accounts[name]


class Offence(Enum):
    """Each value is the name of the offence, singular and plural; `ConductLimits` has the demerits of each."""

    MALFORMED = ("malformed RPC", "malformed RPCs")
    """Bytes that are not an RPC or not a frame."""
    FORGED = ("forged message", "forged messages")
    """A message whose signature is wrong."""
    REJECTED = ("rejected message", "rejected messages")
    """A message that a validator of the application rejects."""
    BACKOFF_BROKEN = ("GRAFT in backoff", "GRAFTs in backoff")
    """Repeated GRAFTs before the end of a backoff."""
    OVER_LIMIT = ("RPC over a limit", "RPCs over a limit")
    """More parts, bytes or streams than a bound allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductLimits:
    malformed: float = 40.0
    """Demerits of one malformed RPC."""
    forged: float = 20.0
    rejected: float = 4.0
    backoff_broken: float = 10.0
    over_limit: float = 5.0
    slow_at: float = 100.0
    """Demerits at which a peer is slowed."""
    pause_s: float = 1.0
    """Pause in reading from a slowed peer after each offence."""
    out_at: float = 200.0
    """Demerits at which a peer is banned."""
    out_s: float = 600.0
    """Seconds of a ban."""
    half_life_s: float = 60.0
    """Seconds in which demerits decay to half."""
    address_factor: float = 8.0
    """An address is slowed and banned at this many times the demerits of a peer."""
    backoff_grace_s: float = 10.0
    """Seconds after a connection's first GRAFT in backoff, in which further ones are forgiven."""
    remembered: int = 4096
    """Maximum records of peers, and of addresses; those with the fewest demerits are dropped first."""

    def demerits(self, offence: Offence) -> float:
        return float(getattr(self, offence.name.lower()))


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a peer, or of a whole address if `peer` is None, for `for_s` seconds from now."""

    peer: PeerId | None
    address: str
    for_s: float
    why: str

    def __str__(self) -> str:
        who = f"address {self.address}" if self.peer is None else to_text(self.peer)
        return f"{who} is banned for {self.how_long}: {self.why}"

    @property
    def how_long(self) -> str:
        return f"{self.for_s / 60:.0f} min" if self.for_s >= 90 else f"{self.for_s:.0f} s"


class Conduct:
    """The conduct of all peers. `now_s` is any monotonic clock; `on_ban` is called with each new ban.

    An address is an address group (`hearsay.libp2p.limits.resources.address_group`). The address "" stands for an
    unknown one and is never banned.
    """

    def __init__(
        self, now_s: Callable[[], float], on_ban: Callable[[Ban], None], limits: ConductLimits | None = None
    ) -> None:
        self._now_s = now_s
        self._on_ban = on_ban
        self._limits = limits = limits or ConductLimits()
        fixed = limits.out_s, limits.half_life_s, limits.remembered
        self._peers: Demerits[PeerId] = Demerits(limits.out_at, *fixed)
        self._addresses: Demerits[str] = Demerits(limits.out_at * limits.address_factor, *fixed)

    def note(self, peer: PeerId, address: str, offence: Offence, count: int = 1) -> None:
        """Count an offence `count` times for a peer and its address."""
        now_s, limits = self._now_s(), self._limits
        if self.ban_of(peer, address) is not None:
            return
        what, demerits = offence.name, limits.demerits(offence) * count
        at_most = limits.out_at - self._peers.of(peer, now_s)
        if self._peers.add(peer, demerits, what, count, now_s):
            self._on_ban(Ban(peer, address, limits.out_s, _why(self._peers.counts(peer))))
        if address and self._addresses.add(address, min(demerits, at_most), what, count, now_s):
            self._on_ban(Ban(None, address, limits.out_s, _why(self._addresses.counts(address))))

    def slowed(self, peer: PeerId, address: str) -> bool:
        """Return True if the peer or its address has enough demerits to be slowed."""
        now_s, slow_at = self._now_s(), self._limits.slow_at
        return (
            self._peers.of(peer, now_s) >= slow_at
            or self._addresses.of(address, now_s) >= slow_at * self._limits.address_factor
        )

    def ban_of(self, peer: PeerId | None, address: str) -> Ban | None:
        """Return the ban of a peer or of its address; None without a ban."""
        now_s = self._now_s()
        if peer is not None and (left_s := self._peers.ban_left_s(peer, now_s)):
            return Ban(peer, address, left_s, _why(self._peers.counts(peer)))
        if left_s := self._addresses.ban_left_s(address, now_s):
            return Ban(None, address, left_s, _why(self._addresses.counts(address)))
        return None


def _why(counts: dict[str, int]) -> str:
    """Return the offences as text, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {Offence[name].value[count != 1]}" for name, count in ranked)


_BOUNDED = (PartKind.SUBSCRIBE, PartKind.PUBLISH)
"""Kinds of parts whose limits no honest peer exceeds. An honest peer may exceed the limits of GRAFTs and ids."""


class EarlyGrafts:
    """GRAFTs in backoff by connection and topic. Those within `grace_s` of the first are forgiven.

    The first GRAFT is answered with PRUNE, so a peer that sends another after `grace_s` knows about the backoff.
    """

    _TOPICS = 1024
    """Maximum topics of a peer; the oldest is dropped first, so its next GRAFT is forgiven again."""

    def __init__(self, now_s: Callable[[], float], grace_s: float) -> None:
        self._now_s = now_s
        self._grace_s = grace_s
        self._first_s: dict[Identifier, dict[Identifier, float]] = {}

    def forgives(self, peer: Identifier, topic: Identifier) -> bool:
        """Return True if a GRAFT in backoff is forgiven. The peer's protocol must have backoffs."""
        now_s = self._now_s()
        known = self._first_s.setdefault(peer, {})
        first_s = known.setdefault(topic, now_s)
        if len(known) > self._TOPICS:
            del known[next(iter(known))]
        return now_s - first_s < self._grace_s

    def grafted(self, peer: Identifier, topic: Identifier) -> None:
        """Forget the early GRAFTs of a topic, because its backoff is over."""
        self._first_s.get(peer, {}).pop(topic, None)

    def forget(self, peer: Identifier) -> None:
        self._first_s.pop(peer, None)


def offence_in(event: MessageRejected | PartDropped, router: Router, early_grafts: EarlyGrafts) -> Offence | None:
    """Return the offence that an event shows, or None. If the router keeps scores, the score punishes rejected
    messages and GRAFTs in backoff instead.
    """
    keeps_scores = router.strategy.keeps_scores
    if isinstance(event, MessageRejected):
        return Offence.REJECTED if event.reason is Reason.REJECTED and not keeps_scores else None
    if event.reason is Reason.OVER_LIMIT:
        return Offence.OVER_LIMIT if event.kind in _BOUNDED else None
    if event.reason is not Reason.BACKOFF or keeps_scores or event.topic is None:
        return None
    peer = router.connected.get(event.peer)
    knows = peer is not None and knows_backoff(peer.protocol)
    return Offence.BACKOFF_BROKEN if knows and not early_grafts.forgives(event.peer, event.topic) else None


@dataclass(slots=True)
class Statistics:
    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    rejected: int = 0
    bad_signatures: int = 0
    rpcs_received: int = 0
    rpcs_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    malformed_rpcs: int = 0
    """Frames that could not be decoded; the node reset their streams."""
    left_out_parts: int = 0
    """Parts and ids of received RPCs that decoding left out (`hearsay.wire.decode`)."""
    parts_dropped: int = 0
    """Parts of received RPCs that the router did not act on."""
    dropped_because: Counter[Reason] = field(default_factory=Counter[Reason])
    """The numbers of `parts_dropped` by reason: `GRAYLISTED`, `GATED`, `LOW_SCORE` and so on."""
    messages_dropped: int = 0
    """Copies that were not sent because a peer's queue was full."""
    messages_withdrawn: int = 0
    """Copies that were not sent because their peer no longer wanted them (IDONTWANT)."""
    gossip_dropped: int = 0
    control_dropped: int = 0
    test_messages: int = 0
    """Messages of the test extension."""
    validations_timed_out: int = 0
    abandoned_rpcs: int = 0
    """RPCs that were handled only in part because the peer was gone. Their remaining messages are lost."""
    replays: int = 0
    """Messages whose sequence number was used before."""
    gave_up_waiting: int = 0
    """Own messages that waited for a first peer and were dropped to make room for later ones."""
    offences: Counter[Offence] = field(default_factory=Counter[Offence])
    """Offences of peers by kind (`hearsay.node.conduct`)."""
    slowed: int = 0
    """Pauses in reading from a peer because of its offences."""
    put_out: int = 0
    """Number of bans of peers and addresses."""
    missed: int = 0
    """Messages that were dropped because the application did not take them in time."""
