"""The addresses of peers: the newest signed record of each peer, and unsigned claims.

The number of entries is limited, in total and for each source, so that no source displaces the entries of others. A
source is the address group of the peer that sends an address, a rendezvous point, or a kind of search. The entry of a
peer counts for the first source that names the peer, or for the peer's own address group once it sends its addresses
itself.

A control message of episub that names peers also carries their signed records, in a field that the router never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, zip_longest

from hearsay.core.language.episub_parts import EpisubJoin, EpisubPart, ForwardJoin, Nodes, Shuffle, ShuffleReply
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, Control, Extension, Rpc
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.services.rendezvous import read_envelope

RECORD_FIELD = EXPERIMENTAL_FIELDS + 4096
MAX_RECORDS = 64
"""Maximum records that are read from one RPC, because each needs a check of a signature."""


def with_records(control: Control, record_of: Callable[[bytes], bytes | None]) -> Control:
    """Return the control message with the known records of the peers that its parts of episub name."""
    named = sorted({peer for part in control.episub for peer in _named(part) if isinstance(peer, bytes)})
    records = [record_of(peer) for peer in named[:MAX_RECORDS]]
    added = tuple(Extension(RECORD_FIELD, record) for record in records if record is not None)
    return replace(control, extensions=control.extensions + added)


def split_records(rpc: Rpc) -> tuple[Rpc, list[bytes]]:
    """Return the RPC without its records, and at most `MAX_RECORDS` of these records."""
    control = rpc.control
    if control is None or not any(extension.field == RECORD_FIELD for extension in control.extensions):
        return rpc, []
    records = [extension.payload for extension in control.extensions if extension.field == RECORD_FIELD]
    others = tuple(extension for extension in control.extensions if extension.field != RECORD_FIELD)
    return replace(rpc, control=replace(control, extensions=others)), records[:MAX_RECORDS]


def _named(part: EpisubPart) -> Iterator[Identifier]:
    match part:
        case Nodes() | ShuffleReply():
            yield from part.peers
        case EpisubJoin() | ForwardJoin():
            yield part.peer
        case Shuffle():
            yield part.peer
            yield from part.peers
        case _:
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BookLimits:
    peers: int = 1024
    """Maximum entries; `source_peers` is the maximum of one source."""
    source_peers: int = 256
    addresses: int = 8
    """Maximum addresses of a peer that are kept and dialled."""


@dataclass(slots=True)
class _Known:
    source: str
    sequence: int = -1
    envelope: bytes | None = None
    signed: tuple[Multiaddr, ...] = ()
    claimed: tuple[Multiaddr, ...] = ()


_UNKNOWN = _Known("")
"""The entry of a peer that is not in the book. It never changes."""


class AddressBook:
    def __init__(self, can_dial: Callable[[Multiaddr], bool], limits: BookLimits | None = None) -> None:
        self._can_dial = can_dial
        self._limits = limits or BookLimits()
        self._known: dict[PeerId, _Known] = {}
        self._sources: dict[str, dict[PeerId, None]] = {}
        """The peers of each source, in the order of arrival."""

    @property
    def peers(self) -> tuple[PeerId, ...]:
        return tuple(self._known)

    def learn(
        self, envelope: bytes, source: str, *, sender: PeerId | None = None, named: PeerId | None = None
    ) -> tuple[PeerId, bool] | None:
        """Keep a signed record if it is the newest of its peer. `sender` is the peer that sent it.

        Return the peer, and True if the record is newer than the known one; None if it is invalid or not of `named`.
        """
        try:
            sealed = read_envelope(envelope)
            record = sealed.record
            if named not in (None, record.peer):
                return None
            before = self._known.get(record.peer)
            if before is not None and record.sequence <= before.sequence:
                return record.peer, False
            sealed.check()
        except EncodingError:
            return None
        known = self._entry_for(record.peer, source, record.peer == sender)
        known.sequence, known.envelope = record.sequence, envelope
        known.signed = self._usable(record.peer, record.addresses)
        return record.peer, True

    def claim(self, peer: PeerId, addresses: tuple[Multiaddr, ...], source: str) -> None:
        """Keep unsigned addresses of a peer that a search found, in addition to signed ones."""
        usable = self._usable(peer, addresses)
        if usable:
            self._entry_for(peer, source, False).claimed = usable

    def addresses(self, peer: PeerId) -> tuple[Multiaddr, ...]:
        """Return the addresses to dial: signed and claimed addresses in turn."""
        known = self._known.get(peer, _UNKNOWN)
        by_turns = chain.from_iterable(zip_longest(known.signed, known.claimed))
        return tuple(dict.fromkeys(address for address in by_turns if address is not None))[: self._limits.addresses]

    def record(self, peer: PeerId) -> bytes | None:
        """Return a peer's signed record; None without one."""
        return self._known.get(peer, _UNKNOWN).envelope

    def source(self, peer: PeerId) -> str:
        """Return the source for which the entry of a peer counts; empty without an entry."""
        return self._known.get(peer, _UNKNOWN).source

    def _usable(self, peer: PeerId, addresses: tuple[Multiaddr, ...]) -> tuple[Multiaddr, ...]:
        """Return the addresses that can be dialled and do not name another peer."""
        named = (address for address in addresses if address.peer in (None, peer) and self._can_dial(address))
        return tuple(dict.fromkeys(address.with_peer(peer) for address in named))[: self._limits.addresses]

    def _entry_for(self, peer: PeerId, source: str, by_itself: bool) -> _Known:
        """Return the entry of a peer. Create it if it is missing, or move it to `source` if the peer sent the address
        itself; without room, drop the oldest entry of this source, or of the largest one."""
        known = self._known.get(peer)
        if known is not None and (known.source == source or not by_itself):
            return known
        if known is not None:
            self._drop(peer)
        if len(self._sources.get(source, ())) >= self._limits.source_peers:
            self._drop(next(iter(self._sources[source])))
        elif len(self._known) >= self._limits.peers:
            greatest = max(self._sources.values(), key=len)
            self._drop(next(iter(greatest)))
        self._sources.setdefault(source, {})[peer] = None
        if known is None:
            known = _Known(source)
        known.source = source
        self._known[peer] = known
        return known

    def _drop(self, peer: PeerId) -> None:
        source = self._known.pop(peer).source
        peers = self._sources[source]
        del peers[peer]
        if not peers:
            del self._sources[source]


