"""Rendezvous over the streams of a host: a rendezvous point with its registry, and requests to a point.

An address here is an address group (`resources.address_group`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from random import getrandbits
from struct import Struct

from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import EncodingError, ProtocolError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import NodeHost
from hearsay.libp2p.rates import Rate, Rates
from hearsay.libp2p.rendezvous import (
    DEFAULT_TTL_S,
    MAX_ANSWER,
    MAX_MESSAGE_BYTES,
    MAX_NAMESPACE_BYTES,
    MAX_TTL_S,
    PROTOCOL,
    MessageType,
    RendezvousMessage,
    Status,
    decode_message,
    encode_message,
    read_envelope,
)
from hearsay.libp2p.resources import MIB, Budget

ENTRY_BYTES = 512
"""Memory of a registration in bytes, in addition to its record and namespace."""
EXPIRY_S = 60.0
"""Minimum seconds between two searches for expired registrations."""
_COOKIE = Struct(">QQLL")
"""The form of a cookie without its namespace: `after` and `upto` of `_in_order`, the number of registrations that
were sent of this range, and `order` of `_in_order`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLimits:
    """Limits of a registry: the size of a record, numbers of registrations, and memory in bytes."""

    record_bytes: int = 4096
    per_peer: int = 1000
    per_namespace: int = 2048
    peer_bytes: int = MIB
    address_bytes: int = 4 * MIB
    bytes: int = 16 * MIB
    answer_bytes: int = 64 << 10
    """Maximum bytes of registrations in an answer. An answer may always have one registration."""


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


@dataclass(slots=True)
class _PeerAccount:
    budget: Budget
    count: int = 0
    record: bytes = b""
    """The newest signed record of the peer."""
    sequence: int = -1


_Key = tuple[str, PeerId]
"""The namespace and the peer of a registration."""


@dataclass(slots=True)
class _AddressAccount:
    budget: Budget
    registrations: dict[_Key, _Registration] = field(default_factory=dict[_Key, _Registration])


