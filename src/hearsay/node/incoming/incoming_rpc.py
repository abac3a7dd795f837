"""A decoded RPC on its way to the router: the RPC as it came, and how far the router has it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hearsay.core.language.rpc import Message, Portion, Rpc
from hearsay.node.incoming.verification import Verdicts


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
