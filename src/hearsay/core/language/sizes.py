"""Sizes of RPCs on the wire, without encoding them, and of stored objects in memory.

Wire sizes are those of protobuf (proto2). Field numbers are those of the pubsub RPC (r1, "The protobuf is as
follows"), all below 16, so a tag takes one byte. The functions over plain numbers are compiled by the array engine's
kernels. The simulator names peers and messages by integers; these count with the default length of the real names
(`SIMULATED_*`).

Memory sizes are for limits in bytes. The constants were measured on CPython 3.11, with the dictionary entries of an
object, and rounded up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

from hearsay.core.language import episub_parts as said
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.identifiers import Identifier, TopicId
from hearsay.core.language.rpc import Message, Partial, PartialUse, PartKind, Prune, Rpc

SIMULATED_PEER_BYTES = 38
"""An Ed25519 peer id: an identity multihash of the 36-byte public key."""
SIMULATED_MESSAGE_ID_BYTES = SIMULATED_PEER_BYTES + 8
"""The usual message id: peer id, then the 8-byte sequence number."""
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
"""Bytes of a peer that a PRUNE names."""
SIMULATED_ID_FIELD = field_size(SIMULATED_MESSAGE_ID_BYTES)


_LONGER_TAG = 3
"""Bytes by which the tag of an experimental field is longer than a tag of one byte."""


# Sizes of parts, each as an element of the RPC or of its control message. `topic` and `ids` are the sizes of fields.


def subscription_size(topic: int) -> int:
    """Return the size of a SUBSCRIBE or UNSUBSCRIBE: a flag and the topic."""
    return field_size(2 + topic)


def ihave_size(topic: int, ids: int) -> int:
    return field_size(topic + ids)


def iwant_size(ids: int) -> int:
    return field_size(ids)


def graft_size(topic: int) -> int:
    return field_size(topic)


def prune_size(topic: int, names_backoff: bool, seconds: int, peers: int) -> int:
    """Return the size of a PRUNE; `peers` is the size of all fields that name other peers."""
    return field_size(topic + peers + (number_size(seconds) if names_backoff else 0))


def episub_size(fields: int) -> int:
    """Return the size of a part of episub; `fields` is the size of all its fields except the kind."""
    return field_size(2 + fields) + _LONGER_TAG


def rpc_size_of_parts(outside: int, has_control: bool, control: int) -> int:
    """Return the size of an RPC from the sizes of the parts outside of its control message and of those inside."""
    return outside + field_size(control) if has_control else outside


def framed_size(rpc: int) -> int:
    """Return the size of an RPC on a stream, with its length."""
    return rpc + varint_size(rpc)


def identifier_size(identifier: Identifier) -> int:
    if isinstance(identifier, int):
        return SIMULATED_PEER_BYTES
    return len(identifier.encode()) if isinstance(identifier, str) else len(identifier)


def _text(identifier: Identifier) -> int:
    return field_size(identifier_size(identifier))


def _ids(ids: tuple[Identifier, ...]) -> int:
    if ids and isinstance(ids[0], int):
        return len(ids) * SIMULATED_ID_FIELD  # all ids of a run have the same type
    return sum(field_size(identifier_size(known)) for known in ids)


def hops_size(hops: int) -> int:
    """Return the size of a message's hop count as a field."""
    return number_size(hops) + _LONGER_TAG


def message_size(message: Message) -> int:
    """Return the size of a `Message` without tag and length. A message with an integer source counts as signed."""
    hops = 0 if message.hops is None else hops_size(message.hops)
    if message.encoded is not None:
        return len(message.encoded) + hops
    size = hops + field_size(len(message.data)) + _text(message.topic)
    if message.source is not None:
        size += _text(message.source)
    if isinstance(message.source, int):
        return size + field_size(SIMULATED_SEQNO_BYTES) + field_size(SIMULATED_SIGNATURE_BYTES)
    for part in (message.seqno, message.signature, message.key):
        if part is not None:
            size += field_size(len(part))
    return size


