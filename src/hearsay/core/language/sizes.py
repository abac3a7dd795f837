"""The encoded size of an RPC: what its protobuf (proto2) would take on the wire, without encoding it.

The simulator's bandwidth and byte counts need it. Field numbers are those of the pubsub RPC (r1, "The protobuf is as
follows", and the pubsub spec's `Message` and `SubOpts`); every field used here is numbered below 16 except
extensions, so its tag takes one byte.

Strings and bytes have their own length. The simulator names peers and messages by integers: those are given the
length that the real thing has by default, so that byte counts mean something (`SIMULATED_*`).
"""

from __future__ import annotations

from typing import TypeAlias

from hearsay.core.language import episub_parts as said
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.identifiers import Identifier, TopicId
from hearsay.core.language.rpc import Control, Message, PartKind, Prune, Rpc

SIMULATED_PEER_BYTES = 38
"""An Ed25519 peer id: an identity multihash of the 36-byte public key."""
SIMULATED_MESSAGE_ID_BYTES = SIMULATED_PEER_BYTES + 8
"""The usual message id: peer id, then the 8-byte sequence number."""
SIMULATED_SEQNO_BYTES = 8
SIMULATED_SIGNATURE_BYTES = 64


def varint_size(value: int) -> int:
    return (value.bit_length() + 6) // 7 if value else 1


def _field(length: int) -> int:
    """A length-delimited field with a one-byte tag."""
    return 1 + varint_size(length) + length


def identifier_size(identifier: Identifier) -> int:
    if isinstance(identifier, int):
        return SIMULATED_PEER_BYTES
    return len(identifier.encode()) if isinstance(identifier, str) else len(identifier)


def _text(identifier: Identifier) -> int:
    return _field(identifier_size(identifier))


_SIMULATED_ID_FIELD = _field(SIMULATED_MESSAGE_ID_BYTES)


def _ids(ids: tuple[Identifier, ...]) -> int:
    if ids and isinstance(ids[0], int):
        return len(ids) * _SIMULATED_ID_FIELD  # a run has one type of ids
    return sum(_field(identifier_size(known)) for known in ids)


def hops_size(hops: int) -> int:
    """The hop count of a message as a field of its own."""
    return 1 + varint_size(hops)


def message_size(message: Message) -> int:
    """The bytes of a `Message`, without the field that holds it. An integer source stands for a signed message."""
    hops = 0 if message.hops is None else hops_size(message.hops)
    if message.encoded is not None:
        return len(message.encoded) + hops
    size = hops + _field(len(message.data)) + _text(message.topic)
    if message.source is not None:
        size += _text(message.source)
    if isinstance(message.source, int):
        return size + _field(SIMULATED_SEQNO_BYTES) + _field(SIMULATED_SIGNATURE_BYTES)
    for part in (message.seqno, message.signature, message.key):
        if part is not None:
            size += _field(len(part))
    return size


PartSize: TypeAlias = tuple[PartKind, TopicId | None, int, int]
"""A part of an RPC: kind, topic, its bytes as an element of the RPC or control message (tag and length included), and
its count, which is the number of ids of an IHAVE, IWANT or IDONTWANT, otherwise 1."""


def part_sizes(rpc: Rpc) -> list[PartSize]:
    """The parts in the RPC's order."""
    parts: list[PartSize] = []
    for change in rpc.subscriptions:
        kind = PartKind.SUBSCRIBE if change.subscribe else PartKind.UNSUBSCRIBE
        parts.append((kind, change.topic, _field(2 + _text(change.topic)), 1))
    for message in rpc.messages:
        parts.append((PartKind.PUBLISH, message.topic, _field(message_size(message)), 1))
    if rpc.control is not None:
        _add_control(parts, rpc.control)
    return parts


def _add_control(parts: list[PartSize], control: Control) -> None:
    for ihave in control.ihave:
        size = _field(_text(ihave.topic) + _ids(ihave.ids))
        parts.append((PartKind.IHAVE, ihave.topic, size, len(ihave.ids)))
    for iwant in control.iwant:
        parts.append((PartKind.IWANT, None, _field(_ids(iwant.ids)), len(iwant.ids)))
    for graft in control.graft:
        parts.append((PartKind.GRAFT, graft.topic, _field(_text(graft.topic)), 1))
    for prune in control.prune:
        parts.append((PartKind.PRUNE, prune.topic, _field(_prune(prune)), 1))
    for idontwant in control.idontwant:
        parts.append((PartKind.IDONTWANT, None, _field(_ids(idontwant.ids)), len(idontwant.ids)))
    for extension in control.extensions:
        tag = varint_size(extension.field << 3 | 2)
        parts.append((PartKind.EXTENSION, None, tag - 1 + _field(len(extension.payload)), 1))
    parts += [episub_part_size(part) for part in control.episub]


