"""The path of a received RPC to the router, without I/O: bytes and verdicts go in, events come out.

`PeerInput` holds the bytes and RPCs of one peer. Each `step` handles one frame, or one portion of a waiting RPC. It
decodes the RPC, checks the signatures, checks that the validators have room, updates the statistics and returns
events. The caller acts on these events before the next step, because the router decides which messages are new.

An RPC waits if it has many messages, if a signature is expensive to check, if the validators have no room for it, or
if an earlier RPC of its peer waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from hearsay.core.language.actions import PartDropped, Reason
from hearsay.core.language.events import MessageRefused, StreamOpened
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Control, Message, PartKind, Portion, Rpc
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Dialling
from hearsay.libp2p.frames import FrameReader
from hearsay.libp2p.names.errors import FrameError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.rates import Allowance
from hearsay.libp2p.resources import Budget, Resources
from hearsay.node.conduct import Offence, Statistics
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.address_book import split_records
from hearsay.node.receive_events import (
    AddressReceived,
    CheckNeeded,
    InputEvent,
    Misconduct,
    PauseNeeded,
    RpcAdmitted,
    RpcDecoded,
)
from hearsay.node.validation import Validation
from hearsay.node.verification import BATCH_US, Verdicts, is_expensive
from hearsay.wire.decode import decode_rpc
from hearsay.wire.fields import WireError
from hearsay.wire.messages import MessageIdFunction
from hearsay.wire.signing import Fault, SignaturePolicy, plain_fault, signature_check_us, signature_fault

MESSAGES_AT_ONCE = 4
"""Maximum messages of an RPC that one step handles; while validators are in use, the maximum is one."""
OBJECT_BYTES = 512
"""Bytes of memory of a decoded message, in addition to its encoded form."""
LARGE_BYTES = 2 << 20
"""An RPC that takes more bytes may wait only if twice as many bytes are free."""
_RETRY_S = 0.05
"""Seconds until the next attempt to find room for an RPC."""
_MIN_PAUSE_S = 0.05
"""Minimum seconds of a pause in reading from a peer over its allowance, so that not every RPC needs a timer."""
_REPORT_INTERVAL_S = 1.0
"""Minimum seconds between two reports of the offence that a peer is over its allowance."""
_NEW_MESSAGE_PARTS = 2
"""Number of parts that a new message without a fault returns to the allowance: the message and its RPC."""
_IDS_PER_PART = 8
"""Number of message ids, or of peers that PRUNEs name, that cost as much of the allowance as one part."""


_Examined: TypeAlias = "list[tuple[Message, Fault | None]]"
"""New messages. Each has the fault that is known without a check of its signature, or None."""


@dataclass(eq=False)
class Receiver:
    """The state that the inputs of all peers share."""

    _config: NodeConfig
    router: Router
    _resources: Resources
    validation: Validation
    statistics: Statistics
    clock: Callable[[], Micros]
    """Any monotonic clock in microseconds."""

    def __post_init__(self) -> None:
        self.limits = self._config.limits
        self.policies: dict[str, SignaturePolicy] = {}
        """The signature policies of topics that have another policy than the configuration."""
        self.id_functions: dict[str, MessageIdFunction] = {}
        """The functions for message ids of topics that have another function than the configuration."""
        self.waiting_bytes = self._resources.share("RPCs that wait", self.limits.unverified_bytes)
        self.exchanged_peers = int(getattr(self.router.parameters, "dials_per_prune", 0))
        """Maximum peers of a PRUNE whose address records are read."""
        self._blocked: dict[PeerId, PeerInput] = {}
        """The inputs that are paused because the validators have no room for their next message, by peer."""
        self._idle: dict[PeerId, None] = {}
        """The peers in `_blocked` that have no message waiting for a verdict. Only verdicts on messages of other
        peers can make room for them."""

    def policy(self, topic: str) -> SignaturePolicy:
        return self.policies.get(topic, self._config.signatures)

    def message_id(self, topic: str, source: bytes | None, seqno: bytes | None, data: bytes) -> bytes:
        return self.id_functions.get(topic, self._config.message_id)(topic, source, seqno, data)

    def is_new(self, message: Message) -> bool:
        """Return True if the topic is joined and the message has not been seen. The router drops other messages, so
        they are not checked."""
        router = self.router
        return message.topic in router.joined and message.id not in router.seen.known

    def examine(self, messages: Iterable[Message]) -> _Examined:
        return [
            (message, plain_fault(message, self.policy(str(message.topic))))
            for message in messages
            if self.is_new(message)
        ]

    def must_wait(self, peer: PeerId, messages: tuple[Message, ...]) -> bool:
        """Return True if an RPC cannot be handled in one step, even if all its signatures are cheap to check."""
        if not self.validation.in_use:
            return len(messages) > MESSAGES_AT_ONCE
        return len(messages) > 1 or any(
            self.is_new(message) and not self.validation.has_room(peer, message) for message in messages
        )

    def has_room(self, waiting: PeerInput, message: Message) -> bool:
        """Return True if the validators have room for a message, or if it is not new. Otherwise pause the input
        `waiting` and return False."""
        peer = waiting.peer
        if not self.is_new(message):
            return True
        if self.validation.has_room(peer, message):
            self.forget(peer)
            return True
        self._blocked.setdefault(peer, waiting)
        if self.validation.pending(peer):
            self._idle.pop(peer, None)
        else:
            self._idle.setdefault(peer)
        waiting.paused = True
        return False

    def peers_to_resume(self, senders: Iterable[PeerId]) -> Iterator[PeerId]:
        """Yield the peers whose paused inputs continue after a verdict on a message of `senders`, and end their
        pauses: first those of `senders` that are paused, then the peers in `_idle`, as long as there is room."""
        for peer in senders:
            if peer in self._blocked:
                self._blocked[peer].paused = False
                yield peer
        for peer in list(self._idle):
            if self.validation.full:
                return
            if peer in self._idle:
                self._blocked[peer].paused = False
                yield peer

    def forget(self, peer: PeerId) -> None:
        self._blocked.pop(peer, None)
        self._idle.pop(peer, None)


class PeerInput:
    """The bytes and RPCs of one peer that are not handled yet."""

    def __init__(self, receiver: Receiver, peer: PeerId) -> None:
        limits = receiver.limits
        now_s = receiver.clock() / 1_000_000
        self.peer = peer
        self.paused = False
        """True while the validators have no room for the next message."""
        self.allowance = Allowance(limits.parts_per_s, limits.parts_at_once, now_s)
        """The RPCs and parts that the peer may still send before reading from it pauses."""
        self._budget = Budget("RPCs that wait", limits.unverified_bytes_per_peer, (receiver.waiting_bytes,))
        self._receiver = receiver
        self._frames = FrameReader(limits.rpc.max_rpc_bytes)
        self._episub = False
        self._postponed_frame: bytes | None = None
        """A frame whose RPC must wait but had no room; it is decoded again later."""
        self._postponed_size = 0
        self._waiting: deque[_WaitingRpc] = deque()
        self._checking: list[_WaitingRpc] = []
        """RPCs with messages whose signatures are being checked on a thread."""
        self._opens_stream = False
        """True if the next RPC is the first of a stream that replaces an earlier stream."""
        self._reported_s = now_s

    @property
    def has_frames(self) -> bool:
        return self._postponed_frame is not None or self._frames.may_have_frame

    @property
    def empty(self) -> bool:
        return not self._waiting and not self.has_frames

    def open_stream(self, budget: Budget | None, episub: bool, replaces: bool) -> None:
        """Expect frames of a new stream. Bytes of an incomplete frame are reserved in `budget`.

        `episub` is True if the stream has the protocol of episub. `replaces` is True if the peer had another stream.
        """
        self._frames = FrameReader(self._receiver.limits.rpc.max_rpc_bytes, budget)
        self._episub = episub
        self._opens_stream = replaces

    def close_stream(self) -> None:
        self._frames.forget_budget()

    def feed(self, data: bytes) -> None:
        self._frames.feed(data)

    def checked(self, verdicts: Verdicts) -> None:
        """Store the verdicts on the messages of a `CheckNeeded`."""
        for waiting in self._checking:
            waiting.verdicts = verdicts
        self._checking = []

    def end(self) -> None:
        """Drop the remaining input, and count the RPCs that were not handled completely."""
        self._forget_bytes()
        self._receiver.statistics.abandoned_rpcs += len(self._waiting)
        self._waiting.clear()
        self._checking = []
        self._budget.close()

    def step(self) -> list[InputEvent] | None:
        """Return the events of the next frame or portion; None if nothing can be handled now."""
        if self._waiting and not self._checking:
            return self._next_portion()
        if self._postponed_frame is not None:
            if not self._has_room(self._postponed_size):
                return self._wait_for_room()
            data, self._postponed_frame = self._postponed_frame, None
        else:
            try:
                data = self._frames.next_frame()
            except FrameError:
                return self._refuse_frame()
        if data is None:
            return None
        if not data:
            self.allowance.left -= 1
            return []
        return self._receive(data)

    def over_allowance(self) -> list[InputEvent]:
        """Return the events for a peer that has exceeded its allowance; an empty list if the allowance has been
        refilled since."""
        now_s = self._receiver.clock() / 1_000_000
        wait_s = self.allowance.wait_s(now_s)
        if not wait_s:
            return []
        events: list[InputEvent] = [PauseNeeded(max(wait_s, _MIN_PAUSE_S), True)]
        if now_s - self._reported_s >= _REPORT_INTERVAL_S:
            self._reported_s = now_s
            events.append(Misconduct(self.peer, Offence.OVER_LIMIT, 1))
        return events

    def _receive(self, data: bytes) -> list[InputEvent] | None:
        receiver = self._receiver
        statistics = receiver.statistics
        try:
            decoded = decode_rpc(data, receiver.message_id, receiver.limits.rpc, self._episub)
        except WireError:
            statistics.rpcs_received += 1
            statistics.bytes_received += len(data)
            return self._refuse_frame()
        messages = decoded.rpc.messages
        now_us = receiver.clock()
        if messages:
            receiver.router.seen.expire(now_us)
        size = 0
        examined: _Examined = []
        waits = bool(self._waiting) or receiver.must_wait(self.peer, messages)
        if not waits and messages:
            examined = receiver.examine(messages)
            waits = is_expensive(_unproven(examined))
        if waits:
            size = min(self._budget.limit // 2, len(data) + OBJECT_BYTES * len(messages))
            if not self._has_room(size) or not self._budget.reserve(size):
                self._postponed_frame, self._postponed_size = data, size
                return self._wait_for_room()
        statistics.rpcs_received += 1
        statistics.bytes_received += len(data)
        statistics.left_out_parts += decoded.left_out
        self.allowance.left -= 1 + len(messages) + len(decoded.rpc.subscriptions) + decoded.left_out
        events: list[InputEvent] = [RpcDecoded(self.peer, decoded.rpc)]
        rpc, stop = self._charge(decoded.rpc, events)
        opens_stream, self._opens_stream = self._opens_stream, False
        if waits:
            self._waiting.append(_WaitingRpc(rpc, stop, size, opens_stream))
            return events
        if opens_stream:
            events.append(StreamOpened(self.peer))
        if stop < len(messages):
            messages = messages[:stop]
            examined = receiver.examine(messages)
        authentic = self._authentic(messages, examined, {}, events)
        portion = None if len(authentic) == len(rpc.messages) else Portion(authentic, True, True)
        events.append(RpcAdmitted(self.peer, rpc, portion, now_us))
        return events

    def _charge(self, rpc: Rpc, events: list[InputEvent]) -> tuple[Rpc, int]:
        """Subtract the cost of control and of a partial message from the allowance.

        Add events for dropped messages and for address records to `events`. Return the RPC without episub's address
        records, and the number of its first messages that may be handled; the further messages are dropped.
        """
        peer, router = self.peer, self._receiver.router
        scoring, dialling = router.strategy.scoring, router.strategy.dialling
        self.allowance.left -= rpc.partial is not None
        stop = len(rpc.messages)
        over = stop - router.parameters.max_messages_per_rpc
        if over > 0:
            stop -= over
            events.append(PartDropped(peer, PartKind.PUBLISH, over, Reason.OVER_LIMIT))
        if stop and scoring is not None and not scoring.accepts_from(peer):
            # Drop the messages before their signatures are checked.
            events.append(PartDropped(peer, PartKind.PUBLISH, stop, Reason.GRAYLISTED))
            stop = 0
        control = rpc.control
        if control is None:
            return rpc, stop
        rpc, records = split_records(rpc)
        assert rpc.control is not None
        self.allowance.left -= _control_cost(rpc.control) + len(records)
        if dialling is Dialling.BY_ROUTER and self._episub:
            events.extend(AddressReceived(record, peer, None) for record in records)
        exchanged = self._receiver.exchanged_peers
        if control.prune and exchanged and (scoring is None or scoring.trusts_exchange_of(peer)):
            for prune in control.prune:
                for known in prune.peers[:exchanged] if prune.topic in router.joined else ():
                    if known.record is not None and isinstance(known.peer, bytes):
                        events.append(AddressReceived(known.record, peer, known.peer))
        return rpc, stop

    def _next_portion(self) -> list[InputEvent] | None:
        """Handle the next portion of the first waiting RPC, or request a check of its signatures."""
        receiver, waiting = self._receiver, self._waiting[0]
        now_us = receiver.clock()
        receiver.router.seen.expire(now_us)
        if receiver.validation.in_use:
            message = next(waiting.messages(1), None)
            if message is not None and not receiver.has_room(self, message):
                return None
        messages = tuple(waiting.messages(1 if receiver.validation.in_use else MESSAGES_AT_ONCE))
        examined = receiver.examine(messages)
        if is_expensive([message for message in _unproven(examined) if id(message) not in waiting.verdicts]):
            return [self._request_check()]
        events: list[InputEvent] = []
        is_first = not waiting.next
        if waiting.opens_stream and is_first:
            events.append(StreamOpened(self.peer))
        authentic = self._authentic(messages, examined, waiting.verdicts, events)
        waiting.next += len(messages)
        is_last = waiting.next >= waiting.stop
        whole = is_first and len(authentic) == len(waiting.rpc.messages)
        portion = None if whole else Portion(authentic, is_first, is_last)
        events.append(RpcAdmitted(self.peer, waiting.rpc, portion, now_us))
        if is_last:
            self._waiting.popleft()
            self._budget.release(waiting.reserved)
        return events

    def _request_check(self) -> CheckNeeded:
        """Request a check of the next messages, as many as fit into a batch, even from several waiting RPCs."""
        chosen: list[Message] = []
        cost_us = 0
        for waiting in self._waiting:
            self._checking.append(waiting)
            for message in waiting.messages():
                if not _unproven(self._receiver.examine((message,))):
                    continue
                cost_us += signature_check_us(message)
                if chosen and cost_us > BATCH_US:
                    return CheckNeeded(chosen)
                chosen.append(message)
            if cost_us > BATCH_US:
                break
        return CheckNeeded(chosen)

    def _authentic(
        self, messages: tuple[Message, ...], examined: _Examined, verdicts: Verdicts, events: list[InputEvent]
    ) -> tuple[Message, ...]:
        """Return the messages without those that have a fault. A message that is not new is not checked.

        `examined` has the new messages, each with its known fault or None. A signature that has no entry in
        `verdicts` is checked now. New messages are checked before the router marks them as seen, so that a forged
        copy does not make the router drop the authentic copy. For messages with a fault, events are added to
        `events`; other new messages raise the allowance of the peer.
        """
        refused: list[tuple[Message, Fault]] = []
        for message, fault in examined:
            if fault is None and message.signature is not None:
                number = id(message)
                fault = verdicts[number] if number in verdicts else signature_fault(message)
            if fault is not None:
                refused.append((message, fault))
            else:
                self.allowance.left += _NEW_MESSAGE_PARTS
        if not refused:
            return messages
        self._receiver.statistics.bad_signatures += len(refused)
        events.extend(MessageRefused(self.peer, message, fault.reason) for message, fault in refused)
        forged = sum(fault.forged for _, fault in refused)
        if forged:
            events.append(Misconduct(self.peer, Offence.FORGED, forged))
        wrong = {id(message) for message, _ in refused}
        return tuple(message for message in messages if id(message) not in wrong)

    def _has_room(self, size: int) -> bool:
        """Return True if an RPC of this size may wait. A large RPC must leave as many bytes free as it uses."""
        return size * (2 if size > LARGE_BYTES else 1) <= self._budget.fair

    def _wait_for_room(self) -> list[InputEvent] | None:
        """Request a pause before the next attempt to find room, unless a waiting RPC of the peer will make room."""
        return None if self._waiting else [PauseNeeded(_RETRY_S, False)]

    def _refuse_frame(self) -> list[InputEvent]:
        self._receiver.statistics.malformed_rpcs += 1
        self._forget_bytes()
        return [Misconduct(self.peer, Offence.MALFORMED, 1)]

    def _forget_bytes(self) -> None:
        self._frames = FrameReader(self._receiver.limits.rpc.max_rpc_bytes)
        self._postponed_frame = None


@dataclass(slots=True, eq=False)
class _WaitingRpc:
    """An RPC whose messages from index `next` to `stop` (excluded) are not handled yet.

    Its messages from index `stop` on are dropped.
    """

    rpc: Rpc
    stop: int
    reserved: int
    """Bytes reserved in the peer's budget."""
    opens_stream: bool
    next: int = 0
    verdicts: Verdicts = field(default_factory=dict[int, "Fault | None"])

    def messages(self, at_most: int | None = None) -> Iterator[Message]:
        """Return an iterator over the messages that are not handled yet; None for `at_most` means all of them."""
        stop = self.stop if at_most is None else min(self.stop, self.next + at_most)
        return islice(self.rpc.messages, self.next, stop)


def _unproven(examined: _Examined) -> list[Message]:
    """Return the messages whose signature must be checked: those with a signature and without a known fault."""
    return [message for message, fault in examined if fault is None and message.signature is not None]


def _control_cost(control: Control) -> int:
    """Return the number of parts that a control message takes from the allowance."""
    ids = sum([len(part.ids) for part in (*control.ihave, *control.iwant, *control.idontwant)])
    ids += sum([len(part.peers) for part in control.prune])
    return ids // _IDS_PER_PART + control.count()