PartSize: TypeAlias = tuple[PartKind, TopicId | None, int, int]
"""A part of an RPC: kind, topic, its bytes as an element of the RPC or control message (tag and length included), and
its count, which is the number of ids of an IHAVE, IWANT or IDONTWANT, otherwise 1."""


def use_size(use: int) -> int:
    """Return the size of the two flags for partial messages in a SUBSCRIBE; a request (2) implies support (1)."""
    return 2 * use


_PARTIAL_FLAGS = {use: use_size(number) for number, use in enumerate(PartialUse)}
_FEATURE_BYTES = 2
_TEST_FEATURE_BYTES = 5
TEST_MESSAGE_BYTES = 5


def part_sizes(rpc: Rpc) -> list[PartSize]:
    """Return kind, topic, size and count of each part, in the RPC's order."""
    parts: list[PartSize] = []
    for change in rpc.subscriptions:
        kind = PartKind.SUBSCRIBE if change.subscribe else PartKind.UNSUBSCRIBE
        size = subscription_size(_text(change.topic) + (_PARTIAL_FLAGS[change.partial] if change.subscribe else 0))
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
            size = ihave_size(_text(ihave.topic), _ids(ihave.ids))
            parts.append((PartKind.IHAVE, ihave.topic, size, len(ihave.ids)))
        for iwant in control.iwant:
            parts.append((PartKind.IWANT, None, iwant_size(_ids(iwant.ids)), len(iwant.ids)))
        for graft in control.graft:
            parts.append((PartKind.GRAFT, graft.topic, graft_size(_text(graft.topic)), 1))
        for prune in control.prune:
            parts.append((PartKind.PRUNE, prune.topic, _prune(prune), 1))
        for extension in control.extensions:
            tag = varint_size(extension.field << 3 | 2)
            parts.append((PartKind.EXTENSION, None, tag - 1 + field_size(len(extension.payload)), 1))
        for unwanted in control.idontwant:
            parts.append((PartKind.IDONTWANT, None, field_size(_ids(unwanted.ids)), len(unwanted.ids)))
        for features in control.features:
            size = features_size(features.partial_messages, features.test_extension)
            parts.append((PartKind.FEATURES, None, size, 1))
        for part in control.episub:
            parts.append(episub_part_size(part))
    return parts


def partial_kind(partial: Partial) -> PartKind:
    """Return the kind for counters and traces: METADATA without parts, PARTIAL with parts."""
    return PartKind.METADATA if partial.parts is None else PartKind.PARTIAL


def features_size(exchanges_parts: bool, tests: bool) -> int:
    return field_size(_FEATURE_BYTES * exchanges_parts + _TEST_FEATURE_BYTES * tests)


def partial_size(topic: int, group: int, parts: int, metadata: int) -> int:
    """Return the size of a partial message; `group`, `parts` and `metadata` are lengths, -1 for a missing field."""
    size = topic + field_size(group)
    if parts >= 0:
        size += field_size(parts)
    if metadata >= 0:
        size += field_size(metadata)
    return field_size(size)


def _partial_size(partial: Partial) -> PartSize:
    parts, metadata = (-1 if value is None else len(value) for value in (partial.parts, partial.metadata))
    size = partial_size(_text(partial.topic), len(partial.group), parts, metadata)
    return partial_kind(partial), partial.topic, size, 1


def part_kind(part: EpisubPart) -> PartKind:
    """Return the kind of one of episub's parts in counters and traces."""
    return EPISUB_KINDS[type(part)]


EPISUB_KINDS: dict[type[EpisubPart], PartKind] = {
    said.GetNodes: PartKind.GETNODES,
    said.Nodes: PartKind.NODES,
    said.GetTopics: PartKind.GETTOPICS,
    said.Topics: PartKind.TOPICS,
    said.EpisubJoin: PartKind.JOIN,
    said.ForwardJoin: PartKind.FORWARDJOIN,
    said.Neighbor: PartKind.NEIGHBOR,
    said.Disconnect: PartKind.DISCONNECT,
    said.EpisubLeave: PartKind.LEAVE,
    said.Shuffle: PartKind.SHUFFLE,
    said.ShuffleReply: PartKind.SHUFFLEREPLY,
    said.EpisubIHave: PartKind.IHAVE,
    said.EpisubGraft: PartKind.GRAFT,
    said.EpisubPrune: PartKind.PRUNE,
}


