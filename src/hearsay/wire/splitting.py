"""Splitting of RPCs at a limit, because peers drop larger RPCs.

Subscriptions and control have a lower limit, because go v0.19 resets the stream of a peer that sends more. Parts keep
their order, except features, which are in the first RPC. IHAVE, IWANT, IDONTWANT and episub's GRAFT are cut between
ids. A message that does not fit into an RPC of its own is left out; it is always a message of another node, since the
node does not publish messages of this size. A partial message that does not fit is left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from hearsay.core.language import episub_parts as episub
from hearsay.core.language.identifiers import MessageId
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
    Rpc,
    Subscription,
)
from hearsay.core.language.sizes import (
    episub_part_size,
    field_size,
    identifier_size,
    message_size,
    part_sizes,
    rpc_size,
)
from hearsay.wire.fields import RpcLimits, TooLarge

_Outside: TypeAlias = Subscription | Message | Partial | ExtensionTest
_Part: TypeAlias = _Outside | ControlPart
MAX_CONTROL_BYTES = 512 << 10
_CONTROL_OVERHEAD = 6
"""Maximum bytes of tag and length of the control message."""


def check_topic(topic: str, limits: RpcLimits) -> None:
    """Raise `TooLarge` if the topic's name is too long, `UnicodeEncodeError` if it cannot be encoded as UTF-8."""
    size = len(topic.encode())
    if size > limits.max_topic_bytes:
        raise TooLarge(f"a topic name of {size} bytes; at most {limits.max_topic_bytes} are allowed")


def check_fits(message: Message, limits: RpcLimits) -> None:
    """Raise `TooLarge` if the message does not fit into an RPC or its id is too long."""
    length, limit = identifier_size(message.id), limits.max_rpc_bytes
    if length > limits.max_id_bytes:
        raise TooLarge(f"a message id of {length} bytes; at most {limits.max_id_bytes} are allowed")
    size = message_size(message)
    whole = field_size(size)
    if whole > limit:
        raise TooLarge(f"a message of {whole} bytes with its signature; at most {limit} fit into an RPC")


def split_rpc(rpc: Rpc, limit: int, control_limit: int = MAX_CONTROL_BYTES) -> tuple[list[Rpc], list[Message]]:
    """Return RPCs within the limits that together have the parts of this RPC, and the messages that do not fit."""
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
        room -= size
        control_room -= counted
    if parts:
        rpcs.append(_assembled(parts))
    return rpcs, oversized


def _pieces(rpc: Rpc, most: int) -> Iterator[tuple[_Part, int]]:
    """Yield the parts with their sizes. Parts with ids are cut into pieces of at most `most` bytes."""
    control = rpc.control or Control()
    parts: list[_Part] = [*rpc.subscriptions, *rpc.messages]
    if rpc.partial is not None:
        parts.append(rpc.partial)
    if rpc.test is not None:
        parts.append(rpc.test)
    parts += control.parts()
    sized = zip(parts, part_sizes(rpc), strict=True)
    for part, (_, _, size, _) in sorted(sized, key=lambda entry: not isinstance(entry[0], Features)):
        if size > most and isinstance(part, IHave | IWant | IDontWant):
            yield from _cut(part, most)
        elif size > most and isinstance(part, episub.EpisubIHave | episub.EpisubGraft):
            yield from _halved(part, most)
        else:
            yield part, size


def _cut(part: IHave | IWant | IDontWant, most: int) -> Iterator[tuple[_Part, int]]:
    head = 12 + (identifier_size(part.topic) if isinstance(part, IHave) else 0)
    ids: list[MessageId] = []
    size = head
    for known in part.ids:
        length = field_size(identifier_size(known))
        if ids and size + length > most:
            yield replace(part, ids=tuple(ids)), size
            ids, size = [], head
        ids.append(known)
        size += length
    if ids:
        yield replace(part, ids=tuple(ids)), size


def _halved(part: episub.EpisubIHave | episub.EpisubGraft, most: int) -> Iterator[tuple[_Part, int]]:
    size = episub_part_size(part)[2]
    middle = len(part.ids) // 2
    if size <= most or not middle:
        yield part, size
        return
    for piece in (slice(middle), slice(middle, None)):
        half = replace(part, ids=part.ids[piece])
        if isinstance(half, episub.EpisubIHave) and isinstance(part, episub.EpisubIHave):
            half = replace(half, hops=part.hops[piece])
        yield from _halved(half, most)


def _assembled(parts: list[_Part]) -> Rpc:
    control = Control.of(part for part in parts if not isinstance(part, _Outside))
    return Rpc(
        tuple(part for part in parts if isinstance(part, Subscription)),
        tuple(part for part in parts if isinstance(part, Message)),
        control if control != Control() else None,
        next((part for part in parts if isinstance(part, Partial)), None),
        next((part for part in parts if isinstance(part, ExtensionTest)), None),
    )
