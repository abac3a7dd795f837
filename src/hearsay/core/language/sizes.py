"""The encoded size of an RPC: what its protobuf (proto2) would take on the wire, without encoding it.

The simulator's bandwidth and byte counts need it. This file takes RPCs apart; the numbers are those of `lengths.py`,
which the array engine's kernels use too.
"""

from __future__ import annotations

from typing import TypeAlias

from hearsay.core.language import episub_parts as said
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.identifiers import Identifier, TopicId
from hearsay.core.language.lengths import (
    SIMULATED_ID_FIELD,
    SIMULATED_PEER_BYTES,
    SIMULATED_SEQNO_BYTES,
    SIMULATED_SIGNATURE_BYTES,
    field_size,
    graft_size,
    ihave_size,
    iwant_size,
    number_size,
    prune_size,
    rpc_size_of_parts,
    subscription_size,
    varint_size,
)
from hearsay.core.language.lengths import framed_size as framed
from hearsay.core.language.rpc import (
    Message,
    Partial,
    PartialUse,
    PartKind,
    Prune,
    Rpc,
)

_LONGER_TAG = 3
"""What the number of an experimental field takes beyond one byte."""


def identifier_size(identifier: Identifier) -> int:
    if isinstance(identifier, int):
        return SIMULATED_PEER_BYTES
    return len(identifier.encode()) if isinstance(identifier, str) else len(identifier)


def _text(identifier: Identifier) -> int:
    return field_size(identifier_size(identifier))


def _ids(ids: tuple[Identifier, ...]) -> int:
    if ids and isinstance(ids[0], int):
        return len(ids) * SIMULATED_ID_FIELD  # a run has one type of ids
    return sum(field_size(identifier_size(known)) for known in ids)


def hops_size(hops: int) -> int:
    """The hop count of a message as a field of its own."""
    return number_size(hops) + _LONGER_TAG


def message_size(message: Message) -> int:
    """The bytes of a `Message`, without the field that holds it. An integer source stands for a signed message."""
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


_PARTIAL_FLAGS = {PartialUse.NONE: 0, PartialUse.SUPPORTS: 2, PartialUse.REQUESTS: 4}
"""Of a SUBSCRIBE; whoever requests says that it supports, too."""
_FEATURE_BYTES = 2
_TEST_FEATURE_BYTES = 5
_TEST_MESSAGE_BYTES = 5


def part_sizes(rpc: Rpc) -> list[PartSize]:
    """The parts in the RPC's order."""
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
        parts.append((PartKind.EXTENSION, None, _TEST_MESSAGE_BYTES, 1))
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
            size = _FEATURE_BYTES * features.partial_messages + _TEST_FEATURE_BYTES * features.test_extension
            parts.append((PartKind.FEATURES, None, field_size(size), 1))
        for part in control.episub:
            parts.append(episub_part_size(part))
    return parts


def partial_kind(partial: Partial) -> PartKind:
    """How counters and traces call it: parts count apart from what is only said of them."""
    return PartKind.METADATA if partial.parts is None else PartKind.PARTIAL


def _partial_size(partial: Partial) -> PartSize:
    size = _text(partial.topic) + field_size(len(partial.group))
    size += sum(field_size(len(value)) for value in (partial.parts, partial.metadata) if value is not None)
    return partial_kind(partial), partial.topic, field_size(size), 1


def part_kind(part: EpisubPart) -> PartKind:
    """How counters and traces call one of episub's parts."""
    return _EPISUB_KINDS[type(part)]


_EPISUB_KINDS: dict[type[EpisubPart], PartKind] = {
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
    """A varint field with a one-byte tag; zero is left out."""
    return number_size(value) if value else 0


def _packed(values: tuple[int, ...]) -> int:
    return field_size(sum(map(varint_size, values))) if values else 0


def _peers(peers: tuple[Identifier, ...]) -> int:
    return sum(map(_text, peers))


def episub_part_size(part: EpisubPart) -> PartSize:
    """One of episub's parts as an `EpisubPart` of the control message (`docs/routers/episub.md`, "Wire")."""
    topic = None if isinstance(part, said.GetTopics | said.Topics) else part.topic
    size = 2 if topic is None else 2 + _text(topic)  # which part it is
    count = 1
    match part:
        case said.Disconnect():
            size += _number(part.refused)
        case said.Neighbor():
            size += _number(part.role) + _number(part.random) + _number(part.links) + _number(part.random_links)
            size += _number(part.rtt_us) + _peers(part.peers)
        case said.Topics():
            size += _peers(part.topics)
        case said.EpisubIHave():
            size += _ids(part.ids) + _packed(part.hops)
            count = len(part.ids)
        case said.EpisubGraft():
            size += _ids(part.ids)
            count = len(part.ids)
        case said.Shuffle():
            size += _text(part.peer) + _peers(part.peers) + _number(part.ttl) + _number(part.sequence)
            size += _packed(part.sketch)
        case said.ShuffleReply():
            size += _peers(part.peers) + _number(part.sequence) + _packed(part.sketch)
        case said.Nodes():
            size += _peers(part.peers) + _number(part.ttl)
        case said.EpisubJoin() | said.ForwardJoin():
            size += _text(part.peer) + _number(part.ttl) + _number(part.sequence)
        case said.EpisubLeave():
            size += _text(part.source) + _number(part.ttl) + _number(part.sequence)
        case said.GetNodes() | said.GetTopics() | said.EpisubPrune():
            pass
    return part_kind(part), topic, field_size(size) + _LONGER_TAG, count


def _prune(prune: Prune) -> int:
    peers = 0
    for known in prune.peers:
        record = 0 if known.record is None else field_size(len(known.record))
        peers += field_size(_text(known.peer) + record)
    return prune_size(_text(prune.topic), prune.backoff_s is not None, prune.backoff_s or 0, peers)


def rpc_size(rpc: Rpc) -> int:
    """The bytes of an RPC as a protobuf message."""
    return _enclosed(rpc, part_sizes(rpc))


def framed_size(rpc: Rpc, parts: list[PartSize]) -> int:
    """The bytes of an RPC on a stream, its length in front; `parts` are its `part_sizes`."""
    return framed(_enclosed(rpc, parts))


def _enclosed(rpc: Rpc, parts: list[PartSize]) -> int:
    outside = len(rpc.subscriptions) + len(rpc.messages) + (rpc.partial is not None) + (rpc.test is not None)
    sizes = [size for _, _, size, _ in parts]
    return rpc_size_of_parts(sum(sizes[:outside]), rpc.control is not None, sum(sizes[outside:]))
