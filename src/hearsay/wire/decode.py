"""The decoder of RPCs from the protobuf bytes of peers.

Rules:

* There are two passes. The first pass finds the parts, counts parts and ids, and refuses an RPC that exceeds a limit.
  The second pass builds objects. Without episub, an RPC with a single message in the usual form needs no first pass.
* Unknown fields are skipped. If a field that may occur once is repeated, its last value is used. So a message with
  several topics, which old implementations can send, has the last of these topics. Only repeated control messages,
  and repeated extensions in them, are merged.
* Parts without meaning are left out and counted: malformed messages, and parts whose topic, group or peer id is
  missing or malformed. If a part other than a message is not protobuf, the whole RPC is malformed.
* Because receivers store topics and ids, parts with a topic that is too long, and ids that are too long, are left out
  and counted as well (`RpcLimits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hearsay.core.language.actions import fast_init
from hearsay.core.language.rpc import (
    Control,
    ControlPart,
    Extension,
    ExtensionTest,
    Features,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Partial,
    PartialUse,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import check_peer_id
from hearsay.libp2p.names.protobuf import DELIMITED, last_values, last_varints, values, walk
from hearsay.wire.fields import (
    IDS,
    PEERS,
    TEST_EXTENSION,
    RpcLimits,
    WireError,
    decode_part,
    extension_number,
    is_episub,
)
from hearsay.wire.messages import (
    MessageIdFunction,
    decode_message,
    short_length,
    topic_name,
    usual_message,
    with_hops,
)

_rpc = fast_init(Rpc)

_MESSAGE_KEY = b"\x12"
"""The protobuf tag of a message in an RPC."""
_IDS_FIELD = {1: 2, 2: 1, 5: 1}
"""The field number of message ids in IHAVE, IWANT and IDONTWANT, by the part's field number in the control message.
"""


@dataclass(frozen=True, slots=True)
class DecodedRpc:
    """The RPC of a peer, without the parts that were left out."""

    rpc: Rpc
    left_out: int
    """Number of parts, ids and exchanged peers that were left out, because they have no meaning or are too long."""


_decoded = fast_init(DecodedRpc)


@dataclass(slots=True)
class _EncodedParts:
    """The bytes of the parts of an RPC, found by the first pass."""

    subscriptions: list[bytes] = field(default_factory=list[bytes])
    messages: list[bytes] = field(default_factory=list[bytes])
    control: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """The parts of the control message, each with its field number."""
    partial: bytes | None = None
    test: ExtensionTest | None = None


def decode_rpc(data: bytes, message_id: MessageIdFunction, limits: RpcLimits, episub: bool = False) -> DecodedRpc:
    """Return the RPC in `data`. With `episub`, also read the fields of episub.

    Raises `WireError` if the RPC is malformed, or if it exceeds a limit of its size or of its numbers of parts.
    """
    if len(data) > limits.max_rpc_bytes:
        raise WireError(f"an RPC of {len(data)} bytes; at most {limits.max_rpc_bytes} are allowed")
    if not episub and data[:1] == _MESSAGE_KEY and limits.max_messages:
        # Most RPCs are a single message in the usual form.
        length, start = short_length(data, 1)
        if start and start + length == len(data):
            message = usual_message(data[start:], message_id, limits)
            if message is not None:
                return _decoded(_rpc((), (message,)), 0)
    try:
        encoded = _find_parts(data, limits, episub)
        subscriptions = [_subscription(each, limits) for each in encoded.subscriptions]
        messages = [decode_message(each, message_id, limits) for each in encoded.messages]
        if episub:
            messages = [with_hops(each, known) for each, known in zip(encoded.messages, messages, strict=True)]
        control, left_out = _control(encoded.control, limits, episub)
        partial = None if encoded.partial is None else _partial(encoded.partial, limits)
    except EncodingError as error:
        raise WireError(f"malformed RPC: {error}") from None
    kept_subscriptions = tuple(part for part in subscriptions if part is not None)
    kept_messages = tuple(part for part in messages if part is not None)
    left_out += len(subscriptions) - len(kept_subscriptions) + len(messages) - len(kept_messages)
    left_out += encoded.partial is not None and partial is None
    return DecodedRpc(Rpc(kept_subscriptions, kept_messages, control, partial, encoded.test), left_out)


def _find_parts(data: bytes, limits: RpcLimits, episub: bool) -> _EncodedParts:
    """Make the first pass: find all parts. Raises `WireError` if there are too many parts, ids or peers."""
    found = _EncodedParts()
    ids = exchanged = 0
    for number, wire_type, start, stop in walk(data):
        if wire_type != DELIMITED:
            continue
        if number == 1:
            found.subscriptions.append(data[start:stop])
            _check("subscriptions", len(found.subscriptions), limits.max_subscriptions)
        elif number == 2:
            found.messages.append(data[start:stop])
            _check("messages", len(found.messages), limits.max_messages)
        elif number == 10:
            found.partial = data[start:stop]
        elif number == TEST_EXTENSION:
            found.test = ExtensionTest()
        elif number == 3:
            for part, part_type, begin, end in walk(data, start, stop):
                if part_type != DELIMITED:
                    continue
                encoded = data[begin:end]
                found.control.append((part, encoded))
                _check("control parts", len(found.control), limits.max_control)
                if part in _IDS_FIELD:
                    ids += _count(encoded, _IDS_FIELD[part])
                elif part == 4:
                    exchanged += _count(encoded, 2)
                elif episub and is_episub(part):
                    ids += _count(encoded, IDS)
                    exchanged += _count(encoded, PEERS)
                _check("message ids", ids, limits.max_ids)
                _check("exchanged peers", exchanged, limits.max_exchanged_peers)
    return found


def _count(message: bytes, field_number: int) -> int:
    return sum(number == field_number for number, _, _, _ in walk(message))


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise WireError(f"an RPC with more than {limit} {what}")


def _subscription(encoded: bytes, limits: RpcLimits) -> Subscription | None:
    name = topic_name(last_values(encoded, 2)[0], limits)
    if name is None:
        return None
    subscribe, requests, supports = last_varints(encoded, 1, 3, 4)
    if not subscribe:
        return Subscription(name, False)
    partial = PartialUse.REQUESTS if requests else PartialUse.SUPPORTS if supports else PartialUse.NONE
    return Subscription(name, True, partial)


def _partial(encoded: bytes, limits: RpcLimits) -> Partial | None:
    """Return the partial message; None if its topic or group is missing or too long, or its topic is not UTF-8."""
    topic, group, parts, metadata = last_values(encoded, 1, 2, 3, 4)
    name = topic_name(topic, limits)
    if name is None or group is None or len(group) > limits.max_id_bytes:
        return None
    return Partial(name, group, parts, metadata)


def _control(encoded_parts: list[tuple[int, bytes]], limits: RpcLimits, episub: bool) -> tuple[Control | None, int]:
    """Return the control message (None if it has no parts), and the number of parts, ids and exchanged peers that are
    left out.
    """
    parts: list[ControlPart] = []
    features: Features | None = None
    left_out = 0
    for number, encoded in encoded_parts:
        part: ControlPart | None = None
        if number in (2, 5):
            [ids] = values(encoded, 1)
            kept = _short(ids, limits)
            left_out += len(ids) - len(kept)
            part = IWant(kept) if number == 2 else IDontWant(kept)
        elif number == 6:
            features = _merged(features or Features(), encoded)
            continue
        elif (known := extension_number(number)) is not None:
            part = Extension(known, encoded)
        elif episub and is_episub(number):
            part = decode_part(encoded, limits)
        elif number in (1, 3, 4):
            topics, entries = values(encoded, 1, 2)
            name = topic_name(topics[-1] if topics else None, limits)
            if name is not None and number == 1:
                kept = _short(entries, limits)
                left_out += len(entries) - len(kept)
                part = IHave(name, kept)
            elif name is not None and number == 3:
                part = Graft(name)
            elif name is not None:
                peers = tuple(peer for peer in map(_peer_info, entries) if peer is not None)
                left_out += len(entries) - len(peers)
                part = Prune(name, last_varints(encoded, 3)[0], peers)
        else:
            continue
        if part is None:
            left_out += 1
        else:
            parts.append(part)
    if features is not None:
        parts.append(features)
    return Control.of(parts) if parts else None, left_out


def _merged(before: Features, encoded: bytes) -> Features:
    """Return the features in an extensions control, merged with `before`, the features of earlier ones in the RPC.

    Protobuf merges repeated messages, so the last extensions control that names a feature decides.
    """
    partial_messages, test_extension = last_varints(encoded, 10, TEST_EXTENSION)
    return Features(
        before.partial_messages if partial_messages is None else partial_messages != 0,
        before.test_extension if test_extension is None else test_extension != 0,
    )


def _peer_info(encoded: bytes) -> PeerInfo | None:
    peer, record = last_values(encoded, 1, 2)
    try:
        return None if peer is None else PeerInfo(check_peer_id(peer), record)
    except EncodingError:
        return None


def _short(ids: Sequence[bytes], limits: RpcLimits) -> tuple[bytes, ...]:
    """Return the ids that are not too long."""
    return tuple([known for known in ids if len(known) <= limits.max_id_bytes])
