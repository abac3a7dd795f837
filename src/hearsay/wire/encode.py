"""The encoder of RPCs as protobuf (proto2), and the splitting of RPCs that are larger than a limit.

The pubsub specification defines the RPC, gossipsub the control message, and gossipsub 1.1 the fields of PRUNE.
Topics are strings; peers and message ids are bytes. A message from a peer is forwarded with the bytes in
`Message.encoded`. `core/language/sizes.py` computes the lengths of encoded parts without encoding them.

Peers drop RPCs that are too large. Subscriptions and control have a lower limit, because go v0.19 resets the stream
of a peer that sends more. Parts keep their order, except features, which are in the first RPC. IHAVE, IWANT,
IDONTWANT, and episub's IHAVE and GRAFT, are cut between ids. Any other part that does not fit into an RPC of its own
is left out. A message that is left out is one of another node, since this node publishes no messages of this size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import (
    Control,
    ControlPart,
    ExtensionTest,
    Features,
    IDontWant,
    IHave,
    IWant,
    Message,
    Partial,
    PartialUse,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.language.sizes import field_size, identifier_size, message_size, part_sizes, rpc_size
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.wire.fields import EPISUB, HOPS, TEST_EXTENSION, RpcLimits, TooLarge, encode_part, raw

_PARTIAL_FLAGS = {PartialUse.NONE: b"", PartialUse.SUPPORTS: b"\x20\x01", PartialUse.REQUESTS: b"\x18\x01\x20\x01"}
"""Encoded fields 3 (requests partial messages) and 4 (supports them) of a SUBSCRIBE. As in go, a request implies
support."""
_PARTIAL_MESSAGES = varint_field(10, 1)
_TEST_EXTENSION = varint_field(TEST_EXTENSION, 1)
_Outside: TypeAlias = Subscription | Message | Partial | ExtensionTest
_Part: TypeAlias = _Outside | ControlPart
_WithIds: TypeAlias = IHave | IWant | IDontWant | EpisubIHave | EpisubGraft
MAX_CONTROL_BYTES = 512 << 10
"""Default limit of the bytes of subscriptions and control in one RPC."""
_CONTROL_OVERHEAD = 6
"""Maximum bytes of the protobuf tag and the length before the control message."""


def encode_rpc(rpc: Rpc) -> bytes:
    parts: list[bytes] = [bytes_field(1, _subscription(change)) for change in rpc.subscriptions]
    parts += [bytes_field(2, encode_message(message) + _hops(message)) for message in rpc.messages]
    if rpc.control is not None:
        parts.append(bytes_field(3, _control(rpc.control)))
    if rpc.partial is not None:
        parts.append(bytes_field(10, _partial(rpc.partial)))
    if rpc.test is not None:
        parts.append(bytes_field(TEST_EXTENSION, b""))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def encode_message(message: Message) -> bytes:
    """Return the encoded message without its hop count, which differs between copies of a message."""
    if message.encoded is not None:
        return message.encoded
    return signed_part(message) + _signature_and_key(message)


def signed_part(message: Message) -> bytes:
    """Return the encoded fields that a signature covers: all except signature, key and hop count.

    go-libp2p-pubsub also leaves out signature and key.
    """
    if message.encoded is not None:
        return message.encoded[: len(message.encoded) - len(_signature_and_key(message))]
    source = b"" if message.source is None else bytes_field(1, raw(message.source))
    content = bytes_field(2, message.data) + _optional(3, message.seqno)
    return source + content + bytes_field(4, raw(message.topic))


def _signature_and_key(message: Message) -> bytes:
    return _optional(5, message.signature) + _optional(6, message.key)


def _optional(number: int, value: bytes | None) -> bytes:
    return b"" if value is None else bytes_field(number, value)


def _hops(message: Message) -> bytes:
    """Return the encoded hop count, or no bytes if the message has none. Only episub's messages have one."""
    return b"" if message.hops is None else varint_field(HOPS, message.hops)


def _subscription(change: Subscription) -> bytes:
    flags = _PARTIAL_FLAGS[change.partial] if change.subscribe else b""
    return varint_field(1, change.subscribe) + bytes_field(2, raw(change.topic)) + flags


def _partial(partial: Partial) -> bytes:
    names = bytes_field(1, raw(partial.topic)) + bytes_field(2, partial.group)
    return names + _optional(3, partial.parts) + _optional(4, partial.metadata)


def _features(features: Features) -> bytes:
    return _PARTIAL_MESSAGES * features.partial_messages + _TEST_EXTENSION * features.test_extension


def _control(control: Control) -> bytes:
    parts = [bytes_field(1, bytes_field(1, raw(ihave.topic)) + _ids(2, ihave.ids)) for ihave in control.ihave]
    parts += [bytes_field(2, _ids(1, iwant.ids)) for iwant in control.iwant]
    parts += [bytes_field(3, bytes_field(1, raw(graft.topic))) for graft in control.graft]
    parts += [bytes_field(4, _prune(prune)) for prune in control.prune]
    parts += [bytes_field(5, _ids(1, idontwant.ids)) for idontwant in control.idontwant]
    parts += [bytes_field(6, _features(features)) for features in control.features]
    parts += [bytes_field(extension.field, extension.payload) for extension in control.extensions]
    parts += [bytes_field(EPISUB, encode_part(part)) for part in control.episub]
    return b"".join(parts)


