"""Queues of RPCs: one for each peer, with three priorities and bounded bytes, and a bound for all together.

Subscriptions, GRAFT, PRUNE and the other parts of episub are sent first and dropped last; for IHAVE and IWANT it is
the reverse. Without room, the oldest gossip makes room for messages, and gossip and then the oldest messages make
room for the rest. Dropped entries are reported, so that they can be counted, traced, and sent again where that
matters.

A copy that a peer does not want any more leaves its queue, if it waits in an RPC of its own and the router withdraws
such copies.

A frame that waits for several peers is in memory once. It counts once for all queues, and in full for each. When all
queues together have no room, the address with the most bytes loses from its longest queue: so a peer that does not
read loses, not one that does, and many peers of one address count as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from hearsay.core.language.episub_parts import EpisubIHave
from hearsay.core.language.identifiers import MessageId
from hearsay.core.language.rpc import Control, Rpc
from hearsay.core.language.sizes import PartSize
from hearsay.libp2p.limits.resources import Budget

if TYPE_CHECKING:
    from hearsay.node.trace_rows import TracedPart


class Priority(IntEnum):
    CONTROL = 0
    MESSAGE = 1
    GOSSIP = 2


ENTRY_BYTES = 256
"""Memory of an entry in addition to its frame."""
TRACED_BYTES = 256
"""Memory of a part that is traced or counted for metrics."""


@dataclass(slots=True, eq=False)
class OutgoingRpc:
    """An encoded RPC after its length, and the facts about it that are needed later."""

    priority: Priority
    frame: bytes
    messages: int
    """The number of its messages."""
    again: Rpc | None = None
    """The control to send again if the entry is dropped."""
    traced: tuple[TracedPart, ...] = ()
    message_id: MessageId | None = None
    """The id of its only message, if the copy may be withdrawn."""
    counted: tuple[PartSize, ...] = ()
    """Its parts, for metrics."""
    made_s: float = 0.0
    """When it was created, for metrics."""
    holders: int = 0
    """Number of queues in which it waits."""

    @property
    def size(self) -> int:
        """Return its memory in bytes. An RPC to send again is in memory twice, also in parts."""
        frames = 1 if self.again is None else 4
        return ENTRY_BYTES + frames * len(self.frame) + (len(self.traced) + len(self.counted)) * TRACED_BYTES


_NO_CONTROL = Control()


def by_priority(rpc: Rpc) -> Iterator[tuple[Priority, Rpc]]:
    """Split an RPC by priority into at most three, the most important first."""
    if rpc.control is None and not rpc.subscriptions:
        yield Priority.MESSAGE, rpc
        return
    control = rpc.control or _NO_CONTROL
    announced = tuple(part for part in control.episub if isinstance(part, EpisubIHave))
    others = tuple(part for part in control.episub if not isinstance(part, EpisubIHave))
    urgent = replace(control, ihave=(), iwant=(), episub=others)
    gossip = Control(ihave=control.ihave, iwant=control.iwant, episub=announced)
    if rpc.subscriptions or urgent != _NO_CONTROL:
        yield Priority.CONTROL, Rpc(rpc.subscriptions, (), None if urgent == _NO_CONTROL else urgent)
    if rpc.messages:
        yield Priority.MESSAGE, Rpc((), rpc.messages)
    if gossip != _NO_CONTROL:
        yield Priority.GOSSIP, Rpc(control=gossip)


class OutgoingMemory:
    """The memory of the queues of all peers."""

    __slots__ = ("_budget", "_of_address", "queues")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._of_address: dict[str, int] = {}
        """Bytes that wait for the peers of an address, by address."""
        self.queues: set[OutgoingQueue] = set()
        """The queues that are not empty."""

    def count(self, queue: OutgoingQueue, size: int) -> None:
        """Note that a queue has become longer or shorter by `size`."""
        waiting = self._of_address.pop(queue.address, 0) + size
        if waiting:
            self._of_address[queue.address] = waiting
        if queue.bytes:
            self.queues.add(queue)
        else:
            self.queues.discard(queue)

    def release(self, entry: OutgoingRpc) -> None:
        entry.holders -= 1
        if not entry.holders:
            self._budget.release(entry.size)

    def hold_at_cost(self, entry: OutgoingRpc, asking: OutgoingQueue) -> bool:
        """Reserve memory for an entry; the longest queue drops others for it. False if that is `asking` itself."""
        while not entry.holders and not self._budget.reserve(entry.size):
            longest = max(self.queues, key=self._length, default=asking)
            same = longest.address == asking.address
            ahead, behind = self._length(longest)[same], self._length(asking)[same]
            if ahead > behind + entry.size:
                longest.give_way()
            elif not asking.give_way(entry.priority):
                return False
        entry.holders += 1
        return True

    def _length(self, queue: OutgoingQueue) -> tuple[int, int]:
        """Return the waiting bytes of a queue's address, and of the queue."""
        return self._of_address.get(queue.address, 0), queue.bytes


