"""What waits to go to one peer: a queue in three priorities with bounded bytes.

Subscriptions, GRAFT, PRUNE and what else episub says go first and are dropped last; IHAVE and IWANT the other way
round. When there is no
room, the oldest gossip makes room for messages, gossip and then the oldest messages make room for the rest. What is
dropped is handed back, so that it can be counted, traced, and said again where that matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from hearsay.core.actions import Via
from hearsay.core.episub.parts import IHave
from hearsay.core.rpc import Control, Rpc


class Priority(IntEnum):
    CONTROL = 0
    MESSAGE = 1
    GOSSIP = 2


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An encoded RPC with its length in front, and what it says."""

    priority: Priority
    frame: bytes
    rpc: Rpc
    vias: tuple[Via, ...] = ()


_NO_CONTROL = Control()


def by_priority(rpc: Rpc) -> Iterator[tuple[Priority, Rpc]]:
    """The RPC as up to three, each of one priority, the most important first."""
    control = rpc.control
    if control is None and not rpc.subscriptions:
        yield Priority.MESSAGE, rpc
        return
    if control is None:
        urgent, gossip = None, None
    else:
        announced = tuple(part for part in control.episub if isinstance(part, IHave))
        others = tuple(part for part in control.episub if not isinstance(part, IHave))
        urgent = replace(control, ihave=(), iwant=(), episub=others)
        gossip = Control(ihave=control.ihave, iwant=control.iwant, episub=announced)
    if rpc.subscriptions or (urgent is not None and urgent != _NO_CONTROL):
        yield Priority.CONTROL, Rpc(rpc.subscriptions, (), None if urgent == _NO_CONTROL else urgent)
    if rpc.messages:
        yield Priority.MESSAGE, Rpc((), rpc.messages)
    if gossip is not None and gossip != _NO_CONTROL:
        yield Priority.GOSSIP, Rpc(control=gossip)


class OutgoingQueue:
    __slots__ = ("_limit", "_waiting", "bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: tuple[deque[Outgoing], ...] = (deque(), deque(), deque())
        self.bytes = 0

    def push(self, entry: Outgoing) -> list[Outgoing]:
        """Add an entry; what had to be dropped for it, perhaps the entry itself."""
        dropped: list[Outgoing] = []
        size = len(entry.frame)
        if self.bytes + size > self._limit:
            for priority in (Priority.GOSSIP, Priority.MESSAGE):
                if priority > entry.priority:
                    self._make_room(self._waiting[priority], size, dropped)
            if self.bytes + size > self._limit:
                dropped.append(entry)
                return dropped
        self._waiting[entry.priority].append(entry)
        self.bytes += size
        return dropped

    def take(self, most: int) -> list[Outgoing]:
        """The next entries, about `most` bytes of them, at least one if there is one."""
        taken: list[Outgoing] = []
        size = 0
        for waiting in self._waiting:
            while waiting and (size < most or not taken):
                entry = waiting.popleft()
                size += len(entry.frame)
                taken.append(entry)
        self.bytes -= size
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    def _make_room(self, waiting: deque[Outgoing], size: int, dropped: list[Outgoing]) -> None:
        while waiting and self.bytes + size > self._limit:
            oldest = waiting.popleft()
            self.bytes -= len(oldest.frame)
            dropped.append(oldest)
