"""The addresses of peers: the newest signed record of each peer, and unsigned claims.

The number of entries is limited, in total and for each source, so that a source with many entries cannot displace
those of sources with fewer entries. A source is the address group of the peer that sends an address, a rendezvous
point, or a kind of search. The entry of a peer belongs to the first source that names the peer. When the peer itself
sends its addresses, the entry moves to the peer's own address group.

A control message of episub that names peers also has their signed records, in a field that the router never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, zip_longest

from hearsay.core.language.episub_parts import EpisubJoin, EpisubPart, ForwardJoin, Nodes, Shuffle, ShuffleReply
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, Extension, Rpc
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.rendezvous import read_envelope
from hearsay.wire.fields import raw

RECORD_FIELD = EXPERIMENTAL_FIELDS + 4096
"""Number of the field of a control message with a signed record (episub)."""
MAX_RECORDS = 64
"""Maximum records in fields `RECORD_FIELD` that are sent or read in one RPC, because each record needs a check of a
signature."""


def with_records(rpc: Rpc, record_of: Callable[[PeerId], bytes | None]) -> Rpc:
    """Return the RPC with the signed records of the peers that its PRUNEs and its parts of episub name.

    `record_of` returns None if the record of a peer is unknown; such a peer is sent without a record.
    """
    control = rpc.control
    if control is None or not (control.episub or any(prune.peers for prune in control.prune)):
        return rpc
    prunes = tuple(
        replace(prune, peers=tuple(replace(known, record=record_of(raw(known.peer))) for known in prune.peers))
        for prune in control.prune
    )
    named = sorted({raw(peer) for part in control.episub for peer in _named(part)})
    records = [record_of(peer) for peer in named[:MAX_RECORDS]]
    added = tuple(Extension(RECORD_FIELD, record) for record in records if record is not None)
    return replace(rpc, control=replace(control, prune=prunes, extensions=control.extensions + added))


def split_records(rpc: Rpc) -> tuple[Rpc, list[bytes]]:
    """Return the RPC without the records that episub adds, and at most `MAX_RECORDS` of these records."""
    control = rpc.control
    if control is None or not any(extension.field == RECORD_FIELD for extension in control.extensions):
        return rpc, []
    records = [extension.payload for extension in control.extensions if extension.field == RECORD_FIELD]
    others = tuple(extension for extension in control.extensions if extension.field != RECORD_FIELD)
    return replace(rpc, control=replace(control, extensions=others)), records[:MAX_RECORDS]


def _named(part: EpisubPart) -> Iterator[Identifier]:
    if isinstance(part, EpisubJoin | ForwardJoin | Shuffle):
        yield part.peer
    if isinstance(part, Nodes | ShuffleReply | Shuffle):
        yield from part.peers


@dataclass(frozen=True, slots=True, kw_only=True)
class BookLimits:
    peers: int = 1024
    """Maximum entries of all sources together; `source_peers` is the maximum of one source."""
    source_peers: int = 256
    addresses: int = 8
    """Maximum addresses of one peer: of the signed ones, of the unsigned ones, and of those that are dialled."""


@dataclass(slots=True)
class _Entry:
    source: str
    sequence: int = -1
    envelope: bytes | None = None
    signed: tuple[Multiaddr, ...] = ()
    claimed: tuple[Multiaddr, ...] = ()


_NO_ENTRY = _Entry("")
"""The entry of a peer that is not in the book. It never changes."""


class AddressBook:
    def __init__(self, can_dial: Callable[[Multiaddr], bool], limits: BookLimits | None = None) -> None:
        self._can_dial = can_dial
        self._limits = limits or BookLimits()
        self._known: dict[PeerId, _Entry] = {}
        self._sources: dict[str, dict[PeerId, None]] = {}
        """The peers of each source, in the order of arrival."""

    @property
    def peers(self) -> tuple[PeerId, ...]:
        return tuple(self._known)

    def learn(
        self, envelope: bytes, source: str, *, sender: PeerId | None = None, named: PeerId | None = None
    ) -> tuple[PeerId, bool] | None:
        """Keep a signed record if it is the newest of its peer.

        `sender` is the peer that sent the record, or None if a search found it. If `named` is not None, the record
        must be that of the peer `named`. Return the peer of the record, and True if the record is kept. Return None
        if the record is invalid or of another peer than `named`. The signature of a record that is not newer than the
        known one is not checked.
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
        """Keep the unsigned addresses of a peer that a search found, in place of earlier unsigned ones.

        Do nothing if none of `addresses` can be dialled.
        """
        usable = self._usable(peer, addresses)
        if usable:
            self._entry_for(peer, source, False).claimed = usable

    def addresses(self, peer: PeerId) -> tuple[Multiaddr, ...]:
        """Return the addresses to dial: signed and unsigned addresses in turn. The result is empty for an unknown
        peer."""
        known = self._known.get(peer, _NO_ENTRY)
        by_turns = chain.from_iterable(zip_longest(known.signed, known.claimed))
        return tuple(dict.fromkeys(address for address in by_turns if address is not None))[: self._limits.addresses]

    def record(self, peer: PeerId) -> bytes | None:
        """Return a peer's signed record; None if there is none."""
        return self._known.get(peer, _NO_ENTRY).envelope

    def source(self, peer: PeerId) -> str:
        """Return the source to which the entry of a peer belongs; an empty text without an entry."""
        return self._known.get(peer, _NO_ENTRY).source

    def _usable(self, peer: PeerId, addresses: tuple[Multiaddr, ...]) -> tuple[Multiaddr, ...]:
        """Return the addresses that can be dialled and do not name another peer, each with the id of `peer`."""
        named = (address for address in addresses if address.peer in (None, peer) and self._can_dial(address))
        return tuple(dict.fromkeys(address.with_peer(peer) for address in named))[: self._limits.addresses]

    def _entry_for(self, peer: PeerId, source: str, by_itself: bool) -> _Entry:
        """Return the entry of a peer. Create a missing entry. If `by_itself` is True, because the peer itself sent
        the record, move an existing entry to `source`.

        If `source` has no room for the entry, drop its oldest entry. If the book has no room, drop the oldest entry
        of the source with the most entries.
        """
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
        known = known or _Entry(source)
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
    """The connection has ended; the address is dialled again."""
    FAILED = "failed"
    """The dial failed, reached another peer than expected, or the rendezvous point did not answer; the address is
    dialled again."""
    KEPT_OUT = "kept_out"
    """The address or its peer is banned; the address is dialled again when the ban ends."""
    OWN = "own"
    """The address leads back to this node; it is not dialled again."""


@dataclass(frozen=True, slots=True)
class AddressNews:
    """The state of an address. `reason` says why the address is not connected, or is a remark on its connection."""

    address: str
    state: AddressState
    reason: str = ""
    peer: PeerId | None = None
    protocol: str = ""
    retry_s: float | None = None
    """Seconds until the next attempt; None if none is planned. After each failure they are about twice as many, up to
    90 seconds."""

    def __str__(self) -> str:
        again = "" if self.retry_s is None else f"; next attempt in {self.retry_s:.1f} s, then up to 90 s apart"
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
    """The latest state of every address.

    `callbacks` are called with each new state, unless it differs from the last one only in `retry_s`.
    """

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
