"""The path of a received RPC to the router, without I/O: bytes and verdicts go in, events come out.

`PeerInput` holds the bytes and RPCs of one peer. Each `step` handles one frame, or one portion of a waiting RPC: it
decodes the RPC, checks signatures and the room of the validators, counts, and returns events. The caller acts on
these events before the next step, because the router decides which messages are new.

An RPC waits if it has many messages, if a signature is expensive to check, or if the validators have no room for it.
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
from hearsay.libp2p.limits.frames import FrameReader
from hearsay.libp2p.limits.rates import Allowance
from hearsay.libp2p.limits.resources import Budget, Resources
from hearsay.libp2p.names.errors import FrameError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.conduct import Offence, Statistics
from hearsay.node.config import NodeConfig
from hearsay.node.incoming.validation import Validation
from hearsay.node.incoming.verification import BATCH_US, Verdicts, is_expensive
from hearsay.node.meeting.address_book import split_records
from hearsay.node.receive_events import (
    AddressReceived,
    CheckNeeded,
    FrameRefused,
    InputEvent,
    Misconduct,
    PauseNeeded,
    RpcAdmitted,
    RpcDecoded,
)
from hearsay.wire.decode import decode_rpc
from hearsay.wire.fields import WireError
from hearsay.wire.messages import MessageIds
from hearsay.wire.signing import Fault, SignaturePolicy, plain_fault, signature_check_us, signature_fault

MESSAGES_AT_ONCE = 4
"""Maximum messages of an RPC that one step handles; one while validators are in use."""
OBJECT_BYTES = 512
"""Memory of a decoded message, in addition to its bytes."""
LARGE_BYTES = 2 << 20
"""A larger RPC waits only while twice its size is free."""
_RETRY_S = 0.05
"""Seconds before the next attempt to find room for an RPC."""
_MIN_PAUSE_S = 0.05
"""Shortest pause in seconds of a peer over its allowance, so that not every RPC costs a timer."""
_REPORT_INTERVAL_S = 1.0
"""Shortest time in seconds between two offences of a peer over its allowance."""
_NEW_MESSAGE_PARTS = 2
"""Parts that a new message without a fault returns to the allowance: the message and its RPC."""
_IDS_PER_PART = 8
"""Message ids that count as one part of the allowance."""


_Examined: TypeAlias = "list[tuple[Message, Fault | None]]"
"""New messages, each with the fault that is known without a check of the signature, if any."""


class Receiver:
    """The state that the inputs of all peers share. `clock` is any monotonic clock in microseconds."""

    def __init__(
        self,
        config: NodeConfig,
        router: Router,
        resources: Resources,
        validation: Validation,
        statistics: Statistics,
        clock: Callable[[], Micros],
    ) -> None:
        self.router = router
        self.limits = config.limits
        self.validation = validation
        self.statistics = statistics
        self.clock = clock
        self.message_ids = MessageIds(config.message_id)
        self.policies: dict[str, SignaturePolicy] = {}
        """Signature policies by topic, of topics with a policy of their own."""
        self._default_policy = config.signatures
        self.waiting_bytes = resources.share("RPCs that wait", config.limits.unverified_bytes)
        self.exchanged_peers = int(getattr(router.parameters, "dials_per_prune", 0))
        """Maximum peers of a PRUNE whose address records are read."""
        self._blocked: dict[PeerId, PeerInput] = {}
        """Paused inputs: the validators have no room for their next message."""
        self._idle: dict[PeerId, None] = {}
        """Paused inputs without a pending message: only verdicts on messages of other peers make room for them."""

    def policy(self, topic: str) -> SignaturePolicy:
        return self.policies.get(topic, self._default_policy)

    def is_new(self, message: Message) -> bool:
        """Return True if the topic is joined and the message has not been seen. Other messages are not checked."""
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
        """Return True if the validators have room for a message. Otherwise pause the input `waiting`."""
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
        """Yield the peers that may continue after a verdict on a message of `senders`, while there is room."""
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
        """The allowance of RPCs and parts."""
        self._budget = Budget("RPCs that wait", limits.unverified_bytes_per_peer, (receiver.waiting_bytes,))
        self._receiver = receiver
        self._frames = FrameReader(limits.rpc.max_rpc_bytes)
        self._episub = False
        self._postponed_frame: bytes | None = None
        """A frame that is kept because its RPC had no room to wait."""
        self._postponed_size = 0
        self._waiting: deque[_WaitingRpc] = deque()
        self._checking: list[_WaitingRpc] = []
        """RPCs with messages whose signatures are being checked on a thread."""
        self._opens_stream = False
        """True if the next RPC is the first of a stream that replaces another."""
        self._reported_s = now_s

    @property
    def has_frames(self) -> bool:
        return self._postponed_frame is not None or self._frames.may_have_frame

    @property
    def empty(self) -> bool:
        return not self._waiting and not self.has_frames

    def open_stream(self, budget: Budget | None, episub: bool, replaces: bool) -> None:
        """Read frames of a new stream. Bytes of an incomplete frame count in `budget`."""
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
        """Drop the remaining input, and count RPCs that were not handled completely."""
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
        """Return the events of an exhausted allowance; none if it has refilled with time."""
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
            decoded = decode_rpc(data, receiver.message_ids, receiver.limits.rpc, self._episub)
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
        """Charge the allowance for an RPC. Return it without address records, and the number of accepted messages."""
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
        self.allowance.left -= _parts(rpc.control) + len(records)
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
        """Request a check of as many of the next messages as fit into a batch."""
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
        """Return the messages without a fault, and other messages that are not new.

        Messages are checked before the router marks them as seen: otherwise a forged copy could suppress the message.
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
        """Return True if an RPC of this size may wait. A large RPC must leave as many bytes free as it takes."""
        return size * (2 if size > LARGE_BYTES else 1) <= self._budget.fair

    def _wait_for_room(self) -> list[InputEvent] | None:
        """Request a pause before the next attempt, unless a waiting RPC will make room."""
        return None if self._waiting else [PauseNeeded(_RETRY_S, False)]

    def _refuse_frame(self) -> list[InputEvent]:
        self._receiver.statistics.malformed_rpcs += 1
        self._forget_bytes()
        return [FrameRefused(self.peer)]

    def _forget_bytes(self) -> None:
        self._frames = FrameReader(self._receiver.limits.rpc.max_rpc_bytes)
        self._postponed_frame = None


@dataclass(slots=True, eq=False)
class _WaitingRpc:
    """An RPC whose messages from index `next` to `stop` (excluded) are not handled yet. Later ones are dropped."""

    rpc: Rpc
    stop: int
    reserved: int
    """Bytes reserved in the peer's budget."""
    opens_stream: bool
    next: int = 0
    verdicts: Verdicts = field(default_factory=dict[int, "Fault | None"])

    def messages(self, at_most: int | None = None) -> Iterator[Message]:
        """Return an iterator over the next messages."""
        stop = self.stop if at_most is None else min(self.stop, self.next + at_most)
        return islice(self.rpc.messages, self.next, stop)


def _unproven(examined: _Examined) -> list[Message]:
    """Return the messages that have a signature to check and no other fault."""
    return [message for message, fault in examined if fault is None and message.signature is not None]


def _parts(control: Control) -> int:
    """Return the cost of a control message in parts of the allowance."""
    ids = sum([len(part.ids) for part in (*control.ihave, *control.iwant, *control.idontwant)])
    ids += sum([len(part.peers) for part in control.prune])
    return ids // _IDS_PER_PART + control.count()
