"""The door between a peer's RPCs and the router: messages go in one by one, as far as validation has room for them.

What finds no room waits here, with the rest of its RPC, and its peer is not read from: nothing is marked as seen that
nobody looks at, and only the peer that sends too much waits for it. Who waits longest is let in first. The rest of an
RPC is dropped if even waiting would be too much; no message is marked as seen then, so another peer may bring it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Control, Message, Rpc
from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.incoming.intake import Intake
from hearsay.node.incoming.statistics import Statistics
from hearsay.node.incoming.validation import Validation, weight_of


class Admission:
    """What waits is kept in `room`. `let_in` hands a part of an RPC to the router, at a time if that matters."""

    def __init__(
        self,
        validation: Validation,
        room: Budget,
        statistics: Statistics,
        is_new: Callable[[Message], bool],
        let_in: Callable[[Intake, Rpc, Micros | None], None],
    ) -> None:
        self._validation = validation
        self._room = room
        self._statistics = statistics
        self._is_new = is_new
        self._let_in = let_in
        self._held: dict[PeerId, _Rest] = {}
        self._idle: OrderedDict[PeerId, None] = OrderedDict()
        """Those of them whom no verdict of their own will let in, the longest-waiting first: all room is others'."""

    def admit(self, intake: Intake, rpc: Rpc, now_us: Micros) -> None:
        """Let an RPC in, whose messages are authentic or were seen before. If some have to wait, the intake pauses.

        Those seen before are let in now, and not by and by: they might be forgotten, and nobody has checked them.
        """
        messages = rpc.messages
        validation = self._validation
        if not validation.in_use or (len(messages) == 1 and validation.has_room(intake.peer, messages[0])):
            self._let_in(intake, rpc, now_us)
            return
        waiting = deque(filter(self._is_new, messages))
        if rpc.subscriptions or len(waiting) < len(messages):
            known = tuple(message for message in messages if not self._is_new(message))
            self._let_in(intake, Rpc(rpc.subscriptions, known), now_us)
        rest = _Rest(intake, waiting, rpc.control)
        if self._go_on(rest):
            return
        rest.reserved = sum(map(weight_of, rest.messages))
        if self._room.reserve(rest.reserved):
            self._held[intake.peer] = rest
            self._line_up(intake.peer)
            intake.set_paused(True)
        else:
            self._statistics.crowded_out += len(rest.messages)

    def verdict_came(self, peers: Iterable[PeerId]) -> None:
        """A message of these peers waits no more: there may be room for others."""
        for peer in peers:
            if peer in self._held:
                self._try(peer)
                self._line_up(peer)
        for peer in list(self._idle):
            if self._validation.full:
                return
            if peer in self._idle:
                self._try(peer)

    def forget(self, peer: PeerId) -> None:
        """A peer is gone, and with it what of its RPC had to wait."""
        rest = self._held.pop(peer, None)
        self._idle.pop(peer, None)
        if rest is not None:
            self._room.release(rest.reserved)

    def _line_up(self, peer: PeerId) -> None:
        if peer in self._held and not self._validation.pending(peer):
            self._idle[peer] = None

    def _try(self, peer: PeerId) -> None:
        """Let in what a peer waits with, as far as there is room."""
        rest = self._held[peer]
        all_in = self._go_on(rest)
        if self._validation.pending(peer):
            self._idle.pop(peer, None)
        if all_in and self._held.get(peer) is rest:
            self.forget(peer)
            rest.intake.set_paused(False)

    def _go_on(self, rest: _Rest) -> bool:
        validation, intake = self._validation, rest.intake
        messages = rest.messages
        while messages:
            if not validation.has_room(intake.peer, messages[0]):
                return False
            self._let_in(intake, Rpc(messages=(messages.popleft(),)), None)
        if rest.control is not None:
            control, rest.control = rest.control, None
            self._let_in(intake, Rpc(control=control), None)
        return True


class _Rest:
    """What of an RPC is not in."""

    __slots__ = ("control", "intake", "messages", "reserved")

    def __init__(self, intake: Intake, messages: deque[Message], control: Control | None) -> None:
        self.intake = intake
        self.messages = messages
        self.control = control
        self.reserved = 0
