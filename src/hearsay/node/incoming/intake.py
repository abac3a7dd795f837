"""What came from one peer and is not handled: bytes, then RPCs, in their order, in turns with other peers.

Frames are cut when there is time for them. An RPC is decoded, the signatures of its messages are checked, and it
goes to the router; cheap signatures are checked on the way, for dear ones it waits (`verification.py`), and what came
after it waits behind it. The peer's stream is paused as long as something waits, so the peer's window closes. Nothing
is handled while the router does not know the peer, while its messages wait for validators, or while the peer has used
more than its allowance of RPCs and their parts.

When its connection ends, what a peer sent before is handled to the end, within bounds: many connect only to say
something.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from hearsay.core.language.rpc import EPISUB, Message, Rpc
from hearsay.libp2p.limits.allowance import Allowance
from hearsay.libp2p.limits.frames import FrameReader
from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.limits.turns import Turns
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.errors import FrameError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.incoming.verification import BATCH_US, Batch, Verdicts, Verification, batch_us, check, is_dear
from hearsay.wire.decode import DecodedRpc

MESSAGES_AT_ONCE = 4
"""An RPC with more messages is handled in pieces."""
OBJECT_BYTES = 512
"""What a decoded message weighs beside its own bytes."""
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

    def received(self, intake: Intake, size: int, decoded: DecodedRpc, episub: bool) -> Rpc:
        """A frame is taken: count it; what is left for the router."""
        ...

    def unproven(self, rpc: Rpc) -> list[Message]:
        """Messages whose signatures have to be checked."""
        ...

    def let_in(self, intake: Intake, rpc: Rpc, verdicts: Verdicts) -> None:
        """Give an RPC to the router, without the messages whose signatures are wrong."""
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
        """A frame that found no room to wait in once it was decoded."""
        self._kept_size = 0
        self._pieces: deque[_Piece] = deque()
        self._batch: Batch | None = None
        """What of the first pieces is being checked."""
        self._open = self._paused = self._working = self._holding = False
        self._wake: asyncio.TimerHandle | None = None
        """While the peer is not read from for a time."""
        self._reported_s = now_s()
        self._left: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def empty(self) -> bool:
        return not self._pieces and self._kept is None and not self._frames.has_uncut

    def receive_from(self, stream: Stream) -> None:
        """The peer has opened a stream; a newer one takes the place of an older one."""
        older, self.stream = self.stream, stream
        if older is not None:
            older.reset()
        self._forget_bytes()
        self._frames = FrameReader(self._max_rpc_bytes, stream.budget)
        self._episub = stream.protocol == EPISUB
        self._holding = False
        stream.receive_with(_Receiver(self, stream))
        self._turns.arrived(self)

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
        self.stream = None
        self._forget_bytes()
        self._pieces.clear()
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
        stream = self.stream
        self.end()
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
            if self._pieces and self._batch is None:
                self._next_piece()
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
        rpc = decoded.rpc
        messages = rpc.messages
        if not self._pieces and len(messages) <= MESSAGES_AT_ONCE:
            unproven = handler.unproven(rpc) if messages else None
            if not unproven:
                handler.let_in(self, handler.received(self, len(data), decoded, self._episub), _NO_VERDICTS)
                return True
            if not is_dear(unproven):
                verdicts = check(unproven)
                handler.let_in(self, handler.received(self, len(data), decoded, self._episub), verdicts)
                return True
        size = min(self._budget.limit, len(data) + OBJECT_BYTES * len(messages))
        if size > self._budget.fair or not self._budget.reserve(size):
            self._kept, self._kept_size = data, size
            if not self._pieces:
                self.rest(_AGAIN_S)
            return False
        self._pieces.extend(_cut_up(handler.received(self, len(data), decoded, self._episub)))
        self._pieces[-1].size = size
        return True

    def _frame(self) -> bytes | None:
        if self._kept is not None:
            if self._budget.fair < self._kept_size:
                if not self._pieces:
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
        except FrameError:
            self._handler.malformed(self)
            self._give_up_stream()
            return None
        return data

    def _next_piece(self) -> None:
        """Hand on the first piece, or have it checked."""
        piece = self._pieces[0]
        verdicts = piece.verdicts
        if verdicts is None:
            unproven = self._handler.unproven(piece.rpc)
            if is_dear(unproven):
                self._have_checked()
                return
            verdicts = check(unproven)
        self._pieces.popleft()
        self._budget.release(piece.size)
        self._handler.let_in(self, piece.rpc, verdicts)

    def _have_checked(self) -> None:
        """Have as many of the first pieces checked as fit into a batch."""
        taken: list[_Piece] = []
        messages: list[Message] = []
        for piece in self._pieces:
            unproven = self._handler.unproven(piece.rpc)
            if taken and batch_us(messages) + batch_us(unproven) > BATCH_US:
                break
            taken.append(piece)
            messages += unproven

        def decided(verdicts: Verdicts) -> None:
            self._batch = None
            for piece in taken:
                piece.verdicts = verdicts
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


class _Piece:
    """An RPC, or a part of one, that waits."""

    __slots__ = ("rpc", "size", "verdicts")

    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self.size = 0
        """Reserved for the whole RPC, at its last piece."""
        self.verdicts: Verdicts | None = None


class _Receiver:
    def __init__(self, intake: Intake, stream: Stream) -> None:
        self._intake = intake
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        if self._intake.stream is self._stream:
            self._intake.data_received(data)

    def stream_ended(self, reset: bool) -> None:
        self._intake.stream_ended(self._stream, reset)


_NO_VERDICTS: Verdicts = {}


def _cut_up(rpc: Rpc) -> list[_Piece]:
    """Pieces with a few messages each: subscriptions come with the first, control with the last."""
    messages = rpc.messages
    if len(messages) <= MESSAGES_AT_ONCE:
        return [_Piece(rpc)]
    starts = range(0, len(messages), MESSAGES_AT_ONCE)
    return [
        _Piece(
            Rpc(
                () if start else rpc.subscriptions,
                messages[start : start + MESSAGES_AT_ONCE],
                rpc.control if start == starts[-1] else None,
            )
        )
        for start in starts
    ]
