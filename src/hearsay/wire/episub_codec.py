"""Episub's parts to protobuf bytes and back: one message `EpisubPart` for all of them (`docs/reference/wire.md`).

Each part says its kind and uses the fields it needs; zeros are left out. Numbers that a peer says are bounded here
where they cost memory, and by the router where they mean something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from hearsay.core.language import episub_parts as said
from hearsay.core.language.episub_parts import EpisubPart, Role
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.sizes import EPISUB_KINDS, part_kind
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import check_peer_id
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, varint_field, walk
from hearsay.libp2p.names.protobuf import decode as decode_varint
from hearsay.libp2p.names.protobuf import encode as varint
from hearsay.wire.fields import RpcLimits, raw

(KIND, TOPIC, PEERS, TTL, PEER, SEQUENCE, ROLE, RANDOM, LINKS, RANDOM_LINKS, RTT, REFUSED, SKETCH, IDS, HOPS) = range(
    1, 16
)
MAX_SKETCH = 64
_NUMBERS = {
    "topic": TOPIC, "topics": TOPIC, "peers": PEERS, "ttl": TTL, "peer": PEER, "source": PEER, "sequence": SEQUENCE,
    "role": ROLE, "random": RANDOM, "links": LINKS, "random_links": RANDOM_LINKS, "rtt_us": RTT, "refused": REFUSED,
    "sketch": SKETCH, "ids": IDS, "hops": HOPS,
}  # fmt: skip
"""Field numbers by the names of fields."""
_CONVERTED: dict[str, Callable[[int], Any]] = {"role": Role, "random": bool, "refused": bool}
_PARTS: dict[int, type[Any]] = {int(kind): part for part, kind in EPISUB_KINDS.items()}
_WITHOUT_PEERS = (said.GetTopics, said.Topics)


def encode_part(part: EpisubPart) -> bytes:
    encoded = varint_field(KIND, part_kind(part))
    match part:
        case said.GetTopics():
            return encoded
        case said.Topics():
            return encoded + _repeated(TOPIC, part.topics)
        case _:
            encoded += bytes_field(TOPIC, raw(part.topic))
    match part:
        case said.Nodes():
            encoded += _repeated(PEERS, part.peers) + _number(TTL, part.ttl)
        case said.EpisubJoin() | said.ForwardJoin():
            encoded += _walk_of(part.peer, part.ttl, part.sequence)
        case said.EpisubLeave():
            encoded += _walk_of(part.source, part.ttl, part.sequence)
        case said.Neighbor():
            encoded += _number(ROLE, part.role) + _number(RANDOM, part.random) + _number(LINKS, part.links)
            encoded += _number(RANDOM_LINKS, part.random_links) + _number(RTT, part.rtt_us)
            encoded += _repeated(PEERS, part.peers)
        case said.Disconnect():
            encoded += _number(REFUSED, part.refused)
        case said.Shuffle():
            encoded += _walk_of(part.peer, part.ttl, part.sequence)
            encoded += _repeated(PEERS, part.peers) + _packed(SKETCH, part.sketch)
        case said.ShuffleReply():
            encoded += _number(SEQUENCE, part.sequence) + _repeated(PEERS, part.peers) + _packed(SKETCH, part.sketch)
        case said.EpisubIHave():
            encoded += _repeated(IDS, part.ids) + _packed(HOPS, part.hops)
        case said.EpisubGraft():
            encoded += _repeated(IDS, part.ids)
        case said.GetNodes() | said.EpisubPrune():
            pass
    return encoded


def decode_part(data: bytes, start: int, stop: int, limits: RpcLimits) -> EpisubPart | None:
    """Return the part at `start` … `stop`; None if it says nothing: an unknown kind, no topic, no peer, missing hops,
    or too long a name."""
    longest = {TOPIC: limits.max_topic_bytes, IDS: limits.max_id_bytes}
    numbers = dict.fromkeys((KIND, TTL, SEQUENCE, ROLE, RANDOM, LINKS, RANDOM_LINKS, RTT, REFUSED), 0)
    values: dict[int, list[bytes]] = {TOPIC: [], PEERS: [], PEER: [], SKETCH: [], IDS: [], HOPS: []}
    for number, wire_type, begin, end in walk(data, start, stop):
        if wire_type == VARINT and number in numbers:
            numbers[number] = begin
        elif wire_type == DELIMITED and number in values:
            if end - begin > longest.get(number, stop):
                return None
            values[number].append(data[begin:end])
    try:
        return _made(numbers, values)
    except (EncodingError, UnicodeDecodeError, ValueError):
        return None


def _made(numbers: dict[int, int], values: dict[int, list[bytes]]) -> EpisubPart | None:
    part = _PARTS.get(numbers[KIND])
    topics = tuple(value.decode() for value in values[TOPIC])
    if part is None:
        return None
    peers = () if part in _WITHOUT_PEERS else tuple(map(check_peer_id, values[PEERS]))
    made: dict[str, Any] = {}
    for name in (field.name for field in fields(part)):
        number = _NUMBERS[name]
        match name:
            case "topic":
                if not topics:
                    return None
                made[name] = topics[-1]
            case "topics":
                made[name] = topics
            case "peers":
                made[name] = peers
            case "peer" | "source":
                if not values[PEER]:
                    return None
                made[name] = check_peer_id(values[PEER][-1])
            case "ids":
                made[name] = tuple(values[IDS])
            case "hops":
                made[name] = _unpacked(values[HOPS], len(values[IDS]) + 1)
            case "sketch":
                made[name] = _unpacked(values[SKETCH], MAX_SKETCH)
            case _:
                made[name] = _CONVERTED.get(name, int)(numbers[number])
    if len(made.get("hops", ())) != len(made["ids"] if "hops" in made else ()):
        return None
    return part(**made)


def _walk_of(peer: Identifier, ttl: int, sequence: int) -> bytes:
    return bytes_field(PEER, raw(peer)) + _number(TTL, ttl) + _number(SEQUENCE, sequence)


def _number(number: int, value: int) -> bytes:
    return varint_field(number, value) if value else b""


def _repeated(number: int, values: Iterable[Identifier]) -> bytes:
    return b"".join([bytes_field(number, raw(value)) for value in values])


def _packed(number: int, values: tuple[int, ...]) -> bytes:
    return bytes_field(number, b"".join(map(varint, values))) if values else b""


def _unpacked(chunks: list[bytes], most: int) -> tuple[int, ...]:
    """The first numbers of a packed field, which may come in several chunks."""
    numbers: list[int] = []
    for chunk in chunks:
        offset = 0
        while offset < len(chunk) and len(numbers) < most:
            value, offset = decode_varint(chunk, offset, len(chunk))
            numbers.append(value)
    return tuple(numbers)
