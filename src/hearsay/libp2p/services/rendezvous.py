"""Rendezvous: peers register under a namespace at a point they all know, and ask it who else did (libp2p specs).

Rules:

* A stream carries length-prefixed messages `{type = 1, register = 2, registerResponse = 3, unregister = 4,
  discover = 5, discoverResponse = 6}`; every REGISTER and DISCOVER is answered.
* A registration is a signed peer record of the requesting peer, for `ttl` seconds (default: two hours).
  Points that know the older form of the protocol only, py-libp2p's for one, want `{id = 1, addrs = 2}` in its place.
* A DISCOVER is answered with registrations and a cookie; with that cookie, the next answer goes on from there.

`hearsay.libp2p.services.rendezvous_streams` has the registry of a point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, check_peer_id
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, varint_field, walk
from hearsay.libp2p.services.peer_record import read_addresses

PROTOCOL = "/rendezvous/1.0.0"
MAX_MESSAGE_BYTES = 1 << 18
"""The reason in an answer."""
MAX_NAMESPACE_BYTES = 255
DEFAULT_TTL_S, MAX_TTL_S = 2 * 3600, 72 * 3600
MAX_ANSWER = 100
"""Registrations in an answer."""


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
    """Any of the five; fields that a type does not have stay empty."""

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
    """The message in `data`, or `EncodingError`."""
    kind, bodies = 0, dict[int, tuple[int, int]]()
    for number, wire_type, start, stop in walk(data, 0, len(data)):
        if number == 1 and wire_type == VARINT:
            kind = start
        elif wire_type == DELIMITED:
            bodies[number] = (start, stop)
    try:
        found = MessageType(kind)
    except ValueError:
        raise EncodingError(f"a rendezvous message of type {kind}") from None
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
    """Return the form of a peer record that older points accept."""
    return bytes_field(1, peer) + b"".join(bytes_field(2, address.encode()) for address in addresses)


def open_unsigned(record: bytes) -> tuple[PeerId, tuple[Multiaddr, ...]]:
    """Return the peer of a registration in the older form: a claim until it is dialled."""
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
