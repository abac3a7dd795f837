"""What a rendezvous point remembers, and whom it tells of.

Rules:

* A registration reserves its bytes in the budgets of its peer and of the address that the peer comes from, and so of
  all. A peer without room is refused. Where an address, or everything, is full, the greatest gives way: of the
  address that has most, the peer that registered most often, with what it registered first. In a full namespace the
  address with most registrations gives way. So whoever has many of them keeps nobody out.
* Of two records of a peer the one with the higher sequence number is told.
* Each address has one registration told, then each a second one, and so on, newest first; which address begins is
  chance, anew for each who asks. So whoever has few registrations is told of among the first.
* An answer is bounded in registrations and in bytes. Its cookie says how far it came: the next answer goes on there,
  and when there is no more, only newer ones come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import getrandbits
from struct import Struct

from hearsay.libp2p.limits.resources import MIB, Budget
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.peer_record import read_envelope
from hearsay.libp2p.services.rendezvous import (
    DEFAULT_TTL_S,
    MAX_ANSWER,
    MAX_NAMESPACE_BYTES,
    MAX_TTL_S,
    MessageType,
    RendezvousMessage,
    Status,
)

ENTRY_BYTES = 512
"""What a registration takes beside its record and its namespace."""
EXPIRY_S = 60.0
"""So often what is over is looked for."""
_COOKIE = Struct(">QQLL")
"""Of the registrations after one number, up to another one, so many were told, in an order that a number chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLimits:
    record_bytes: int = 4096
    per_peer: int = 1000
    per_namespace: int = 2048
    peer_bytes: int = MIB
    address_bytes: int = 4 * MIB
    bytes: int = 16 * MIB
    answer_bytes: int = 64 << 10
    """Of the registrations in an answer; one of them is always told."""


@dataclass(slots=True)
class _Registration:
    namespace: str
    peer: PeerId
    address: str
    number: int
    until_s: float
    record: bytes
    budget: Budget

    @property
    def bytes(self) -> int:
        return len(self.record) + len(self.namespace.encode()) + ENTRY_BYTES


class _Peer:
    __slots__ = ("budget", "count", "record", "sequence")

    def __init__(self, limit: int) -> None:
        self.budget = Budget("registrations of a peer", limit)
        self.count = 0
        self.record = b""
        """The newest."""
        self.sequence = -1


class _Address:
    __slots__ = ("budget", "registrations")

    def __init__(self, limit: int, everything: Budget) -> None:
        self.budget = Budget("registrations of an address", limit, (everything,))
        self.registrations: dict[tuple[str, PeerId], _Registration] = {}


