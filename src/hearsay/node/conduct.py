"""The conduct of peers, and the counters of a node.

An offence adds demerits to the record of a peer and to the record of its address. Demerits decay with time. A peer or
an address with too many demerits is banned for some time.
"""

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
"""If a record has fewer demerits than this at the next offence, its numbers of offences are first reset to zero."""


@dataclass(slots=True)
class _Account:
    """The record of a peer or an address: its demerits, its latest ban and its offences."""

    at_s: float
    demerits: float = 0.0
    """Demerits at the time `at_s`. The present value is lower, because demerits decay."""
    banned_until_s: float = 0.0
    """The end of the latest ban. It is in the past if no ban is in force."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Number of offences by kind since the last reset."""


_NONE = _Account(0.0, banned_until_s=-inf)
"""The record of a peer without offences. It never changes."""


class Demerits(Generic[Name]):
    """The records of peers or of addresses, at most `limit`. Times are seconds of any monotonic clock.

    A peer or an address that reaches `ban_at` demerits is banned for `ban_s` seconds. Demerits decay to half in
    `half_life_s` seconds.
    """

    def __init__(self, ban_at: float, ban_s: float, half_life_s: float, limit: int) -> None:
        self._ban_at = ban_at
        self._ban_s = ban_s
        self._half_life_s = half_life_s
        self._limit = limit
        self._accounts: dict[Name, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def current(self, name: Name, now_s: float) -> float:
        """Return the demerits that a peer or an address has at the time `now_s`; 0 without a record."""
        return self._faded(self._accounts.get(name, _NONE), now_s)

    def add(self, name: Name, demerits: float, what: str, count: int, now_s: float) -> bool:
        """Add `demerits` to a record, in total for `count` offences of the kind `what`. Return True if a ban begins.

        When a ban begins, the demerits become 0. During a ban nothing is added, and the result is False.
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
        """Return a copy of the numbers of offences by kind since the last reset (`FADED`)."""
        return dict(self._accounts.get(name, _NONE).counts)

    def _faded(self, account: _Account, now_s: float) -> float:
        return account.demerits * 0.5 ** ((now_s - account.at_s) / self._half_life_s)

    def _make_room(self, now_s: float) -> None:
        if len(self._accounts) < self._limit:
            return
        ranked = sorted(self._accounts, key=lambda name: (self.ban_left_s(name, now_s), self.current(name, now_s)))
        for name in ranked[: max(1, self._limit // 4)]:
            del self._accounts[name]


class Offence(Enum):
    """The kinds of offences. The value of a kind is its name in the singular and in the plural."""

    MALFORMED = ("malformed RPC", "malformed RPCs")
    """A frame that is too long or that cannot be decoded as an RPC."""
    FORGED = ("forged message", "forged messages")
    """A message whose signature or key every implementation refuses."""
    REJECTED = ("rejected message", "rejected messages")
    """A message that a validator rejects, or an RPC of partial messages that the application finds invalid."""
    BACKOFF_BROKEN = ("GRAFT in backoff", "GRAFTs in backoff")
    """A GRAFT before the end of a backoff, unless it is forgiven (`EarlyGrafts`)."""
    OVER_LIMIT = ("RPC over a limit", "RPCs over a limit")
    """More parts, bytes, streams or RPCs per second than a limit allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductLimits:
    """The demerits of each kind of offence, and the numbers of demerits at which a peer is slowed or banned.

    After each offence of a slowed peer, the node stops reading from this peer for `pause_s` seconds.
    """

    malformed: float = 40.0
    """Demerits of one malformed RPC. The next four fields have the demerits of one offence of the other kinds."""
    forged: float = 20.0
    rejected: float = 4.0
    backoff_broken: float = 10.0
    over_limit: float = 5.0
    slow_at: float = 100.0
    """Demerits at which a peer is slowed."""
    pause_s: float = 1.0
    """Seconds in which the node does not read from a slowed peer after an offence."""
    out_at: float = 200.0
    """Demerits at which a peer is banned."""
    out_s: float = 600.0
    """Seconds of a ban."""
    half_life_s: float = 60.0
    """Seconds in which demerits decay to half."""
    address_factor: float = 8.0
    """An address is slowed and banned at this many times the demerits of a peer."""
    backoff_grace_s: float = 10.0
    """Seconds after a peer's first GRAFT in backoff in a topic; further GRAFTs in this time are no offence."""
    remembered: int = 4096
    """Maximum records of peers, and maximum records of addresses. Without room, a quarter of the records is dropped:
    first those without a ban and with the fewest demerits, then those whose ban ends soonest."""

    def demerits(self, offence: Offence) -> float:
        return float(getattr(self, offence.name.lower()))


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a peer, or of a whole address group if `peer` is None.

    `for_s` is the number of seconds from the creation of this object to the end of the ban. `why` lists the offences.
    """

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

    An address is an address group (`hearsay.libp2p.resources.address_group`). The empty address stands for an
    unknown address, which is never banned.
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
        """Add `count` offences of a peer to its record and to the record of its address. Do nothing during a ban.

        An address gets at most the demerits that were missing for a ban of the peer.
        """
        now_s, limits = self._now_s(), self._limits
        if self.ban_of(peer, address) is not None:
            return
        what, demerits = offence.name, limits.demerits(offence) * count
        at_most = limits.out_at - self._peers.current(peer, now_s)
        if self._peers.add(peer, demerits, what, count, now_s):
            self._on_ban(Ban(peer, address, limits.out_s, _why(self._peers.counts(peer))))
        if address and self._addresses.add(address, min(demerits, at_most), what, count, now_s):
            self._on_ban(Ban(None, address, limits.out_s, _why(self._addresses.counts(address))))

    def slowed(self, peer: PeerId, address: str) -> bool:
        """Return True if the peer or its address has enough demerits to be slowed."""
        now_s, slow_at = self._now_s(), self._limits.slow_at
        return (
            self._peers.current(peer, now_s) >= slow_at
            or self._addresses.current(address, now_s) >= slow_at * self._limits.address_factor
        )

    def ban_of(self, peer: PeerId | None, address: str) -> Ban | None:
        """Return the ban of a peer, or else that of its address, with the remaining time. Return None without a ban.

        If `peer` is None, only the ban of the address is returned.
        """
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
"""Kinds of parts whose limits no honest peer exceeds. Honest peers may exceed the limits of other parts."""


class EarlyGrafts:
    """The times of the first GRAFTs in backoff, by connected peer and topic.

    A GRAFT less than `grace_s` seconds after the first one is forgiven. The first GRAFT is answered with a PRUNE. So
    a peer that sends another GRAFT after this time knows about the backoff.
    """

    _TOPICS = 1024
    """Maximum topics of a peer; the oldest is dropped first. The next GRAFT in a dropped topic is forgiven again."""

    def __init__(self, now_s: Callable[[], float], grace_s: float) -> None:
        self._now_s = now_s
        self._grace_s = grace_s
        self._first_s: dict[Identifier, dict[Identifier, float]] = {}

    def forgives(self, peer: Identifier, topic: Identifier) -> bool:
        """Return True if a GRAFT in backoff that has just arrived is forgiven. Remember its time if it is the first.

        The peer must speak a protocol with backoffs.
        """
        now_s = self._now_s()
        known = self._first_s.setdefault(peer, {})
        first_s = known.setdefault(topic, now_s)
        if len(known) > self._TOPICS:
            del known[next(iter(known))]
        return now_s - first_s < self._grace_s

    def grafted(self, peer: Identifier, topic: Identifier) -> None:
        """Forget a peer's GRAFTs in backoff in a topic, because the peer is in the mesh now."""
        self._first_s.get(peer, {}).pop(topic, None)

    def forget(self, peer: Identifier) -> None:
        self._first_s.pop(peer, None)


def offence_in(event: MessageRejected | PartDropped, router: Router, early_grafts: EarlyGrafts) -> Offence | None:
    """Return the offence of a peer that an event of the router shows; None if the event shows no offence.

    If the router keeps scores, rejected messages and GRAFTs in backoff are no offences, because they lower the score.
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
    """The counters of a node since its start."""

    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    rejected: int = 0
    """Messages that the router or a validator rejected or ignored; messages in `bad_signatures` are not included."""
    bad_signatures: int = 0
    """Messages that the node refused because of their signature, author or sequence number."""
    rpcs_received: int = 0
    rpcs_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    malformed_rpcs: int = 0
    """Frames that were too long or could not be decoded; the node reset their streams."""
    left_out_parts: int = 0
    """Parts and ids of received RPCs that decoding left out (`hearsay.wire.decode`)."""
    parts_dropped: int = 0
    """Parts of received RPCs that the router did not act on."""
    dropped_because: Counter[Reason] = field(default_factory=Counter[Reason])
    """The numbers of `parts_dropped` by reason: `GRAYLISTED`, `GATED`, `LOW_SCORE` and so on."""
    messages_dropped: int = 0
    """Copies of messages that were not sent because the queues were full or the message does not fit into an RPC."""
    messages_withdrawn: int = 0
    """Copies of messages that were not sent because the peer no longer wanted them (IDONTWANT)."""
    gossip_dropped: int = 0
    """RPCs of IHAVE and IWANT that were not sent because the queues were full."""
    control_dropped: int = 0
    """RPCs of subscriptions and other control without room in the queues. The router sends their parts again."""
    test_messages: int = 0
    """Messages of the test extension that peers sent."""
    validations_timed_out: int = 0
    """Messages of peers that were ignored because a validator exceeded its deadline."""
    abandoned_rpcs: int = 0
    """RPCs that were not handled completely, because the peer was gone or banned; their other messages are lost."""
    replays: int = 0
    """Signed messages that were ignored because their sequence number was used before, or is too low or malformed."""
    gave_up_waiting: int = 0
    """Messages of this node that waited for a peer and were dropped to make room for later messages."""
    offences: Counter[Offence] = field(default_factory=Counter[Offence])
    """Number of offences of peers, by kind."""
    slowed: int = 0
    """Number of pauses in reading from a peer because of its offences."""
    put_out: int = 0
    """Number of bans of peers and addresses."""
    missed: int = 0
    """Delivered messages that were dropped because too many waited for the application to read them."""