class OutgoingQueue:
    """The queue of one peer. `lost` is called with each entry that is dropped."""

    __slots__ = ("_copies", "_limit", "_lost", "_memory", "_waiting", "_withdrawn", "address", "bytes")

    def __init__(self, limit: int, memory: OutgoingMemory, lost: Callable[[OutgoingRpc], None], address: str) -> None:
        self.address = address
        self._limit = limit
        self._memory = memory
        self._lost = lost
        self._waiting: tuple[deque[OutgoingRpc], ...] = (deque(), deque(), deque())
        self._copies: dict[MessageId, list[OutgoingRpc]] = {}
        """Copies that may be withdrawn."""
        self._withdrawn: set[OutgoingRpc] = set()
        """Withdrawn entries, which are skipped and do not count. They are at most half of the entries."""
        self.bytes = 0

    def push(self, entry: OutgoingRpc) -> bool:
        """Add an entry; others may be dropped for it. Returns False if it is dropped itself."""
        if not (self.make_room(entry.size, entry.priority) and self._memory.hold_at_cost(entry, self)):
            self._lost(entry)
            return False
        self._waiting[entry.priority].append(entry)
        if entry.message_id is not None:
            self._copies.setdefault(entry.message_id, []).append(entry)
        self._count(entry.size)
        return True

    def withdraw(self, message_id: MessageId) -> list[OutgoingRpc]:
        """Withdraw the copies of a message that wait here, and return them."""
        copies = self._copies.pop(message_id, [])
        for copy in copies:
            self._release(copy)
            self._withdrawn.add(copy)
        waiting = self._waiting[Priority.MESSAGE]
        if len(self._withdrawn) > len(waiting) // 2:
            kept = list(filter(self._goes, waiting))
            waiting.clear()
            waiting.extend(kept)
        return copies

    def make_room(self, size: int, priority: Priority) -> bool:
        """Drop less important entries until there is room for `size` bytes. Returns False if that is impossible."""
        while self.bytes + size > self._limit:
            if not self.give_way(priority):
                return False
        return True

    def take(self, most: int) -> list[OutgoingRpc]:
        """Return the next entries, about `most` bytes of them, at least one if there is one."""
        taken: list[OutgoingRpc] = []
        size = 0
        for waiting in self._waiting:
            while waiting and (size < most or not taken):
                entry = waiting.popleft()
                if self._goes(entry):
                    size += len(entry.frame)
                    taken.append(entry)
                    self._release(entry)
        return taken

    def give_way(self, to: Priority | None = None) -> bool:
        """Drop the oldest of the least important entries; only one less important than `to`. False without one."""
        for priority in reversed(Priority):
            waiting = self._waiting[priority]
            while waiting and (to is None or priority > to):
                oldest = waiting.popleft()
                if self._goes(oldest):
                    self._release(oldest)
                    self._lost(oldest)
                    return True
        return False

    def clear(self) -> None:
        """Drop all entries: the peer is gone."""
        for waiting in self._waiting:
            while waiting:
                entry = waiting.popleft()
                if self._goes(entry):
                    self._release(entry)

    def __len__(self) -> int:
        return sum(map(len, self._waiting)) - len(self._withdrawn)

    def _goes(self, entry: OutgoingRpc) -> bool:
        """Return whether an entry whose turn has come was not withdrawn."""
        if entry not in self._withdrawn:
            return True
        self._withdrawn.remove(entry)
        return False

    def _release(self, entry: OutgoingRpc) -> None:
        if entry.message_id is not None and entry.message_id in self._copies:
            copies = self._copies[entry.message_id]
            copies.remove(entry)
            if not copies:
                del self._copies[entry.message_id]
        self._count(-entry.size)
        self._memory.release(entry)

    def _count(self, size: int) -> None:
        self.bytes += size
        self._memory.count(self, size)
