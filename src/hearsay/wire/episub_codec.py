"""Encoding and decoding of episub's parts, which share one protobuf message `EpisubPart` (`docs/reference/wire.md`).

An encoded part has its kind and the fields of its class, in order; zeros are left out. This module limits the size of
received data; the router checks the values of received numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from hearsay.core.language.episub_parts import EpisubPart, Role
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
"""Field numbers by field name."""
_READ: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("topic", "topics"), bytes.decode),
    **dict.fromkeys(("peer", "source", "peers"), check_peer_id),
    "ids": bytes,
}
"""Conversions of fields with text or bytes, by field name. Names of repeated fields end in `s`."""
_PACKED = frozenset(("hops", "sketch"))
_CONVERTED: dict[str, Callable[[int], Any]] = {"role": Role, "random": bool, "refused": bool}
_PARTS: dict[int, type[Any]] = {int(kind): part for part, kind in EPISUB_KINDS.items()}
_NAMES = {part: tuple(field.name for field in fields(part)) for part in EPISUB_KINDS}


def encode_part(part: EpisubPart) -> bytes:
    encoded = [varint_field(KIND, part_kind(part))]
    for name in _NAMES[type(part)]:
        number, value = _NUMBERS[name], getattr(part, name)
        if name in _READ:
            encoded += [bytes_field(number, raw(each)) for each in (value if name.endswith("s") else (value,))]
        elif value and name in _PACKED:
            encoded.append(bytes_field(number, b"".join(map(varint, value))))
        elif value:
            encoded.append(varint_field(number, value))
    return b"".join(encoded)


def decode_part(data: bytes, start: int, stop: int, limits: RpcLimits) -> EpisubPart | None:
    """Return the part at `start` … `stop`; None if its kind is unknown, a topic, peer or hop count is missing, or a
    name is too long."""
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
    except (EncodingError, IndexError, ValueError):
        return None


def _made(numbers: dict[int, int], values: dict[int, list[bytes]]) -> EpisubPart | None:
    part = _PARTS.get(numbers[KIND])
    if part is None:
        return None
    said: dict[str, Any] = {}
    for name in _NAMES[part]:
        number = _NUMBERS[name]
        if name in _PACKED:
            said[name] = _unpacked(values[number], MAX_SKETCH if name == "sketch" else len(values[IDS]) + 1)
        elif name not in _READ:
            said[name] = _CONVERTED.get(name, int)(numbers[number])
        elif name.endswith("s"):
            said[name] = tuple(map(_READ[name], values[number]))
        else:
            said[name] = _READ[name](values[number][-1])
    if "hops" in said and len(said["hops"]) != len(said["ids"]):
        return None
    return part(**said)


def _unpacked(chunks: list[bytes], most: int) -> tuple[int, ...]:
    """Return at most `most` numbers of a packed field, which may consist of several chunks."""
    numbers: list[int] = []
    for chunk in chunks:
        offset = 0
        while offset < len(chunk) and len(numbers) < most:
            value, offset = decode_varint(chunk, offset, len(chunk))
            numbers.append(value)
    return tuple(numbers)
