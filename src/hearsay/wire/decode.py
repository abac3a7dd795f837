"""Decoding of an RPC from a peer's protobuf bytes.

Rules:

* There are two passes. The first walks the bytes, counts parts and ids, and refuses the RPC if it exceeds a limit.
  Only the second builds objects.
* Unknown fields are skipped. If a singular field is repeated, its last value counts, so a message of an old sender
  with several topics has the last of them.
* Parts without meaning (no topic, a topic that is not UTF-8, a malformed peer id) are left out and counted. So are
  parts with a topic that is too long, and ids that are too long, because receivers store topics and ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from hearsay.core.language.fast_frozen import fast_init
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
    Message,
    Partial,
    PartialUse,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import check_peer_id
from hearsay.libp2p.names.protobuf import DELIMITED, VARINT, walk
from hearsay.wire.episub_codec import IDS, PEERS, decode_part
from hearsay.wire.fields import TEST_EXTENSION, RpcLimits, WireError, extension_number, is_episub
from hearsay.wire.messages import (
    MessageIdFunction,
    decode_message,
    short_length,
    topic_name,
    usual_message,
    with_hops,
)

_rpc = fast_init(Rpc)

Span: TypeAlias = tuple[int, int]

_MESSAGE_KEY = b"\x12"
"""The protobuf tag of a message in an RPC."""
_IDS_FIELD = {1: 2, 2: 1, 5: 1}
"""The field number of message ids in IHAVE, IWANT and IDONTWANT, by the field number of the part."""


@dataclass(frozen=True, slots=True)
class DecodedRpc:
    rpc: Rpc
    left_out: int
    """Number of parts and ids that were left out, because they have no meaning or are too long."""


_decoded = fast_init(DecodedRpc)


@dataclass(slots=True)
class _Spans:
    """Start and stop of each part in the bytes, found by the first pass."""

    subscriptions: list[Span]
    messages: list[Span]
    control: list[tuple[int, int, int]]
    """(field, start, stop) of each part of the control message."""
    partial: Span | None = None
    test: ExtensionTest | None = None


def decode_rpc(data: bytes, message_id: MessageIdFunction, limits: RpcLimits, episub: bool = False) -> DecodedRpc:
    """Return the RPC in `data`, or raise `WireError`. With `episub`, also read the fields of episub."""
    if len(data) > limits.max_rpc_bytes:
        raise WireError(f"an RPC of {len(data)} bytes; at most {limits.max_rpc_bytes} are allowed")
    if not episub and data[:1] == _MESSAGE_KEY and limits.max_messages:
        message = _only_message(data, message_id, limits)
        if message is not None:
            return _decoded(_rpc((), (message,)), 0)
    try:
        spans = _survey(data, limits, episub)
        subscriptions = [_subscription(data, *span, limits) for span in spans.subscriptions]
        messages = [decode_message(data, *span, message_id, limits) for span in spans.messages]
        if episub:
            messages = [with_hops(data, *span, known) for span, known in zip(spans.messages, messages, strict=True)]
        control, left_out = _control(data, spans.control, limits, episub) if spans.control else (None, 0)
        partial = None if spans.partial is None else _partial(data, *spans.partial, limits)
    except EncodingError as error:
        raise WireError(f"malformed RPC: {error}") from None
    kept_subscriptions = tuple(part for part in subscriptions if part is not None)
    kept_messages = tuple(part for part in messages if part is not None)
    left_out += len(subscriptions) - len(kept_subscriptions) + len(messages) - len(kept_messages)
    left_out += spans.partial is not None and partial is None
    return DecodedRpc(Rpc(kept_subscriptions, kept_messages, control, partial, spans.test), left_out)


def _only_message(data: bytes, message_id: MessageIdFunction, limits: RpcLimits) -> Message | None:
    """Return the message if the RPC is a single message in the usual form, as most are; None for other RPCs."""
    length, start = short_length(data, 1)
    if not start or start + length != len(data):
        return None
    return usual_message(data, start, len(data), message_id, limits)


def _survey(data: bytes, limits: RpcLimits, episub: bool) -> _Spans:
    """Make the first pass: find the positions of all parts. Raises `WireError` if there are too many."""
    spans = _Spans([], [], [])
    ids = exchanged = 0
    for number, wire_type, start, stop in walk(data, 0, len(data)):
        if wire_type != DELIMITED:
            continue
        if number == 1:
            spans.subscriptions.append((start, stop))
            _check("subscriptions", len(spans.subscriptions), limits.max_subscriptions)
        elif number == 2:
            spans.messages.append((start, stop))
            _check("messages", len(spans.messages), limits.max_messages)
        elif number == 10:
            spans.partial = (start, stop)
        elif number == TEST_EXTENSION:
            spans.test = ExtensionTest()
        elif number == 3:
            for part, part_type, begin, end in walk(data, start, stop):
                if part_type != DELIMITED:
                    continue
                spans.control.append((part, begin, end))
                _check("control parts", len(spans.control), limits.max_control)
                if part in _IDS_FIELD:
                    ids = _counted(data, begin, end, _IDS_FIELD[part], ids, "message ids", limits.max_ids)
                elif part == 4:
                    most = limits.max_exchanged_peers
                    exchanged = _counted(data, begin, end, 2, exchanged, "exchanged peers", most)
                elif episub and is_episub(part):
                    ids = _counted(data, begin, end, IDS, ids, "message ids", limits.max_ids)
                    most = limits.max_exchanged_peers
                    exchanged = _counted(data, begin, end, PEERS, exchanged, "exchanged peers", most)
    return spans


def _counted(data: bytes, start: int, stop: int, field_number: int, count: int, what: str, limit: int) -> int:
    for number, _, _, _ in walk(data, start, stop):
        if number == field_number:
            count += 1
            _check(what, count, limit)
    return count


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise WireError(f"an RPC with more than {limit} {what}")


def _subscription(data: bytes, start: int, stop: int, limits: RpcLimits) -> Subscription | None:
    flags = dict.fromkeys((1, 3, 4), 0)
    topic = None
    for number, wire_type, begin, end in walk(data, start, stop):
        if wire_type == VARINT and number in flags:
            flags[number] = begin
        elif number == 2 and wire_type == DELIMITED:
            topic = data[begin:end]
    name = topic_name(topic, limits)
    if name is None:
        return None
    subscribe, requests, supports = (value != 0 for value in flags.values())
    if not subscribe:
        return Subscription(name, False)
    partial = PartialUse.REQUESTS if requests else PartialUse.SUPPORTS if supports else PartialUse.NONE
    return Subscription(name, True, partial)


def _partial(data: bytes, start: int, stop: int, limits: RpcLimits) -> Partial | None:
    """Return the partial message at `start` … `stop`; None if the topic or group is missing or too long."""
    topic, group, parts, metadata = _last(data, start, stop, 4)
    name = topic_name(topic, limits)
    if name is None or group is None or len(group) > limits.max_id_bytes:
        return None
    return Partial(name, group, parts, metadata)


def _features(data: bytes, start: int, stop: int, before: tuple[Features, ...]) -> tuple[Features, ...]:
    """Return the features of a control extension, merged with earlier ones as protobuf requires."""
    [said] = before or (Features(),)
    partial_messages, test_extension = said.partial_messages, said.test_extension
    for number, wire_type, value, _ in walk(data, start, stop):
        if wire_type == VARINT and number == 10:
            partial_messages = value != 0
        elif wire_type == VARINT and number == TEST_EXTENSION:
            test_extension = value != 0
    return (Features(partial_messages, test_extension),)


def _control(
    data: bytes, spans: list[tuple[int, int, int]], limits: RpcLimits, episub: bool
) -> tuple[Control | None, int]:
    parts: list[ControlPart] = []
    features: tuple[Features, ...] = ()
    left_out = 0
    for number, start, stop in spans:
        if number in (2, 5):
            ids = _short(_last_and_all(data, start, stop, 0, 1)[1], limits)
            left_out += ids.too_long
            parts.append(IWant(ids.kept) if number == 2 else IDontWant(ids.kept))
        elif number == 6:
            features = _features(data, start, stop, features)
        elif (known := extension_number(number)) is not None:
            parts.append(Extension(known, data[start:stop]))
        elif episub and is_episub(number):
            said = decode_part(data, start, stop, limits)
            if said is None:
                left_out += 1
            else:
                parts.append(said)
        elif number in (1, 3, 4):
            topic, values = _last_and_all(data, start, stop, 1, 2)
            name = topic_name(topic, limits)
            if name is None:
                left_out += 1
            elif number == 1:
                ids = _short(values, limits)
                left_out += ids.too_long
                parts.append(IHave(name, ids.kept))
            elif number == 3:
                parts.append(Graft(name))
            else:
                peers = [_peer_info(encoded) for encoded in values]
                known = tuple(peer for peer in peers if peer is not None)
                left_out += len(peers) - len(known)
                parts.append(Prune(name, _backoff(data, start, stop), known))
    control = Control.of((*parts, *features))
    return (None if control == _NOTHING else control), left_out


_NOTHING = Control()


def _last(data: bytes, start: int, stop: int, count: int) -> list[bytes | None]:
    """Return the last values of the fields 1 … `count`; None for missing fields."""
    values: list[bytes | None] = [None] * count
    for number, wire_type, begin, end in walk(data, start, stop):
        if wire_type == DELIMITED and number <= count:
            values[number - 1] = data[begin:end]
    return values


def _last_and_all(
    data: bytes, start: int, stop: int, single: int, repeated: int
) -> tuple[bytes | None, tuple[bytes, ...]]:
    """Return the last value of the field `single` and all values of the field `repeated`."""
    last = None
    values: list[bytes] = []
    for number, wire_type, begin, end in walk(data, start, stop):
        if wire_type == DELIMITED:
            if number == repeated:
                values.append(data[begin:end])
            elif number == single:
                last = data[begin:end]
    return last, tuple(values)


def _backoff(data: bytes, start: int, stop: int) -> int | None:
    backoff = None
    for number, wire_type, value, _ in walk(data, start, stop):
        if number == 3 and wire_type == VARINT:
            backoff = value
    return backoff


def _peer_info(encoded: bytes) -> PeerInfo | None:
    peer, record = _last(encoded, 0, len(encoded), 2)
    try:
        return None if peer is None else PeerInfo(check_peer_id(peer), record)
    except EncodingError:
        return None


class _Short(NamedTuple):
    """Ids that are short enough, and the number of ids that are too long."""

    kept: tuple[bytes, ...]
    too_long: int


def _short(ids: tuple[bytes, ...], limits: RpcLimits) -> _Short:
    most = limits.max_id_bytes
    kept = tuple([known for known in ids if len(known) <= most])
    return _Short(kept, len(ids) - len(kept))
