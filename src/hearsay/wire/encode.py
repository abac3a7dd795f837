"""Encoding of RPCs as protobuf (proto2; the pubsub specification's RPC, gossipsub's control, v1.1's PRUNE).

Topics are text; peers and message ids are bytes. A message from a peer is forwarded as its received bytes
(`Message.encoded`). `core/language/sizes.py` computes the same lengths without encoding.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import (
    Control,
    Features,
    Message,
    Partial,
    PartialUse,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, bytes_field, varint_field
from hearsay.libp2p.names.protobuf import encode as varint
from hearsay.wire.episub_codec import encode_part
from hearsay.wire.fields import EPISUB, HOPS, TEST_EXTENSION, raw

_KEYS = {number: bytes((number << 3 | DELIMITED,)) for number in range(1, 16)}
"""Tags of length-delimited fields, for the numbers with a tag of one byte; `bytes_field` encodes larger numbers."""
_PARTIAL_FLAGS = {PartialUse.NONE: b"", PartialUse.SUPPORTS: b"\x20\x01", PartialUse.REQUESTS: b"\x18\x01\x20\x01"}
"""Fields 3 and 4 of a SUBSCRIBE. As in go, a request for parts implies support."""
_PARTIAL_MESSAGES = b"\x50\x01"
_TEST_MESSAGE = varint(TEST_EXTENSION << 3 | DELIMITED) + b"\x00"
_TEST_EXTENSION = varint(TEST_EXTENSION << 3 | VARINT) + b"\x01"
_SUBSCRIBE = {False: b"\x08\x00", True: b"\x08\x01"}


def field(number: int, value: bytes) -> bytes:
    return _KEYS[number] + varint(len(value)) + value


def encode_rpc(rpc: Rpc) -> bytes:
    parts: list[bytes] = [field(1, _subscription(change)) for change in rpc.subscriptions]
    parts += [field(2, encode_message(message) + _hops(message)) for message in rpc.messages]
    if rpc.control is not None:
        parts.append(field(3, _control(rpc.control)))
    if rpc.partial is not None:
        parts.append(field(10, _partial(rpc.partial)))
    if rpc.test is not None:
        parts.append(_TEST_MESSAGE)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message without the hop count, which differs between copies."""
    if message.encoded is not None:
        return message.encoded
    parts = [signed_part(message)]
    if message.signature is not None:
        parts.append(field(5, message.signature))
    if message.key is not None:
        parts.append(field(6, message.key))
    return b"".join(parts)


def signed_part(message: Message) -> bytes:
    """Return the fields that a signature covers: all except signature and key (as in go-libp2p-pubsub)."""
    if message.encoded is not None:
        tail = sum(len(field(5, part)) for part in (message.signature, message.key) if part is not None)
        return message.encoded[: len(message.encoded) - tail]
    parts: list[bytes] = []
    if message.source is not None:
        parts.append(field(1, raw(message.source)))
    parts.append(field(2, message.data))
    if message.seqno is not None:
        parts.append(field(3, message.seqno))
    parts.append(field(4, raw(message.topic)))
    return b"".join(parts)


def _hops(message: Message) -> bytes:
    """Return the encoded hop count, or no bytes if the message has none. Only episub's messages have one."""
    return b"" if message.hops is None else varint_field(HOPS, message.hops)


def _subscription(change: Subscription) -> bytes:
    flags = _PARTIAL_FLAGS[change.partial] if change.subscribe else b""
    return _SUBSCRIBE[change.subscribe] + field(2, raw(change.topic)) + flags


def _partial(partial: Partial) -> bytes:
    parts = [field(1, raw(partial.topic)), field(2, partial.group)]
    if partial.parts is not None:
        parts.append(field(3, partial.parts))
    if partial.metadata is not None:
        parts.append(field(4, partial.metadata))
    return b"".join(parts)


def _features(features: Features) -> bytes:
    return _PARTIAL_MESSAGES * features.partial_messages + _TEST_EXTENSION * features.test_extension


def _control(control: Control) -> bytes:
    parts = [field(1, field(1, raw(ihave.topic)) + _ids(2, ihave.ids)) for ihave in control.ihave]
    parts += [field(2, _ids(1, iwant.ids)) for iwant in control.iwant]
    parts += [field(3, field(1, raw(graft.topic))) for graft in control.graft]
    parts += [field(4, _prune(prune)) for prune in control.prune]
    parts += [field(5, _ids(1, idontwant.ids)) for idontwant in control.idontwant]
    parts += [field(6, _features(features)) for features in control.features]
    parts += [bytes_field(extension.field, extension.payload) for extension in control.extensions]
    parts += [bytes_field(EPISUB, encode_part(part)) for part in control.episub]
    return b"".join(parts)


def _prune(prune: Prune) -> bytes:
    encoded = field(1, raw(prune.topic))
    for known in prune.peers:
        record = b"" if known.record is None else field(2, known.record)
        encoded += field(2, field(1, raw(known.peer)) + record)
    if prune.backoff_s is not None:
        encoded += b"\x18" + varint(prune.backoff_s)
    return encoded


def _ids(number: int, ids: Iterable[Identifier]) -> bytes:
    return b"".join([field(number, raw(known)) for known in ids])