class AddressState(StrEnum):
    CONNECTED = "connected"
    LOST = "lost"
    """The connection has ended; the address is tried again."""
    FAILED = "failed"
    """The dial failed, or reached another peer than expected; the address is tried again."""
    KEPT_OUT = "kept_out"
    """The peer at the address is banned; the address is tried again when the ban expires."""
    OWN = "own"
    """The address leads back to this node; it is not tried again."""


@dataclass(frozen=True, slots=True)
class AddressNews:
    """The state of an address. `reason` explains why it is not connected, or has a remark about the connection."""

    address: str
    state: AddressState
    reason: str = ""
    peer: PeerId | None = None
    protocol: str = ""
    retry_s: float | None = None
    """Seconds until the next attempt; after failures they double, up to about a minute."""

    def __str__(self) -> str:
        again = "" if self.retry_s is None else f"; next attempt in {self.retry_s:.1f} s, then up to a minute apart"
        match self.state:
            case AddressState.CONNECTED:
                peer = "" if self.peer is None else to_text(self.peer)
                suffix = "" if peer in self.address else f"/p2p/{peer}"
                return f"connected to {self.address}{suffix}: {', '.join(filter(None, (self.protocol, self.reason)))}"
            case AddressState.OWN:
                return f"{self.address}: {self.reason}; no further attempts"
            case AddressState.KEPT_OUT:
                return f"{self.address}: {self.reason}"
            case AddressState.LOST | AddressState.FAILED:
                return f"{self.address}: {self.reason}{again}"


class AddressBoard:
    """The latest state of every address. A repeated state is reported once."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[AddressNews], None]] = []
        self._latest: dict[str, AddressNews] = {}

    @property
    def latest(self) -> tuple[AddressNews, ...]:
        return tuple(self._latest.values())

    def report(self, news: AddressNews) -> None:
        before = self._latest.get(news.address)
        self._latest[news.address] = news
        if before is None or replace(before, retry_s=None) != replace(news, retry_s=None):
            for callback in self.callbacks:
                callback(news)