class Registry:
    """The registrations of a point. `answer` handles requests of peers. `now_s` is any monotonic clock in seconds."""

    def __init__(self, now_s: Callable[[], float], limits: RegistryLimits | None = None) -> None:
        self._now_s = now_s
        self._limits = limits or RegistryLimits()
        self.budget = Budget("rendezvous", self._limits.bytes)
        self._names: dict[str, dict[PeerId, _Registration]] = {}
        self._peers: dict[PeerId, _PeerAccount] = {}
        self._addresses: dict[str, _AddressAccount] = {}
        self._count = 0
        """The number of the last registration. The registrations of a namespace are in the order of their numbers."""
        self._last_expiry_s = now_s()

    def __len__(self) -> int:
        return sum(peer.count for peer in self._peers.values())

    def answer(self, peer: PeerId, address: str, asked: RendezvousMessage) -> RendezvousMessage | None:
        """Handle a request of an authenticated peer, and return the answer; None if the request has no answer."""
        if self._now_s() - self._last_expiry_s >= EXPIRY_S:
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
        known = self._peers.get(peer) or _PeerAccount(Budget("registrations of a peer", self._limits.peer_bytes))
        if not self._learn(peer, known, asked.record):
            return Status.INVALID_RECORD
        self._unregister(asked.namespace, peer)
        address_account = self._addresses.get(address) or _AddressAccount(
            Budget("registrations of an address", self._limits.address_bytes, (self.budget,))
        )
        self._count += 1
        until_s = self._now_s() + (asked.ttl_s or DEFAULT_TTL_S)
        budget = Budget("registration", self._limits.bytes, (known.budget, address_account.budget))
        made = _Registration(asked.namespace, peer, address, self._count, until_s, known.record, budget)
        if known.count >= self._limits.per_peer or not self._make_room(made, known, address_account):
            return Status.UNAVAILABLE
        self._peers[peer], self._addresses[address] = known, address_account
        self._names.setdefault(made.namespace, {})[peer] = made
        address_account.registrations[made.namespace, peer] = made
        known.count += 1
        return Status.OK

    def _learn(self, peer: PeerId, known: _PeerAccount, record: bytes) -> bool:
        """Return True if the peer signed the record and it is not too long. Store a record that is not older than the
        stored one. A record that is equal to the stored one is not checked.
        """
        if record and record == known.record:
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

    def _make_room(self, made: _Registration, peer: _PeerAccount, address_account: _AddressAccount) -> bool:
        """Reserve memory for a registration. Return False if the limit of the peer leaves no room, or if there is no
        registration to remove.

        In a full namespace, remove a registration of the address that has the most registrations there. If the memory
        of the address is full, remove registrations of the peer that has the most at this address. If the memory of
        the registry is full, find the address that uses the most memory, and remove registrations of the peer that
        has the most there.
        """
        names = self._names.get(made.namespace, {})
        if len(names) >= self._limits.per_namespace:
            counts = Counter(kept.address for kept in names.values())
            greatest = max(counts, key=counts.__getitem__)
            self._remove(next(kept for kept in names.values() if kept.address == greatest))
        while not made.budget.reserve(made.bytes):
            if peer.budget.free < made.bytes:
                return False
            full = address_account
            if address_account.budget.used + made.bytes <= address_account.budget.limit:
                full = max(self._addresses.values(), key=lambda known: known.budget.used)
            if not full.registrations:
                return False
            counts = Counter(kept.peer for kept in full.registrations.values())
            greatest = max(counts, key=counts.__getitem__)
            self._remove(next(kept for kept in full.registrations.values() if kept.peer == greatest))
        return True

    def _discover(self, asked: RendezvousMessage) -> RendezvousMessage:
        name = asked.namespace.encode()
        after, upto, sent, order = 0, 0, 0, 0
        if asked.cookie:
            if len(asked.cookie) < _COOKIE.size or asked.cookie[_COOKIE.size :] != name:
                return RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, status=Status.INVALID_COOKIE)
            after, upto, sent, order = _COOKIE.unpack_from(asked.cookie)
        if not upto:
            upto, order = self._count, getrandbits(32)
        found = self._in_order(asked.namespace, after, upto, order)[sent:]
        page = found[: min(asked.limit or MAX_ANSWER, MAX_ANSWER)]
        room = self._limits.answer_bytes
        for index, kept in enumerate(page):
            room -= len(kept.record) + len(name) + 16
            if room < 0:
                del page[max(1, index) :]
                break
        if len(page) < len(found):
            cookie = _COOKIE.pack(after, upto, sent + len(page), order)
        else:
            cookie = _COOKIE.pack(upto, 0, 0, 0)
        return RendezvousMessage(
            type=MessageType.DISCOVER_RESPONSE,
            cookie=cookie + name,
            records=tuple(kept.record for kept in page),
        )

    def _in_order(self, namespace: str, after: int, upto: int, order: int) -> list[_Registration]:
        """Return the valid registrations of a namespace whose numbers are above `after`, and at most `upto`.

        First comes the newest registration of each address, then the second newest of each, and so on. `order` is a
        random number that determines the order of the addresses.
        """
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
        self._last_expiry_s = now_s = self._now_s()
        for kept in [kept for peers in self._names.values() for kept in peers.values() if kept.until_s <= now_s]:
            self._remove(kept)


ANSWER_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLimits:
    """Limits of a rendezvous point."""

    registry: RegistryLimits = field(default_factory=RegistryLimits)
    streams: int = 8
    """Maximum number of open streams of a peer."""
    stream_s: float = 60.0
    """Seconds after which a stream is reset."""
    question_bytes: int = 8192
    """Maximum bytes of a request."""
    questions: int = 64
    """Maximum number of requests of a stream that wait for an answer."""
    rate: Rate = Rate(256, 16.0)
    """Maximum rate of a peer's requests."""
    address_rate: Rate = Rate(2048, 64.0)
    """Maximum rate of the requests of all peers at an address."""