def part_kind(part: EpisubPart) -> PartKind:
    """How counters and traces call one of episub's parts."""
    return _EPISUB_KINDS[type(part)]


_EPISUB_KINDS: dict[type[EpisubPart], PartKind] = {
    said.GetNodes: PartKind.GETNODES,
    said.Nodes: PartKind.NODES,
    said.GetTopics: PartKind.GETTOPICS,
    said.Topics: PartKind.TOPICS,
    said.Join: PartKind.JOIN,
    said.ForwardJoin: PartKind.FORWARDJOIN,
    said.Neighbor: PartKind.NEIGHBOR,
    said.Disconnect: PartKind.DISCONNECT,
    said.Leave: PartKind.LEAVE,
    said.Shuffle: PartKind.SHUFFLE,
    said.ShuffleReply: PartKind.SHUFFLEREPLY,
    said.IHave: PartKind.IHAVE,
    said.Graft: PartKind.GRAFT,
    said.Prune: PartKind.PRUNE,
}


def _number(value: int) -> int:
    """A varint field with a one-byte tag; zero is left out."""
    return 1 + varint_size(value) if value else 0


def _packed(values: tuple[int, ...]) -> int:
    return _field(sum(map(varint_size, values))) if values else 0


def _peers(peers: tuple[Identifier, ...]) -> int:
    return sum(map(_text, peers))


def episub_part_size(part: EpisubPart) -> PartSize:
    """One of episub's parts as an `EpisubPart` of the control message (`docs/routers/episub.md`, "Wire")."""
    size = 2  # which part it is
    topic: TopicId | None = None
    count = 1
    match part:
        case said.GetTopics():
            pass
        case said.Topics():
            size += _peers(part.topics)
        case _:
            topic = part.topic
            size += _text(topic)
    match part:
        case said.Nodes():
            size += _peers(part.peers) + _number(part.ttl)
        case said.Join() | said.ForwardJoin():
            size += _text(part.peer) + _number(part.ttl) + _number(part.sequence)
        case said.Neighbor():
            size += _number(part.role) + _number(part.random) + _number(part.links) + _number(part.random_links)
            size += _number(part.rtt_us) + _peers(part.peers)
        case said.Disconnect():
            size += _number(part.refused)
        case said.Leave():
            size += _text(part.source) + _number(part.ttl) + _number(part.sequence)
        case said.Shuffle():
            size += _text(part.peer) + _peers(part.peers) + _number(part.ttl) + _number(part.sequence)
            size += _packed(part.sketch)
        case said.ShuffleReply():
            size += _peers(part.peers) + _number(part.sequence) + _packed(part.sketch)
        case said.IHave():
            size += _ids(part.ids) + _packed(part.hops)
            count = len(part.ids)
        case said.Graft():
            size += _ids(part.ids)
            count = len(part.ids)
        case said.GetNodes() | said.GetTopics() | said.Topics() | said.Prune():
            pass
    return part_kind(part), topic, _field(size), count


def _prune(prune: Prune) -> int:
    size = _text(prune.topic)
    for known in prune.peers:
        record = 0 if known.record is None else _field(len(known.record))
        size += _field(_text(known.peer) + record)
    if prune.backoff_s is not None:
        size += 1 + varint_size(prune.backoff_s)
    return size


def rpc_size(rpc: Rpc) -> int:
    """The bytes of an RPC as a protobuf message."""
    return _enclosed(rpc, part_sizes(rpc))


def framed_size(rpc: Rpc, parts: list[PartSize]) -> int:
    """The bytes of an RPC on a stream, its length in front; `parts` are its `part_sizes`."""
    size = _enclosed(rpc, parts)
    return size + varint_size(size)


def _enclosed(rpc: Rpc, parts: list[PartSize]) -> int:
    if rpc.control is None:
        return sum([size for _, _, size, _ in parts])
    outside = len(rpc.subscriptions) + len(rpc.messages)
    control = sum([size for _, _, size, _ in parts[outside:]])
    return sum([size for _, _, size, _ in parts[:outside]]) + _field(control)
