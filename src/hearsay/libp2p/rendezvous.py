"""Rendezvous (libp2p specs): peers register in a namespace at a rendezvous point, and ask it for registered peers.

Rules:

* A stream carries length-prefixed messages `{type = 1, register = 2, registerResponse = 3, unregister = 4,
  discover = 5, discoverResponse = 6}`; every REGISTER and DISCOVER is answered.
* A registration is a signed peer record of the requesting peer, and is valid for `ttl` seconds (default: two hours).
  Points of the older protocol, such as that of py-libp2p, expect `{id = 1, addrs = 2}` in place of the signed record.
* A DISCOVER is answered with registrations and a cookie. A DISCOVER with this cookie gets the next registrations.

`rendezvous_streams.py` has the registry of a point.

Signed peer records are also in identify messages, and in the peer exchange of PRUNE (libp2p RFCs 2 and 3). A record
is the payload of an envelope, `{public_key = 1, payload_type = 2, payload = 3, signature = 5}`. The signature covers
domain, type and payload, each with its length before it. The payload is `{peer_id = 1, seq = 2, addresses = 3
{multiaddr = 1}}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, check_peer_id, peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field, last_values, last_varints, values, varint_field

DOMAIN = b"libp2p-peer-record"
PAYLOAD_TYPE = b"\x03\x01"
MAX_RECORD_BYTES = 8192
MAX_ADDRESSES = 64


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """The addresses of a peer. A newer record of the peer has a greater `sequence`."""

    peer: PeerId
    sequence: int
    addresses: tuple[Multiaddr, ...]


def seal_record(identity: PrivateKey, record: PeerRecord) -> bytes:
    """Return an envelope with the record, signed by `identity`."""
    payload = bytes_field(1, record.peer) + varint_field(2, record.sequence)
    for address in record.addresses:
        payload += bytes_field(3, bytes_field(1, address.encode()))
    signature = identity.sign(_signed(payload))
    return (
        bytes_field(1, identity.public.encoded)
        + bytes_field(2, PAYLOAD_TYPE)
        + bytes_field(3, payload)
        + bytes_field(5, signature)
    )


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """The content of an envelope before the expensive check of its signature."""

    record: PeerRecord
    _key: PublicKey
    _payload: bytes
    _signature: bytes

    def check(self) -> PeerRecord:
        """Return the record if its peer has signed it; otherwise raise `EncodingError`."""
        if self.record.peer != peer_id_of(self._key):
            raise EncodingError("a peer record signed by another peer")
        if not self._key.verify(self._signature, _signed(self._payload)):
            raise EncodingError("a peer record with a wrong signature")
        return self.record


def read_envelope(envelope: bytes) -> SealedRecord:
    """Return the content of an envelope without a check of its signature. Raises `EncodingError`.

    Addresses that cannot be decoded are left out.
    """
    if len(envelope) > MAX_RECORD_BYTES:
        raise EncodingError(f"a peer record of {len(envelope)} bytes; at most {MAX_RECORD_BYTES} are allowed")
    encoded_key, kind, payload, signature = (value or b"" for value in last_values(envelope, 1, 2, 3, 5))
    key = PublicKey.decode(encoded_key)
    if kind != PAYLOAD_TYPE:
        raise EncodingError("the payload of an envelope is not a peer record")
    (peers, entries), [sequence] = values(payload, 1, 3), last_varints(payload, 2)
    addresses = [address for entry in entries[:MAX_ADDRESSES] for address in values(entry, 1)[0]]
    record = PeerRecord(_last(peers), sequence or 0, readable_addresses(addresses))
    return SealedRecord(record, key, payload, signature)


def _signed(payload: bytes) -> bytes:
    return frame(DOMAIN) + frame(PAYLOAD_TYPE) + frame(payload)


def readable_addresses(encoded: Iterable[bytes]) -> tuple[Multiaddr, ...]:
    """Return the decoded multiaddrs, but only the first `MAX_ADDRESSES`. Skip those that cannot be decoded."""
    addresses: list[Multiaddr] = []
    for each in encoded:
        if len(addresses) < MAX_ADDRESSES:
            with suppress(EncodingError):
                addresses.append(Multiaddr.decode(each))
    return tuple(addresses)


PROTOCOL = "/rendezvous/1.0.0"
MAX_MESSAGE_BYTES = 1 << 18
"""Maximum bytes of a message."""
MAX_NAMESPACE_BYTES = 255
DEFAULT_TTL_S, MAX_TTL_S = 2 * 3600, 72 * 3600
MAX_ANSWER = 100
"""Maximum number of registrations in an answer."""


class MessageType(IntEnum):
    REGISTER = 0
    REGISTER_RESPONSE = 1
    UNREGISTER = 2
    DISCOVER = 3
    DISCOVER_RESPONSE = 4


class Status(IntEnum):
    OK = 0
    INVALID_NAMESPACE = 100
    INVALID_RECORD = 101
    INVALID_TTL = 102
    INVALID_COOKIE = 103
    INTERNAL_ERROR = 300
    UNAVAILABLE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousMessage:
    """A message of any of the five types. Fields that do not belong to its type have their defaults."""

    type: MessageType
    namespace: str = ""
    record: bytes = b""
    ttl_s: int = 0
    status: int = Status.OK
    limit: int = 0
    cookie: bytes = b""
    records: tuple[bytes, ...] = ()


def encode_message(message: RendezvousMessage) -> bytes:
    name = bytes_field(1, message.namespace.encode()) if message.namespace else b""
    match message.type:
        case MessageType.REGISTER:
            inner = name + bytes_field(2, message.record) + varint_field(3, message.ttl_s)
        case MessageType.REGISTER_RESPONSE:
            inner = varint_field(1, message.status) + varint_field(3, message.ttl_s)
        case MessageType.UNREGISTER:
            inner = name
        case MessageType.DISCOVER:
            inner = name + varint_field(2, message.limit) + bytes_field(3, message.cookie)
        case MessageType.DISCOVER_RESPONSE:
            registered = [bytes_field(1, name + bytes_field(2, record)) for record in message.records]
            inner = b"".join(registered) + bytes_field(2, message.cookie) + varint_field(3, message.status)
    return varint_field(1, message.type) + bytes_field(message.type + 2, inner)


def decode_message(data: bytes) -> RendezvousMessage:
    """Return the message in `data`. Raises `EncodingError` if it is malformed."""
    kind = last_varints(data, 1)[0] or 0
    try:
        found = MessageType(kind)
    except ValueError:
        raise EncodingError(f"a rendezvous message of the unknown type {kind}") from None
    body = last_values(data, found + 2)[0] or b""
    first, second, third = (number or 0 for number in last_varints(body, 1, 2, 3))
    firsts, seconds, thirds = values(body, 1, 2, 3)
    match found:
        case MessageType.REGISTER:
            record = _last(seconds)
            return RendezvousMessage(type=found, namespace=_name_in(firsts), record=record, ttl_s=third)
        case MessageType.REGISTER_RESPONSE:
            return RendezvousMessage(type=found, status=first, ttl_s=third)
        case MessageType.UNREGISTER:
            return RendezvousMessage(type=found, namespace=_name_in(firsts))
        case MessageType.DISCOVER:
            return RendezvousMessage(type=found, namespace=_name_in(firsts), limit=second, cookie=_last(thirds))
        case MessageType.DISCOVER_RESPONSE:
            if len(firsts) > MAX_ANSWER:
                raise EncodingError(f"more than {MAX_ANSWER} registrations in an answer")
            records = tuple(_last(values(registration, 2)[0]) for registration in firsts)
            return RendezvousMessage(type=found, status=third, cookie=_last(seconds), records=records)


def unsigned_record(peer: PeerId, addresses: Iterable[Multiaddr]) -> bytes:
    """Return a record for points of the older protocol, which has no signature."""
    return bytes_field(1, peer) + b"".join(bytes_field(2, address.encode()) for address in addresses)


def open_unsigned(record: bytes) -> tuple[PeerId, tuple[Multiaddr, ...]]:
    """Return the peer and the addresses in a record of the older protocol. Raises `EncodingError`.

    Only a successful dial proves that an address belongs to the peer.
    """
    peers, addresses = values(record, 1, 2)
    return check_peer_id(_last(peers)), readable_addresses(addresses)


def _last(found: list[bytes]) -> bytes:
    return found[-1] if found else b""


def _name_in(names: list[bytes]) -> str:
    try:
        return _last(names).decode()
    except UnicodeDecodeError:
        raise EncodingError("a namespace that is not UTF-8") from None