class Registry:
    """`answer` takes what a peer asks. `now_s` is any clock that goes forward."""

    def __init__(self, now_s: Callable[[], float], limits: RegistryLimits | None = None) -> None:
        self._now_s = now_s
        self._limits = limits or RegistryLimits()
        self.budget = Budget("rendezvous", self._limits.bytes)
        self._names: dict[str, dict[PeerId, _Registration]] = {}
        self._peers: dict[PeerId, _Peer] = {}
        self._addresses: dict[str, _Address] = {}
        self._count = 0
        """Numbers of registrations; each namespace has its own in ascending order."""
        self._looked_s = now_s()

    def __len__(self) -> int:
        return sum(peer.count for peer in self._peers.values())

    def answer(self, peer: PeerId, address: str, asked: RendezvousMessage) -> RendezvousMessage | None:
        """What to answer to an authenticated peer; None to what needs none.

        `address` is what the peer's address counts as (`resources.address_group`).
        """
        if self._now_s() - self._looked_s >= EXPIRY_S:
            self._expire()
        match asked.type:
            case MessageType.REGISTER:
                status = self._register(peer, address, asked)
                ttl_s = (asked.ttl_s or DEFAULT_TTL_S) if status is Status.OK else 0
                return RendezvousMessage(type=MessageType.REGISTER_RESPONSE, status=status, ttl_s=ttl_s)
            case MessageType.UNREGISTER:
                self._unregister(asked.namespace, peer)
                return None
            case MessageType.DISCOVER:
                return self._discover(asked)
            case _:
                return None

    def _register(self, peer: PeerId, address: str, asked: RendezvousMessage) -> Status:
        if not 0 < len(asked.namespace.encode()) <= MAX_NAMESPACE_BYTES:
            return Status.INVALID_NAMESPACE
        if asked.ttl_s > MAX_TTL_S:
            return Status.INVALID_TTL
        known = self._peers.get(peer) or _Peer(self._limits.peer_bytes)
        if not self._learn(peer, known, asked.record):
            return Status.INVALID_RECORD
        self._unregister(asked.namespace, peer)
        place = self._addresses.get(address) or _Address(self._limits.address_bytes, self.budget)
        self._count += 1
        until_s = self._now_s() + (asked.ttl_s or DEFAULT_TTL_S)
        budget = Budget("registration", self._limits.bytes, (known.budget, place.budget))
        made = _Registration(asked.namespace, peer, address, self._count, until_s, known.record, budget)
        if known.count >= self._limits.per_peer or not self._make_room(made, known, place):
            return Status.UNAVAILABLE
        self._peers[peer], self._addresses[address] = known, place
        self._names.setdefault(made.namespace, {})[peer] = made
        place.registrations[made.namespace, peer] = made
        known.count += 1
        return Status.OK

    def _learn(self, peer: PeerId, known: _Peer, record: bytes) -> bool:
        """Whether it is the peer's own record, checked unless it is the same again; the newest one is kept."""
        if record == known.record:
            return True
        if len(record) > self._limits.record_bytes:
            return False
        try:
            opened = read_envelope(record).check()
        except EncodingError:
            return False
        if opened.peer == peer and opened.sequence >= known.sequence:
            known.record, known.sequence = record, opened.sequence
        return opened.peer == peer

    def _make_room(self, made: _Registration, peer: _Peer, place: _Address) -> bool:
        """Reserve what a registration needs; others give way, if they have more than their share."""
        names = self._names.get(made.namespace, {})
        if len(names) >= self._limits.per_namespace:
            counts = Counter(kept.address for kept in names.values())
            greatest = max(counts, key=counts.__getitem__)
            self._remove(next(kept for kept in names.values() if kept.address == greatest))
        while not made.budget.reserve(made.bytes):
            if peer.budget.free < made.bytes:
                return False
            full = place
            if place.budget.used + made.bytes <= place.budget.limit:
                full = max(self._addresses.values(), key=lambda known: known.budget.used)
            if not full.registrations:
                return False
            counts = Counter(kept.peer for kept in full.registrations.values())
            greatest = max(counts, key=counts.__getitem__)
            self._remove(next(kept for kept in full.registrations.values() if kept.peer == greatest))
        return True

    def _discover(self, asked: RendezvousMessage) -> RendezvousMessage:
        name = asked.namespace.encode()
        after, upto, told, order = 0, 0, 0, 0
        if asked.cookie:
            if len(asked.cookie) < _COOKIE.size or asked.cookie[_COOKIE.size :] != name:
                return RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, status=Status.INVALID_COOKIE)
            after, upto, told, order = _COOKIE.unpack_from(asked.cookie)
        if not upto:
            upto, order = self._count, getrandbits(32)
        found = self._in_turns(asked.namespace, after, upto, order)[told:]
        page = found[: min(asked.limit or MAX_ANSWER, MAX_ANSWER)]
        room = self._limits.answer_bytes
        for place, kept in enumerate(page):
            room -= len(kept.record) + len(name) + 16
            if room < 0:
                del page[max(1, place) :]
                break
        if len(page) < len(found):
            cookie = _COOKIE.pack(after, upto, told + len(page), order)
        else:
            cookie = _COOKIE.pack(upto, 0, 0, 0)
        return RendezvousMessage(
            type=MessageType.DISCOVER_RESPONSE,
            cookie=cookie + name,
            records=tuple(kept.record for kept in page),
        )

    def _in_turns(self, namespace: str, after: int, upto: int, order: int) -> list[_Registration]:
        """The registrations between two numbers, in the order in which they are told."""
        now_s = self._now_s()
        of_address: dict[str, list[_Registration]] = {}
        for kept in reversed(self._names.get(namespace, {}).values()):
            if kept.number <= after:
                break
            if kept.number <= upto and kept.until_s > now_s:
                of_address.setdefault(kept.address, []).append(kept)
        addresses = sorted(of_address, key=lambda address: hash((order, address)))
        rounds = zip_longest(*(of_address[address] for address in addresses))
        return [kept for kept in chain.from_iterable(rounds) if kept is not None]

    def _unregister(self, namespace: str, peer: PeerId) -> None:
        kept = self._names.get(namespace, {}).get(peer)
        if kept is not None:
            self._remove(kept)

    def _remove(self, kept: _Registration) -> None:
        kept.budget.close()
        peers = self._names[kept.namespace]
        del peers[kept.peer]
        if not peers:
            del self._names[kept.namespace]
        del self._addresses[kept.address].registrations[kept.namespace, kept.peer]
        if not self._addresses[kept.address].registrations:
            del self._addresses[kept.address]
        self._peers[kept.peer].count -= 1
        if not self._peers[kept.peer].count:
            del self._peers[kept.peer]

    def _expire(self) -> None:
        self._looked_s = now_s = self._now_s()
        for kept in [kept for peers in self._names.values() for kept in peers.values() if kept.until_s <= now_s]:
            self._remove(kept)