def _number(value: int) -> int:
    """Return the size of a varint field with a one-byte tag; zero is left out."""
    return number_size(value) if value else 0


def packed_size(length: int) -> int:
    """Return the size of a packed field of numbers; `length` is their size, and 0 if there is no field."""
    return field_size(length) if length else 0


def _packed(values: tuple[int, ...]) -> int:
    return packed_size(sum(map(varint_size, values)))


def _peers(peers: tuple[Identifier, ...]) -> int:
    return sum(map(_text, peers))


_EPISUB_FIELDS: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("topic", "peer", "source"), _text),
    **dict.fromkeys(("topics", "peers"), _peers),
    **dict.fromkeys(("hops", "sketch"), _packed),
    "ids": _ids,
}
"""Functions that return the size of a field of episub's parts, by its name; all other fields are numbers."""
_FIELDS_OF = {kind: tuple(field.name for field in fields(kind)) for kind in EPISUB_KINDS}


def episub_part_size(part: EpisubPart) -> PartSize:
    """Return the size of an `EpisubPart` of the control message (`docs/routers/episub.md`, "Wire")."""
    size = sum(_EPISUB_FIELDS.get(name, _number)(getattr(part, name)) for name in _FIELDS_OF[type(part)])
    count = len(part.ids) if isinstance(part, said.EpisubIHave | said.EpisubGraft) else 1
    topic = None if isinstance(part, said.GetTopics | said.Topics) else part.topic
    return part_kind(part), topic, episub_size(size), count


def _prune(prune: Prune) -> int:
    peers = 0
    for known in prune.peers:
        record = 0 if known.record is None else field_size(len(known.record))
        peers += field_size(_text(known.peer) + record)
    return prune_size(_text(prune.topic), prune.backoff_s is not None, prune.backoff_s or 0, peers)


def rpc_size(rpc: Rpc) -> int:
    """Return the bytes of an RPC as a protobuf message."""
    return _enclosed(rpc, part_sizes(rpc))


def rpc_framed_size(rpc: Rpc, parts: list[PartSize]) -> int:
    """Return the bytes of an RPC on a stream, with its length; `parts` are its `part_sizes`."""
    return framed_size(_enclosed(rpc, parts))


def _enclosed(rpc: Rpc, parts: list[PartSize]) -> int:
    outside = len(rpc.subscriptions) + len(rpc.messages) + (rpc.partial is not None) + (rpc.test is not None)
    sizes = [size for _, _, size, _ in parts]
    return rpc_size_of_parts(sum(sizes[:outside]), rpc.control is not None, sum(sizes[outside:]))


MESSAGE_BYTES = 512
"""Memory of a message, to which the lengths of its fields are added."""
SEEN_BYTES = 230
"""Memory of an id in the seen cache, to which its length is added."""
SUBSCRIPTION_BYTES = 170
"""Memory of a subscription of a peer, to which the length of the topic's name is added."""
TOPIC_VIEW_BYTES = 400
"""Memory of a topic that does not depend on its peers."""
_NUMBER_BYTES = 32


def length_of(identifier: Identifier) -> int:
    """Return the memory of an identifier's content; each character of a non-ASCII text may take four bytes."""
    if type(identifier) is bytes:  # most common
        return len(identifier)
    if isinstance(identifier, int):
        return _NUMBER_BYTES
    if isinstance(identifier, str) and not identifier.isascii():
        return 4 * len(identifier)
    return len(identifier)


def message_footprint(message: Message) -> int:
    """Return the memory of a message with all its objects, including its received bytes."""
    size = MESSAGE_BYTES + len(message.data) + length_of(message.id) + length_of(message.topic)
    if message.source is not None:
        size += length_of(message.source)
    for part in (message.seqno, message.signature, message.key, message.encoded):
        if part is not None:
            size += len(part)
    return size
