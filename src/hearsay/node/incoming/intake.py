"""Received and not yet handled: bytes and RPCs of one peer, handled in order and in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from hearsay.core.language.rpc import EPISUB, Message, Portion, Rpc
from hearsay.libp2p.limits.frames import FrameReader
from hearsay.libp2p.limits.rates import Allowance
from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.limits.turns import Turns
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.errors import FrameError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.incoming.verification import BATCH_US, Batch, Verdicts, Verification, is_dear
from hearsay.wire.decode import DecodedRpc
from hearsay.wire.signing import check_us


class IncomingRpc:
    """Messages from `next` to before `stop` are still to come; those from `stop` on are dropped and counted."""

    __slots__ = ("is_handed_over", "next", "opens_stream", "reserved", "rpc", "stop", "verdicts")

    def __init__(self, rpc: Rpc, reserved: int = 0) -> None:
        self.rpc = rpc
        self.next = 0
        self.stop = len(rpc.messages)
        self.is_handed_over = False
        self.opens_stream = False
        """It is the first RPC of a stream that replaces another."""
        self.reserved = reserved
        """Bytes of the peer's budget."""
        self.verdicts: Verdicts = {}
        """Of signatures that threads have checked."""

    def waiting(self, at_most: int | None = None) -> Iterator[Message]:
        """The next messages to come."""
        stop = self.stop if at_most is None else min(self.stop, self.next + at_most)
        return islice(self.rpc.messages, self.next, stop)

    def take(self, count: int, authentic: tuple[Message, ...]) -> Portion | None:
        """Move on by `count` messages, of which `authentic` go to the router; None when that is the whole RPC."""
        is_first = not self.next
        self.next += count
        self.is_handed_over = self.next >= self.stop
        if is_first and len(authentic) == len(self.rpc.messages):
            return None
        return Portion(authentic, is_first, self.is_handed_over)


MESSAGES_AT_ONCE = 4
"""An RPC with more messages is handled in pieces."""
OBJECT_BYTES = 512
"""What a decoded message weighs beside its own bytes."""
LARGE_BYTES = 2 << 20
"""An RPC that takes more has many messages."""
LEAVE_S = 5.0
"""So long what is left of a peer that is gone may take."""
_AGAIN_S = 0.05
"""Until it is tried again whether there is room for an RPC to wait."""
_MIN_REST_S = 0.05
"""So that a peer over its allowance costs no timer for every RPC."""
_TELL_S = 1.0
"""Between two times it is told of."""


class Handler(Protocol):
    """What is done with what came: the driver's part."""

    def decode(self, data: bytes, episub: bool) -> DecodedRpc | None:
        """What a frame says; None if it is nothing."""
        ...

    def malformed(self, intake: Intake) -> None: ...

    def received(self, intake: Intake, size: int, decoded: DecodedRpc, episub: bool) -> IncomingRpc:
        """An RPC is taken in: count it."""
        ...

    @property
    def messages_at_once(self) -> int:
        """An RPC with more messages is handled in portions."""
        ...

    def has_to_wait(self, intake: Intake, messages: tuple[Message, ...]) -> bool:
        """Whether an RPC with these messages cannot be handed over at once, even if all signatures are cheap."""
        ...

    def has_room(self, intake: Intake, incoming: IncomingRpc) -> bool:
        """Whether the next messages can go to the router now. If not, the intake is paused."""
        ...

    def is_unproven(self, message: Message) -> bool:
        """Whether the message's signature has to be checked."""
        ...

    def let_in(self, intake: Intake, incoming: IncomingRpc) -> None:
        """Give the next portion of an RPC to the router, without messages whose signatures are wrong."""
        ...

    def abandoned(self, intake: Intake, incoming: IncomingRpc) -> None:
        """The rest of an RPC is not handled: count it."""
        ...

    def over_allowance(self, intake: Intake) -> None: ...