def _prune(prune: Prune) -> bytes:
    encoded = bytes_field(1, raw(prune.topic))
    for known in prune.peers:
        encoded += bytes_field(2, bytes_field(1, raw(known.peer)) + _optional(2, known.record))
    return encoded if prune.backoff_s is None else encoded + varint_field(3, prune.backoff_s)


def _ids(number: int, ids: Iterable[Identifier]) -> bytes:
    return b"".join([bytes_field(number, raw(known)) for known in ids])


def check_topic(topic: str, limits: RpcLimits) -> None:
    """Raise `TooLarge` if the topic's name is too long, or `UnicodeEncodeError` if UTF-8 cannot encode it."""
    size = len(topic.encode())
    if size > limits.max_topic_bytes:
        raise TooLarge(f"a topic name of {size} bytes; at most {limits.max_topic_bytes} are allowed")


def check_fits(message: Message, limits: RpcLimits) -> None:
    """Raise `TooLarge` if the message does not fit into an RPC, or if its id is too long."""
    length, limit = identifier_size(message.id), limits.max_rpc_bytes
    if length > limits.max_id_bytes:
        raise TooLarge(f"a message id of {length} bytes; at most {limits.max_id_bytes} are allowed")
    size = message_size(message)
    whole = field_size(size)
    if whole > limit:
        raise TooLarge(f"a message of {whole} bytes with its signature; at most {limit} fit into an RPC")


def split_rpc(rpc: Rpc, limit: int, control_limit: int = MAX_CONTROL_BYTES) -> tuple[list[Rpc], list[Message]]:
    """Return RPCs within the limits that together have all fitting parts of `rpc`, and the messages that do not fit.

    `limit` is the maximum size of an RPC in bytes, and `control_limit` that of the subscriptions and control in it.
    """
    if rpc_size(rpc) <= min(limit, control_limit):
        return [rpc], []
    rpcs: list[Rpc] = []
    oversized: list[Message] = []
    room, control_room = limit, control_limit
    parts: list[_Part] = []
    for part, size in _pieces(rpc, min(limit, control_limit) - _CONTROL_OVERHEAD):
        needed = size if isinstance(part, _Outside) else size + _CONTROL_OVERHEAD
        counted = 0 if isinstance(part, Message | Partial | ExtensionTest) else needed
        if size > limit - _CONTROL_OVERHEAD and not (isinstance(part, Message) and size <= limit):
            if isinstance(part, Message):
                oversized.append(part)
            continue
        if counted > control_limit:
            continue
        if parts and (needed > room or counted > control_room):
            rpcs.append(_assembled(parts))
            parts, room, control_room = [], limit, control_limit
        parts.append(part)
        room -= needed
        control_room -= counted
    if parts:
        rpcs.append(_assembled(parts))
    return rpcs, oversized


def _pieces(rpc: Rpc, most: int) -> Iterator[tuple[_Part, int]]:
    """Yield the parts, each with its size in bytes. Cut larger parts that have ids into pieces of `most` bytes."""
    control = rpc.control or Control()
    single = (part for part in (rpc.partial, rpc.test) if part is not None)
    parts: list[_Part] = [*rpc.subscriptions, *rpc.messages, *single, *control.parts()]
    sized = zip(parts, part_sizes(rpc), strict=True)
    for part, (_, _, size, _) in sorted(sized, key=lambda entry: not isinstance(entry[0], Features)):
        if size > most and isinstance(part, _WithIds):
            yield from _cut(part, most)
        else:
            yield part, size


def _cut(part: _WithIds, most: int) -> Iterator[tuple[_Part, int]]:
    """Yield pieces of the part, each with its size in bytes. A piece has at most `most` bytes, or a single id."""
    size = part_sizes(Rpc(control=Control.of((part,))))[0][2]
    fitting = max(1, len(part.ids) * most // size)
    if size <= most or fitting >= len(part.ids):
        yield part, size
        return
    for piece in (slice(fitting), slice(fitting, None)):
        shorter = replace(part, ids=part.ids[piece])
        if isinstance(shorter, EpisubIHave) and isinstance(part, EpisubIHave):
            shorter = replace(shorter, hops=part.hops[piece])
        yield from _cut(shorter, most)


def _assembled(parts: list[_Part]) -> Rpc:
    control = Control.of(part for part in parts if not isinstance(part, _Outside))
    return Rpc(
        tuple(part for part in parts if isinstance(part, Subscription)),
        tuple(part for part in parts if isinstance(part, Message)),
        control if control != Control() else None,
        next((part for part in parts if isinstance(part, Partial)), None),
        next((part for part in parts if isinstance(part, ExtensionTest)), None),
    )
