"""Rendezvous (libp2p specs): peers register in a namespace at a known point, and ask the point for other peers.

Rules:

* A stream carries length-prefixed messages `{type = 1, register = 2, registerResponse = 3, unregister = 4,
  discover = 5, discoverResponse = 6}`; every REGISTER and DISCOVER is answered.
* A registration is a signed peer record of the requesting peer, for `ttl` seconds (default: two hours).
  Points of the older protocol, such as that of py-libp2p, expect `{id = 1, addrs = 2}` instead.
* A DISCOVER is answered with registrations and a cookie. A DISCOVER with this cookie gets the next registrations.

`hearsay.libp2p.services.rendezvous_streams` has the registry of a point.

Peer exchange in PRUNE and identify also carry signed peer records (libp2p RFCs 2 and 3). An envelope is
`{public_key = 1, payload_type = 2, payload = 3, signature = 5}`. The signature covers domain, type and payload, each
with its length before it. The payload is `{peer_id = 1, seq = 2, addresses = 3 {multiaddr = 1}}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hearsay.libp2p.limits.frames import frame
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, check_peer_id, peer_id_of
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, varint_field, walk

DOMAIN = b"libp2p-peer-record"
PAYLOAD_TYPE = b"\x03\x01"
MAX_RECORD_BYTES = 8192
MAX_ADDRESSES = 64


@dataclass(frozen=True, slots=True)
class PeerRecord:
    peer: PeerId
    sequence: int
    addresses: tuple[Multiaddr, ...]


def seal_record(identity: PrivateKey, record: PeerRecord) -> bytes:
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
    if len(envelope) > MAX_RECORD_BYTES:
        raise EncodingError(f"a peer record of {len(envelope)} bytes; at most {MAX_RECORD_BYTES} are allowed")
    parts = {1: b"", 2: b"", 3: b"", 5: b""}
    for number, wire_type, start, stop in walk(envelope, 0, len(envelope)):
        if wire_type == DELIMITED and number in parts:
            parts[number] = envelope[start:stop]
    key = PublicKey.decode(parts[1])
    if parts[2] != PAYLOAD_TYPE:
        raise EncodingError("the payload of an envelope is not a peer record")
    return SealedRecord(_read_payload(parts[3]), key, parts[3], parts[5])


def _signed(payload: bytes) -> bytes:
    return frame(DOMAIN) + frame(PAYLOAD_TYPE) + frame(payload)


def _read_payload(payload: bytes) -> PeerRecord:
    peer, sequence = b"", 0
    addresses: list[Multiaddr] = []
    for number, wire_type, start, stop in walk(payload, 0, len(payload)):
        if number == 1 and wire_type == DELIMITED:
            peer = payload[start:stop]
        elif number == 2 and wire_type == VARINT:
            sequence = start
        elif number == 3 and wire_type == DELIMITED and len(addresses) < MAX_ADDRESSES:
            addresses += read_addresses(payload, start, stop, 1)
    return PeerRecord(peer, sequence, tuple(addresses[:MAX_ADDRESSES]))


def read_addresses(data: bytes, start: int, stop: int, number: int) -> list[Multiaddr]:
    """Return the multiaddrs in field `number` of the message at `start` … `stop`. Skip malformed multiaddrs."""
    addresses: list[Multiaddr] = []
    for field, wire_type, begin, end in walk(data, start, stop):
        if field == number and wire_type == DELIMITED and len(addresses) < MAX_ADDRESSES:
            try:
                addresses.append(Multiaddr.decode(data[begin:end]))
            except EncodingError:
                continue
    return addresses


PROTOCOL = "/rendezvous/1.0.0"
MAX_MESSAGE_BYTES = 1 << 18
"""Maximum bytes of a message."""
MAX_NAMESPACE_BYTES = 255
DEFAULT_TTL_S, MAX_TTL_S = 2 * 3600, 72 * 3600
MAX_ANSWER = 100
"""Maximum registrations in an answer."""


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
    UNAVAILABLE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousMessage:
    """A message of any of the five types. Fields that its type does not have are empty."""

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
    kind, bodies = 0, dict[int, tuple[int, int]]()
    for number, wire_type, start, stop in walk(data, 0, len(data)):
        if number == 1 and wire_type == VARINT:
            kind = start
        elif wire_type == DELIMITED:
            bodies[number] = (start, stop)
    try:
        found = MessageType(kind)
    except ValueError:
        raise EncodingError(f"a rendezvous message of the unknown type {kind}") from None
    start, stop = bodies.get(found + 2, (0, 0))
    numbers: dict[int, int] = {}
    values: dict[int, bytes] = {}
    records: list[bytes] = []
    for number, wire_type, begin, end in walk(data, start, stop):
        if wire_type == VARINT:
            numbers[number] = begin
        elif wire_type == DELIMITED and found is MessageType.DISCOVER_RESPONSE and number == 1:
            records.append(_record_of(data, begin, end))
            if len(records) > MAX_ANSWER:
                raise EncodingError(f"more than {MAX_ANSWER} registrations in an answer")
        elif wire_type == DELIMITED:
            values[number] = data[begin:end]
    asks = found not in (MessageType.REGISTER_RESPONSE, MessageType.DISCOVER_RESPONSE)
    register = found is MessageType.REGISTER
    cookie = values.get({MessageType.DISCOVER: 3, MessageType.DISCOVER_RESPONSE: 2}.get(found, 0), b"")
    return RendezvousMessage(
        type=found,
        namespace=_name_of(values.get(1, b"")) if asks else "",
        record=values.get(2, b"") if register else b"",
        ttl_s=numbers.get(3, 0) if found in (MessageType.REGISTER, MessageType.REGISTER_RESPONSE) else 0,
        status=numbers.get({MessageType.REGISTER_RESPONSE: 1, MessageType.DISCOVER_RESPONSE: 3}.get(found, 0), 0),
        limit=numbers.get(2, 0) if found is MessageType.DISCOVER else 0,
        cookie=cookie,
        records=tuple(records),
    )


def unsigned_record(peer: PeerId, addresses: Iterable[Multiaddr]) -> bytes:
    """Return a registration in the older form, which has no signature."""
    return bytes_field(1, peer) + b"".join(bytes_field(2, address.encode()) for address in addresses)


def open_unsigned(record: bytes) -> tuple[PeerId, tuple[Multiaddr, ...]]:
    """Return the peer and addresses of a registration in the older form, which are unproven until a dial succeeds."""
    peer = b""
    for number, wire_type, start, stop in walk(record, 0, len(record)):
        if number == 1 and wire_type == DELIMITED:
            peer = record[start:stop]
    return check_peer_id(peer), tuple(read_addresses(record, 0, len(record), 2))


def _record_of(data: bytes, start: int, stop: int) -> bytes:
    record = b""
    for number, wire_type, begin, end in walk(data, start, stop):
        if number == 2 and wire_type == DELIMITED:
            record = data[begin:end]
    return record


def _name_of(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EncodingError("a namespace that is not UTF-8") from None
