"""Sizes in bytes: of RPCs on the wire, computed without encoding the RPCs, and of stored objects in memory.

Wire sizes are those of protobuf (proto2). The fields of the pubsub RPC (r1, "The protobuf is as follows") have
numbers below 16, so their tags take one byte; tags of experimental fields take four bytes or more. The array engine
compiles the functions of plain numbers. The simulator names peers and messages by integers. Such an integer has the
size of the usual name in a real network (`SIMULATED_*`).

Memory sizes are for limits in bytes. The constants were measured on CPython 3.11 and rounded up. They include the
dictionary entries of an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias, get_args

from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave, EpisubPart, GetTopics, Topics
from hearsay.core.language.identifiers import Identifier, TopicId
from hearsay.core.language.rpc import Message, Partial, PartialUse, PartKind, Prune, Rpc

SIMULATED_PEER_BYTES = 38
"""Length of an Ed25519 peer id: an identity multihash of the 36-byte public key."""
SIMULATED_MESSAGE_ID_BYTES = SIMULATED_PEER_BYTES + 8
"""Length of the usual message id: the peer id of the author, then the 8-byte sequence number."""
SIMULATED_SEQNO_BYTES = 8
SIMULATED_SIGNATURE_BYTES = 64


def varint_size(value: int) -> int:
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


def field_size(length: int) -> int:
    """Return the size of a length-delimited field with a one-byte tag."""
    return 1 + varint_size(length) + length


def number_size(value: int) -> int:
    """Return the size of a varint field with a one-byte tag."""
    return 1 + varint_size(value)


SIMULATED_PEER_INFO = field_size(field_size(SIMULATED_PEER_BYTES))
"""Size of the field that names one simulated peer in a PRUNE."""
SIMULATED_ID_FIELD = field_size(SIMULATED_MESSAGE_ID_BYTES)


_LONGER_TAG = 3
"""Bytes by which the tag of an experimental field is longer than a tag of one byte."""


# Sizes of parts as fields of the RPC or of its control message, tag and length included. The argument `topic` is the
# size of the field with the topic, `ids` the total size of the fields with ids.


def subscription_size(topic: int) -> int:
    """Return the size of a SUBSCRIBE or UNSUBSCRIBE; `topic` includes the flags for partial messages."""
    return field_size(2 + topic)


def ihave_size(topic: int, ids: int) -> int:
    return field_size(topic + ids)


def prune_size(topic: int, names_backoff: bool, seconds: int, peers: int) -> int:
    """Return the size of a PRUNE. `peers` is the total size of the fields that name other peers; `seconds` is unused
    if the PRUNE names no backoff."""
    return field_size(topic + peers + (number_size(seconds) if names_backoff else 0))


def episub_size(fields: int) -> int:
    """Return the size of a part of episub; `fields` is the total size of its fields except the kind."""
    return field_size(2 + fields) + _LONGER_TAG


def rpc_size_of_parts(outside: int, has_control: bool, control: int) -> int:
    """Return the size of an RPC. `outside` is the total size of the parts outside of its control message, `control`
    that of the control parts."""
    return outside + field_size(control) if has_control else outside


def framed_size(rpc: int) -> int:
    """Return the size on a stream of an RPC and of the length that precedes the RPC; `rpc` is the size of the RPC."""
    return rpc + varint_size(rpc)


def identifier_size(identifier: Identifier) -> int:
    if isinstance(identifier, int):
        return SIMULATED_PEER_BYTES
    return len(identifier.encode()) if isinstance(identifier, str) else len(identifier)


def _name_field(identifier: Identifier) -> int:
    """Return the size of the field with the name of a peer or topic."""
    return field_size(identifier_size(identifier))


def _id_fields(ids: tuple[Identifier, ...]) -> int:
    if ids and isinstance(ids[0], int):
        return len(ids) * SIMULATED_ID_FIELD  # all ids of a run have the same type
    return sum(field_size(identifier_size(known)) for known in ids)


def hops_size(hops: int) -> int:
    """Return the size of the field with the hop count of a message."""
    return number_size(hops) + _LONGER_TAG


def message_size(message: Message) -> int:
    """Return the size of a `Message` without tag and length.

    A message with an integer source has the size of a signed message. If the message has `encoded` bytes, the result
    is their length plus the size of the hop count.
    """
    hops = 0 if message.hops is None else hops_size(message.hops)
    if message.encoded is not None:
        return len(message.encoded) + hops
    size = hops + field_size(len(message.data)) + _name_field(message.topic)
    if message.source is not None:
        size += _name_field(message.source)
    if isinstance(message.source, int):
        return size + field_size(SIMULATED_SEQNO_BYTES) + field_size(SIMULATED_SIGNATURE_BYTES)
    for part in (message.seqno, message.signature, message.key):
        if part is not None:
            size += field_size(len(part))
    return size


PartSize: TypeAlias = tuple[PartKind, TopicId | None, int, int]
"""A part of an RPC: kind, topic, size and count. The size is that of a field, with tag and length. The count is the
number of ids of an IHAVE, IWANT, IDONTWANT or a GRAFT of episub, which may be 0; otherwise the count is 1."""


def use_size(use: int) -> int:
    """Return the size of the flags for partial messages in a SUBSCRIBE: no flag for the use 0 (none), one flag for 1
    (supports), two flags for 2 (requests)."""
    return 2 * use


_FLAG_BYTES = {use: use_size(number) for number, use in enumerate(PartialUse)}
_FEATURE_BYTES = 2
_TEST_FEATURE_BYTES = 5
TEST_MESSAGE_BYTES = 5


def part_sizes(rpc: Rpc) -> list[PartSize]:
    """Return kind, topic, size and count of each part of an RPC: first the parts outside of control, then the control
    parts."""
    parts: list[PartSize] = []
    for change in rpc.subscriptions:
        kind = PartKind.SUBSCRIBE if change.subscribe else PartKind.UNSUBSCRIBE
        size = subscription_size(_name_field(change.topic) + (_FLAG_BYTES[change.partial] if change.subscribe else 0))
        parts.append((kind, change.topic, size, 1))
    for message in rpc.messages:
        parts.append((PartKind.PUBLISH, message.topic, field_size(message_size(message)), 1))
    if rpc.partial is not None:
        parts.append(_partial_size(rpc.partial))
    if rpc.test is not None:
        parts.append((PartKind.EXTENSION, None, TEST_MESSAGE_BYTES, 1))
    control = rpc.control
    if control is not None:
        for ihave in control.ihave:
            size = ihave_size(_name_field(ihave.topic), _id_fields(ihave.ids))
            parts.append((PartKind.IHAVE, ihave.topic, size, len(ihave.ids)))
        for iwant in control.iwant:
            parts.append((PartKind.IWANT, None, field_size(_id_fields(iwant.ids)), len(iwant.ids)))
        for graft in control.graft:
            parts.append((PartKind.GRAFT, graft.topic, field_size(_name_field(graft.topic)), 1))
        for prune in control.prune:
            parts.append((PartKind.PRUNE, prune.topic, _prune_size(prune), 1))
        for extension in control.extensions:
            tag = varint_size(extension.field << 3 | 2)
            parts.append((PartKind.EXTENSION, None, tag - 1 + field_size(len(extension.payload)), 1))
        for unwanted in control.idontwant:
            parts.append((PartKind.IDONTWANT, None, field_size(_id_fields(unwanted.ids)), len(unwanted.ids)))
        for features in control.features:
            size = features_size(features.partial_messages, features.test_extension)
            parts.append((PartKind.FEATURES, None, size, 1))
        for part in control.episub:
            parts.append(episub_part_size(part))
    return parts


def partial_kind(partial: Partial) -> PartKind:
    """Return the kind of a partial message in counters and traces: METADATA if it has no parts, otherwise PARTIAL."""
    return PartKind.METADATA if partial.parts is None else PartKind.PARTIAL


def features_size(exchanges_parts: bool, tests: bool) -> int:
    return field_size(_FEATURE_BYTES * exchanges_parts + _TEST_FEATURE_BYTES * tests)


def partial_size(topic: int, group: int, parts: int, metadata: int) -> int:
    """Return the size of a partial message.

    `topic` is the size of the field with the topic. `group`, `parts` and `metadata` are lengths; -1 stands for
    missing parts or metadata.
    """
    size = topic + field_size(group)
    if parts >= 0:
        size += field_size(parts)
    if metadata >= 0:
        size += field_size(metadata)
    return field_size(size)


def _partial_size(partial: Partial) -> PartSize:
    parts, metadata = (-1 if value is None else len(value) for value in (partial.parts, partial.metadata))
    size = partial_size(_name_field(partial.topic), len(partial.group), parts, metadata)
    return partial_kind(partial), partial.topic, size, 1


EPISUB_KINDS: dict[type[EpisubPart], PartKind] = {
    part: PartKind[part.__name__.removeprefix("Episub").upper()] for part in get_args(EpisubPart)
}
"""The kind of each class of episub's parts. The name of a kind is the name of the class in upper case, without
`Episub`."""


def part_kind(part: EpisubPart) -> PartKind:
    """Return the kind of a part of episub in counters and traces."""
    return EPISUB_KINDS[type(part)]


def _number_field(value: int) -> int:
    """Return the size of a varint field with a one-byte tag; 0 for the value 0, which is not encoded."""
    return number_size(value) if value else 0


def packed_size(length: int) -> int:
    """Return the size of a packed field of numbers, which have the total size `length`; 0 if there are no numbers."""
    return field_size(length) if length else 0


def _packed_field(values: tuple[int, ...]) -> int:
    return packed_size(sum(map(varint_size, values)))


def _peer_fields(peers: tuple[Identifier, ...]) -> int:
    return sum(map(_name_field, peers))


_EPISUB_FIELDS: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("topic", "peer", "source"), _name_field),
    **dict.fromkeys(("topics", "peers"), _peer_fields),
    **dict.fromkeys(("hops", "sketch"), _packed_field),
    "ids": _id_fields,
}
"""By the name of a field of episub's parts: the function that returns the size of the field. All other fields are
numbers."""
_FIELDS_OF = {kind: tuple(field.name for field in fields(kind)) for kind in EPISUB_KINDS}


def episub_part_size(part: EpisubPart) -> PartSize:
    """Return kind, topic, size and count of an `EpisubPart` (`docs/reference/wire.md`)."""
    size = sum(_EPISUB_FIELDS.get(name, _number_field)(getattr(part, name)) for name in _FIELDS_OF[type(part)])
    count = len(part.ids) if isinstance(part, EpisubIHave | EpisubGraft) else 1
    topic = None if isinstance(part, GetTopics | Topics) else part.topic
    return part_kind(part), topic, episub_size(size), count


def _prune_size(prune: Prune) -> int:
    peers = 0
    for known in prune.peers:
        record = 0 if known.record is None else field_size(len(known.record))
        peers += field_size(_name_field(known.peer) + record)
    return prune_size(_name_field(prune.topic), prune.backoff_s is not None, prune.backoff_s or 0, peers)


def rpc_size(rpc: Rpc) -> int:
    """Return the size of an RPC as a protobuf message."""
    return _size_with_control(rpc, part_sizes(rpc))


def rpc_framed_size(rpc: Rpc, parts: list[PartSize]) -> int:
    """Return the size of an RPC on a stream, with the length that precedes it; `parts` is `part_sizes(rpc)`."""
    return framed_size(_size_with_control(rpc, parts))


def _size_with_control(rpc: Rpc, parts: list[PartSize]) -> int:
    outside = len(rpc.subscriptions) + len(rpc.messages) + (rpc.partial is not None) + (rpc.test is not None)
    sizes = [size for _, _, size, _ in parts]
    return rpc_size_of_parts(sum(sizes[:outside]), rpc.control is not None, sum(sizes[outside:]))


MESSAGE_BYTES = 512
"""Memory of a message without the content of its fields."""
SEEN_BYTES = 230
"""Memory of an id in the seen cache, without the content of the id."""
SUBSCRIPTION_BYTES = 170
"""Memory of a subscription of a peer, without the content of the topic's name."""
TOPIC_VIEW_BYTES = 400
"""Memory of a topic that has subscribers, without the memory of their subscriptions."""
_NUMBER_BYTES = 32


def length_of(identifier: Identifier) -> int:
    """Return the bytes of memory for the content of an identifier. Each character of a non-ASCII text counts as four
    bytes, the maximum."""
    if type(identifier) is bytes:  # most common
        return len(identifier)
    if isinstance(identifier, int):
        return _NUMBER_BYTES
    if isinstance(identifier, str) and not identifier.isascii():
        return 4 * len(identifier)
    return len(identifier)


def message_footprint(message: Message) -> int:
    """Return the memory of a message in bytes, with the content of its fields and its `encoded` bytes."""
    size = MESSAGE_BYTES + len(message.data) + length_of(message.id) + length_of(message.topic)
    if message.source is not None:
        size += length_of(message.source)
    for part in (message.seqno, message.signature, message.key, message.encoded):
        if part is not None:
            size += len(part)
    return size
