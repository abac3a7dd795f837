"""The encoded size of an RPC: what its protobuf (proto2) would take on the wire, without encoding it.

The simulator's bandwidth and byte counts need it. Field numbers are those of the pubsub RPC (r1, "The protobuf is as
follows", and the pubsub spec's `Message` and `SubOpts`); every field used here is numbered below 16 except
extensions, so its tag takes one byte.

Strings and bytes have their own length. The simulator names peers and messages by integers: those are given the
length that the real thing has by default, so that byte counts mean something (`SIMULATED_*`).
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.identifiers import Identifier
from hearsay.core.rpc import Control, Message, PartKind, Rpc

SIMULATED_PEER_BYTES = 38
"""An Ed25519 peer id: an identity multihash of the 36-byte public key."""
SIMULATED_MESSAGE_ID_BYTES = SIMULATED_PEER_BYTES + 8
"""The usual message id: peer id, then the 8-byte sequence number."""
SIMULATED_SEQNO_BYTES = 8
SIMULATED_SIGNATURE_BYTES = 64


def varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _field(length: int) -> int:
    """A length-delimited field with a one-byte tag."""
    return 1 + varint_size(length) + length


def identifier_size(identifier: Identifier, simulated: int = SIMULATED_PEER_BYTES) -> int:
    if isinstance(identifier, int):
        return simulated
    return len(identifier.encode()) if isinstance(identifier, str) else len(identifier)


def _text(identifier: Identifier) -> int:
    return _field(identifier_size(identifier))


def _ids(ids: Iterable[Identifier]) -> int:
    return sum(_field(identifier_size(known, SIMULATED_MESSAGE_ID_BYTES)) for known in ids)


def message_size(message: Message) -> int:
    """The bytes of a `Message`, without the field that holds it. An integer source stands for a signed message."""
    size = _field(len(message.data)) + _text(message.topic)
    if message.source is not None:
        size += _text(message.source)
    if isinstance(message.source, int):
        return size + _field(SIMULATED_SEQNO_BYTES) + _field(SIMULATED_SIGNATURE_BYTES)
    for part in (message.seqno, message.signature, message.key):
        if part is not None:
            size += _field(len(part))
    return size


def part_sizes(rpc: Rpc) -> list[tuple[PartKind, int, int]]:
    """Per part, in the RPC's order: its kind, its bytes as an element of the RPC or control message, its count.

    The count is the number of ids of an IHAVE or IWANT, otherwise 1.
    """
    parts: list[tuple[PartKind, int, int]] = []
    for change in rpc.subscriptions:
        kind = PartKind.SUBSCRIBE if change.subscribe else PartKind.UNSUBSCRIBE
        parts.append((kind, _field(2 + _text(change.topic)), 1))
    for message in rpc.messages:
        parts.append((PartKind.PUBLISH, _field(message_size(message)), 1))
    if rpc.control is not None:
        parts.extend(_control_parts(rpc.control))
    return parts


def _control_parts(control: Control) -> Iterable[tuple[PartKind, int, int]]:
    for ihave in control.ihave:
        yield PartKind.IHAVE, _field(_text(ihave.topic) + _ids(ihave.ids)), len(ihave.ids)
    for iwant in control.iwant:
        yield PartKind.IWANT, _field(_ids(iwant.ids)), len(iwant.ids)
    for graft in control.graft:
        yield PartKind.GRAFT, _field(_text(graft.topic)), 1
    for prune in control.prune:
        yield PartKind.PRUNE, _field(_text(prune.topic)), 1
    for extension in control.extensions:
        tag = varint_size(extension.field << 3 | 2)
        yield PartKind.EXTENSION, tag + _field(len(extension.payload)) - 1, 1


def rpc_size(rpc: Rpc) -> int:
    """The bytes of an RPC, without the length that frames it on a stream."""
    size = 0
    control = 0
    for kind, part, _ in part_sizes(rpc):
        if kind in (PartKind.PUBLISH, PartKind.SUBSCRIBE, PartKind.UNSUBSCRIBE):
            size += part
        else:
            control += part
    return size + (_field(control) if rpc.control is not None else 0)