class RendezvousPoint:
    """A rendezvous point on a host: it answers the requests of peers."""

    def __init__(self, host: NodeHost, limits: PointLimits | None = None) -> None:
        self.limits = limits or PointLimits()
        now_s = asyncio.get_running_loop().time
        self.registry = Registry(now_s, self.limits.registry)
        self._host = host
        self._streams: Counter[PeerId] = Counter()
        self._of_peer: Rates[PeerId] = Rates(now_s, self.limits.rate)
        self._of_address: Rates[str] = Rates(now_s, self.limits.address_rate)
        host.handle(PROTOCOL, self._opened)

    def use_or_wait_s(self, peer: PeerId, address: str) -> float:
        """Record a request of a peer and return 0. If it exceeds a rate, return the seconds to wait instead."""
        wait_s = max(self._of_peer.remaining_wait_s(peer), self._of_address.remaining_wait_s(address))
        if not wait_s:
            self._of_peer.use_or_wait_s(peer)
            self._of_address.use_or_wait_s(address)
        return wait_s

    def ended(self, peer: PeerId) -> None:
        self._streams -= Counter((peer,))  # this also removes a peer that has no stream left

    def _opened(self, stream: Stream) -> None:
        if self._streams[stream.peer] >= self.limits.streams:
            stream.reset()
            return
        self._streams[stream.peer] += 1
        requests = _Requests(self, stream, self._host.address_of(stream.peer))
        stream.receive_with(requests.data_received, requests.stream_ended)


async def ask(host: NodeHost, point: PeerId, question: RendezvousMessage) -> RendezvousMessage:
    """Send a request to a connected point and return its answer.

    Raises `StreamClosed`, `TimeoutError` or `ProtocolError` if there is no valid answer.
    """
    async with asyncio.timeout(ANSWER_SECONDS):
        stream = await host.open_stream(point, [PROTOCOL])
        try:
            stream.write(frame(encode_message(question)))
            stream.finish()
            reader = FrameReader(MAX_MESSAGE_BYTES, stream.budget)
            while data := await stream.read():
                for answer in reader.receive(data):
                    return decode_message(answer)
        finally:
            stream.reset()
    raise StreamClosed("the rendezvous point did not answer")


class _Requests:
    """The requests of one stream. The stream is not read while requests wait for an answer."""

    def __init__(self, point: RendezvousPoint, stream: Stream, address: str) -> None:
        self._point = point
        self._stream = stream
        self._address = address
        self._frames = FrameReader(point.limits.question_bytes, stream.budget)
        self._waiting: deque[bytes] = deque()
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(point.limits.stream_s, stream.reset)

    def data_received(self, data: bytes) -> None:
        self._waiting += self._frames.receive(data)
        if len(self._waiting) > self._point.limits.questions:
            raise ProtocolError(f"more than {self._point.limits.questions} requests at a time")
        self._answer()
        if self._waiting:
            self._stream.pause()

    def stream_ended(self, reset: bool) -> None:
        if reset:
            self._waiting.clear()
            self._release()
        else:
            self._stream.finish()
            self._stream.call_when_writable(self._release)

    def _release(self) -> None:
        """Release the stream, because its last answer is sent or can no longer be sent."""
        self._deadline.cancel()
        self._point.ended(self._stream.peer)

    def _answer(self) -> None:
        """Answer as many requests as possible now, and schedule the answers to the remaining requests."""
        stream = self._stream
        while self._waiting:
            if not stream.writable:
                stream.call_when_writable(self._continue)
                return
            wait_s = self._point.use_or_wait_s(stream.peer, self._address)
            if wait_s:
                self._loop.call_later(wait_s, self._continue)
                return
            answer = self._point.registry.answer(stream.peer, self._address, decode_message(self._waiting.popleft()))
            if answer is not None:
                stream.write(frame(encode_message(answer)))

    def _continue(self) -> None:
        try:
            self._answer()
        except ProtocolError:
            self._stream.reset()
        if not self._waiting and not self._stream.was_reset:
            self._stream.resume()