class Intake:
    """`allowance` is in RPCs and their parts; `budget` is for RPCs that wait, and closed in the end."""

    def __init__(
        self,
        peer: PeerId,
        handler: Handler,
        turns: Turns,
        verification: Verification,
        allowance: Allowance,
        budget: Budget,
        max_rpc_bytes: int,
        now_s: Callable[[], float],
    ) -> None:
        self.peer = peer
        self.used_s = 0.0
        self.allowance = allowance
        self.stream: Stream | None = None
        self._handler = handler
        self._turns = turns
        self._verification = verification
        self._budget = budget
        self._max_rpc_bytes = max_rpc_bytes
        self._now_s = now_s
        self._frames = FrameReader(max_rpc_bytes)
        self._episub = False
        self._kept: bytes | None = None
        """A frame for whose RPC there was no room."""
        self._kept_size = 0
        self._incoming: deque[IncomingRpc] = deque()
        self._batch: Batch | None = None
        """Messages of the first RPCs that threads check."""
        self._opens_stream = False
        """The next RPC is the first of a stream that replaces another."""
        self._following: Stream | None = None
        """A newer stream; it is read when the frames of the older one are handled."""
        self._open = self._paused = self._working = self._holding = self._has_read = False
        self._wake: asyncio.TimerHandle | None = None
        """While the peer is not read from for a time."""
        self._reported_s = now_s()
        self._left: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def empty(self) -> bool:
        return not self._incoming and self._kept is None and not self._frames.has_uncut

    def receive_from(self, stream: Stream) -> None:
        """The peer has opened a stream, which replaces an older one. What the older one brought is handled first."""
        if self._following is not None:
            self._following.reset()
        self._following = stream
        if self._kept is None and not self._frames.has_uncut and not self._holding:
            self._follow()
        self._turns.arrived(self)

    def _follow(self) -> None:
        """Read from the newer stream."""
        older, stream, self._following = self.stream, self._following, None
        assert stream is not None
        self.stream = stream
        if older is not None:
            older.reset()
        self._frames = FrameReader(self._max_rpc_bytes, stream.budget)
        self._episub = stream.protocol == EPISUB
        self._holding = False
        self._opens_stream = self._has_read
        self._has_read = True
        stream.receive_with(_Receiver(self, stream))

    def set_open(self, is_open: bool) -> None:
        """Whether the router knows the peer."""
        self._open = is_open
        self._turns.arrived(self)

    def set_paused(self, paused: bool) -> None:
        """Stop cutting frames, or go on: the validators have no room for this peer's messages, or have it again."""
        if self._paused != paused:
            self._paused = paused
            self._turns.arrived(self)

    def rest(self, for_s: float) -> None:
        """Read nothing from the peer for a while, from now on."""
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(for_s, self._rested)
        self._turns.arrived(self)

    def leave(self, left: Callable[[], None]) -> None:
        """The peer is gone: handle what is left, then call `left`."""
        self._left = left
        if self.empty and not self._paused and not self._working:
            self.end()
            return
        self._deadline = asyncio.get_running_loop().call_later(LEAVE_S, self.end)
        self._turns.arrived(self)

    def end(self) -> None:
        """Nothing that is left is handled any more."""
        self._open = False
        self.stream = self._following = None
        self._forget_bytes()
        for incoming in self._incoming:
            self._handler.abandoned(self, incoming)
        self._incoming.clear()
        self._budget.close()
        self._turns.leave(self)
        if self._batch is not None:
            self._verification.forget(self._batch)
            self._batch = None
        for timer in (self._wake, self._deadline):
            if timer is not None:
                timer.cancel()
        self._wake = self._deadline = None
        left, self._left = self._left, None
        if left is not None:
            left()

    def refuse(self) -> None:
        """Take nothing more of the peer, and nothing of what is left."""
        streams = self.stream, self._following
        self.end()
        for stream in streams:
            if stream is not None:
                stream.reset()

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        if not self._working:
            self._turns.arrived(self)

    def stream_ended(self, stream: Stream, reset: bool) -> None:
        """What came before is handled all the same."""
        if self.stream is stream:
            self.stream = None
            self._frames.forget_budget()
        if not reset:
            stream.finish()

    def work(self, until_s: float) -> bool:
        if self._working:
            return True
        self._working = True
        try:
            done = self._work(until_s)
        finally:
            self._working = False
        if self._left is not None:
            if self.empty and not self._paused:
                self.end()
        elif self.stream is not None and not (self._ready and self.empty):
            self.stream.pause()
            self._holding = True
        return done

    @property
    def _ready(self) -> bool:
        return self._open and not self._paused and self._wake is None

    def _work(self, until_s: float) -> bool:
        while self._ready:
            if self._incoming and self._batch is None:
                self._advance()
            elif not self._next_frame():
                return True
            if self.allowance.left < 0:
                self._wait_for_allowance()
            if self._now_s() >= until_s:
                return self.empty and not self._holding
        return True

    def _next_frame(self) -> bool:
        """Take a frame; False if there is none, or none can be taken now."""
        data = self._frame()
        if data is None:
            return False
        if not data:
            self.allowance.left -= 1
            return True
        handler = self._handler
        decoded = handler.decode(data, self._episub)
        if decoded is None:
            handler.malformed(self)
            self._give_up_stream()
            return False
        messages = decoded.rpc.messages
        size = 0
        if self._has_to_wait(messages):
            size = min(self._budget.limit // 2, len(data) + OBJECT_BYTES * len(messages))
            if not self._has_room(size) or not self._budget.reserve(size):
                self._kept, self._kept_size = data, size
                if not self._incoming:
                    self.rest(_AGAIN_S)
                return False
        incoming = handler.received(self, len(data), decoded, self._episub)
        incoming.reserved = size
        incoming.opens_stream, self._opens_stream = self._opens_stream, False
        if size:
            self._incoming.append(incoming)
        else:
            handler.let_in(self, incoming)
        return True

    def _has_to_wait(self, messages: tuple[Message, ...]) -> bool:
        """Whether an RPC needs room to wait; others are handled at once."""
        handler = self._handler
        return (
            bool(self._incoming)
            or handler.has_to_wait(self, messages)
            or (bool(messages) and is_dear([message for message in messages if handler.is_unproven(message)]))
        )

    def _has_room(self, size: int) -> bool:
        """Whether an RPC of this size may wait. A large one leaves as much to others, so that few do not take all."""
        return size * (2 if size > LARGE_BYTES else 1) <= self._budget.fair

    def _frame(self) -> bytes | None:
        if self._kept is not None:
            if not self._has_room(self._kept_size):
                if not self._incoming:
                    self.rest(_AGAIN_S)
                return None
            data, self._kept = self._kept, None
            return data
        try:
            data = self._frames.cut()
            if data is None and self._holding and self.stream is not None:
                self._holding = False
                self.stream.resume()
                data = self._frames.cut()
            if data is None and self._following is not None:
                self._follow()
                data = self._frames.cut()
        except FrameError:
            self._handler.malformed(self)
            self._give_up_stream()
            return None
        return data

    def _advance(self) -> None:
        """Hand over the next portion of the first RPC, or have its signatures checked."""
        incoming, handler = self._incoming[0], self._handler
        if not handler.has_room(self, incoming):
            return
        unproven = [
            message
            for message in incoming.waiting(handler.messages_at_once)
            if id(message) not in incoming.verdicts and handler.is_unproven(message)
        ]
        if is_dear(unproven):
            self._have_checked()
            return
        handler.let_in(self, incoming)
        if incoming.is_handed_over and self._incoming:
            self._incoming.popleft()
            self._budget.release(incoming.reserved)

    def _have_checked(self) -> None:
        """Have as many of the next messages checked as fit into a batch."""
        covered: list[IncomingRpc] = []
        messages: list[Message] = []
        cost_us = 0
        for incoming in self._incoming:
            covered.append(incoming)
            for message in incoming.waiting():
                if self._handler.is_unproven(message):
                    cost_us += check_us(message)
                    if messages and cost_us > BATCH_US:
                        break
                    messages.append(message)
            if cost_us > BATCH_US:
                break

        def decided(verdicts: Verdicts) -> None:
            self._batch = None
            for incoming in covered:
                incoming.verdicts = verdicts
            self._turns.arrived(self)

        self._batch = Batch(messages, decided)
        self._verification.ask(self._batch)

    def _wait_for_allowance(self) -> None:
        now_s = self._now_s()
        wait_s = self.allowance.wait_s(now_s)
        if not wait_s or not self._open:
            return
        if self._left is not None:
            self.end()
            return
        self.rest(max(wait_s, _MIN_REST_S))
        if now_s - self._reported_s >= _TELL_S:
            self._reported_s = now_s
            self._handler.over_allowance(self)

    def _give_up_stream(self) -> None:
        """What comes on this stream makes no sense."""
        self._forget_bytes()
        if self.stream is not None:
            self.stream.reset()

    def _rested(self) -> None:
        self._wake = None
        self._turns.arrived(self)

    def _forget_bytes(self) -> None:
        self._frames = FrameReader(self._max_rpc_bytes)
        self._kept = None


class _Receiver:
    def __init__(self, intake: Intake, stream: Stream) -> None:
        self._intake = intake
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        if self._intake.stream is self._stream:
            self._intake.data_received(data)

    def stream_ended(self, reset: bool) -> None:
        self._intake.stream_ended(self._stream, reset)
