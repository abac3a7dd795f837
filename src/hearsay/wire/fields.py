"""The limits of an RPC, and the fields that no specification defines.

The module has four subjects, in this order:

* Limits: the limits of one RPC, and the errors of RPCs, topics and messages beyond them.
* Identifiers: the bytes of a topic, a peer or a message id.
* Experimental fields: the numbers of fields that only hearsay has, and of go's test extension. Experimental fields
  have numbers above 0x200000 (gossipsub v1.3). Earlier versions of hearsay used the same numbers without this addend.
  Decoders still accept these lower numbers for hearsay's own fields.
* Episub's parts: their encoder and decoder. All parts share one protobuf message, `EpisubPart`
  (`docs/reference/wire.md`). An encoded part consists of its kind, and of the fields of the part's class in their
  order there. A number that is 0 is left out. The decoder limits the size of a part; the router checks the values of
  received numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Any

from hearsay.core.language.episub_parts import EpisubPart, Role
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, FIRST_EXTENSION_FIELD
from hearsay.core.language.sizes import EPISUB_KINDS, part_kind
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import check_peer_id
from hearsay.libp2p.names.protobuf import bytes_field, last_varints, values, varint_field
from hearsay.libp2p.names.protobuf import decode as decode_varint
from hearsay.libp2p.names.protobuf import encode as varint

# Limits.


class WireError(Exception):
    """The error of a peer's RPC that is malformed or exceeds a limit. The whole RPC is dropped."""


class TooLarge(ValueError):
    """The error of a topic or message of this node that exceeds a limit of RPCs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Limits of one RPC. Numbers of parts are checked before objects are built, so that many small parts cost little.

    The default of `max_rpc_bytes` is that of go-libp2p-pubsub, 1 MiB; peers drop larger RPCs. In a received RPC,
    parts with a longer topic than `max_topic_bytes` are left out. Ids longer than `max_id_bytes` are left out of
    IHAVE, IWANT and IDONTWANT. A message, a partial message or a part of episub with such an id or group is left out
    itself.
    """

    max_rpc_bytes: int = 1 << 20
    max_subscriptions: int = 20_000
    max_messages: int = 10_000
    max_control: int = 20_000
    max_ids: int = 50_000
    max_exchanged_peers: int = 1_000
    max_topic_bytes: int = 1_024
    max_id_bytes: int = 256


# Identifiers.


def raw(identifier: Identifier) -> bytes:
    """Return the bytes of an identifier, which is a string or bytes. Raises `TypeError` for a number."""
    if isinstance(identifier, bytes):
        return identifier
    if isinstance(identifier, str):
        return identifier.encode()
    raise TypeError(f"{identifier!r} cannot be encoded: numbers are identifiers only in simulations")


# Experimental fields.

TEST_EXTENSION = 6_492_434
"""The field number of go's test extension: in the control extensions, and for the extension's message in an RPC."""
HOPS = EXPERIMENTAL_FIELDS + 7
"""The field of a message for the hop count."""
EPISUB = EXPERIMENTAL_FIELDS + 7
"""The field of the control message for episub's parts."""


def is_hops(number: int) -> bool:
    return number in (HOPS, HOPS - EXPERIMENTAL_FIELDS)


def is_episub(number: int) -> bool:
    return number in (EPISUB, EPISUB - EXPERIMENTAL_FIELDS)


def extension_number(number: int) -> int | None:
    """Return the number of a control field for routers of other packages; None if they cannot use this field.

    A field number of earlier versions of hearsay is converted to the present number.
    """
    if FIRST_EXTENSION_FIELD - EXPERIMENTAL_FIELDS <= number <= EXPERIMENTAL_FIELDS:
        number += EXPERIMENTAL_FIELDS
    return number if number >= FIRST_EXTENSION_FIELD else None


# Episub's parts.

(KIND, TOPIC, PEERS, TTL, PEER, SEQUENCE, ROLE, RANDOM, LINKS, RANDOM_LINKS, RTT, REFUSED, SKETCH, IDS, PART_HOPS) = (
    range(1, 16)
)
"""Field numbers in `EpisubPart`."""
_VARINTS = (KIND, TTL, SEQUENCE, ROLE, RANDOM, LINKS, RANDOM_LINKS, RTT, REFUSED)
_BYTES = (TOPIC, PEERS, PEER, SKETCH, IDS, PART_HOPS)
"""The fields that are numbers, and the length-delimited fields."""
MAX_SKETCH = 64
"""Maximum number of hashes that are read of a sketch; the others are ignored."""
_NUMBERS = {
    "topic": TOPIC, "topics": TOPIC, "peers": PEERS, "ttl": TTL, "peer": PEER, "source": PEER, "sequence": SEQUENCE,
    "role": ROLE, "random": RANDOM, "links": LINKS, "random_links": RANDOM_LINKS, "rtt_us": RTT, "refused": REFUSED,
    "sketch": SKETCH, "ids": IDS, "hops": PART_HOPS,
}  # fmt: skip
"""The field number of each field of the parts' classes, by name."""
_FROM_BYTES: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("topic", "topics"), bytes.decode),
    **dict.fromkeys(("peer", "source", "peers"), check_peer_id),
    "ids": bytes,
}
"""Functions that convert the bytes of a field, by field name. A field whose name ends in `s` is repeated."""
_PACKED = frozenset(("hops", "sketch"))
"""The fields with packed numbers."""
_FROM_NUMBER: dict[str, Callable[[int], Any]] = {"role": Role, "random": bool, "refused": bool}
"""Functions that convert the number of a field, by field name. All other numbers are integers."""
_PARTS: dict[int, type[Any]] = {int(kind): part for part, kind in EPISUB_KINDS.items()}
"""The class of each kind of part."""
_NAMES = {part: tuple(field.name for field in fields_of(part)) for part in EPISUB_KINDS}


def encode_part(part: EpisubPart) -> bytes:
    encoded = [varint_field(KIND, part_kind(part))]
    for name in _NAMES[type(part)]:
        number, value = _NUMBERS[name], getattr(part, name)
        if name in _FROM_BYTES:
            encoded += [bytes_field(number, raw(each)) for each in (value if name.endswith("s") else (value,))]
        elif value and name in _PACKED:
            encoded.append(bytes_field(number, b"".join(map(varint, value))))
        elif value:
            encoded.append(varint_field(number, value))
    return b"".join(encoded)


def decode_part(encoded: bytes, limits: RpcLimits) -> EpisubPart | None:
    """Return the part in the bytes `encoded`.

    Return None if its kind is unknown, if a topic or peer is missing, if the value of a field is malformed, if the
    numbers of ids and hop counts differ, or if a topic or id is too long. Raises `EncodingError` if the bytes are not
    protobuf.
    """
    numbers = dict(zip(_VARINTS, last_varints(encoded, *_VARINTS), strict=True))
    given = dict(zip(_BYTES, values(encoded, *_BYTES), strict=True))
    part = _PARTS.get(numbers[KIND] or 0)
    topics, ids = (max(map(len, given[number]), default=0) for number in (TOPIC, IDS))
    if part is None or topics > limits.max_topic_bytes or ids > limits.max_id_bytes:
        return None
    fields: dict[str, Any] = {}
    try:
        for name in _NAMES[part]:
            number = _NUMBERS[name]
            if name in _PACKED:
                most = MAX_SKETCH if name == "sketch" else len(given[IDS]) + 1
                fields[name] = _unpacked(given[number], most)
            elif name not in _FROM_BYTES:
                fields[name] = _FROM_NUMBER.get(name, int)(numbers[number] or 0)
            elif name.endswith("s"):
                fields[name] = tuple(map(_FROM_BYTES[name], given[number]))
            else:
                fields[name] = _FROM_BYTES[name](given[number][-1])
    except (EncodingError, IndexError, ValueError):
        return None
    if "hops" in fields and len(fields["hops"]) != len(fields["ids"]):
        return None
    return part(**fields)


def _unpacked(chunks: list[bytes], most: int) -> tuple[int, ...]:
    """Return the numbers of a packed field, which may consist of several chunks, but at most the first `most`."""
    numbers: list[int] = []
    for chunk in chunks:
        offset = 0
        while offset < len(chunk) and len(numbers) < most:
            value, offset = decode_varint(chunk, offset, len(chunk))
            numbers.append(value)
    return tuple(numbers)
