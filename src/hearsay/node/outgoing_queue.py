"""Queues of RPCs to send: one for each peer, with three priorities. Each queue and all queues together are bounded.

IHAVE and IWANT (gossip) are sent last and dropped first. Subscriptions and all other control are sent first and
dropped last. If there is no room for a message, the oldest gossip is dropped; for control, the oldest gossip, then
the oldest messages. If that makes no room, the new entry itself is dropped. Each dropped entry is reported, so that
it is counted and traced. Dropped control is reported to the router, which sends it again.

The router can withdraw a copy of a message that a peer no longer wants. The copy leaves the queue if its RPC has no
other part.

A frame that waits for several peers is in memory once. Its bytes are added once to the total of all queues, but to
the bytes of each queue in full. When the total has no room, entries are dropped from the longest queue of the address
with the most bytes. So a peer that does not read loses entries, and many peers of one address are treated as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from sys import maxsize
from typing import TYPE_CHECKING

from hearsay.core.language.episub_parts import EpisubIHave
from hearsay.core.language.identifiers import MessageId
from hearsay.core.language.rpc import Control, Rpc
from hearsay.core.language.sizes import PartSize
from hearsay.libp2p.resources import Budget

if TYPE_CHECKING:
    from hearsay.node.trace_rows import TracedPart


class Priority(IntEnum):
    CONTROL = 0
    MESSAGE = 1
    GOSSIP = 2


ENTRY_BYTES = 256
"""Bytes of memory of an entry, in addition to its frame."""
TRACED_BYTES = 256
"""Bytes of memory of a part that is traced or counted for metrics."""


@dataclass(slots=True, eq=False)
class OutgoingRpc:
    """An entry of a queue: an encoded RPC, and the facts that are needed when it is sent or dropped."""

    priority: Priority
    frame: bytes
    """The encoded RPC with its length prefix."""
    messages: int
    """Number of messages in the RPC."""
    rpc_to_resend: Rpc | None = None
    """The RPC to send again if the entry is dropped; None unless the priority is CONTROL."""
    traced: tuple[TracedPart, ...] = ()
    message_id: MessageId | None = None
    """The id of the message if the RPC is a single message that may be withdrawn; otherwise None."""
    counted: tuple[PartSize, ...] = ()
    """The parts of the RPC, for metrics."""
    made_s: float = 0.0
    """Time of creation in seconds of `time.monotonic`, for metrics; 0 without metrics."""
    holders: int = 0
    """Number of queues in which the entry waits."""

    @property
    def size(self) -> int:
        """Return the bytes of memory. An RPC to send again is also kept as objects, estimated as three frames."""
        frames = 1 if self.rpc_to_resend is None else 4
        return ENTRY_BYTES + frames * len(self.frame) + (len(self.traced) + len(self.counted)) * TRACED_BYTES


_NO_CONTROL = Control()


def by_priority(rpc: Rpc) -> Iterator[tuple[Priority, Rpc]]:
    """Split an RPC by priority into at most three RPCs, the highest priority first."""
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

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._of_address: dict[str, int] = {}
        """Waiting bytes by address, over all peers of the address."""
        self.queues: set[OutgoingQueue] = set()
        """The queues that are not empty."""

    def count(self, queue: OutgoingQueue, size: int) -> None:
        """Record that the bytes of a queue have changed by `size`, which may be negative."""
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

    def reserve_or_drop(self, entry: OutgoingRpc, queue: OutgoingQueue) -> bool:
        """Reserve memory for an entry of `queue`, and return True.

        An entry that already waits in another queue needs no more memory. Without room, the longest queue of the
        address with the most bytes drops entries, as long as that address has more bytes than the address of `queue`
        would have with the entry. If both queues have the same address, the bytes of the two queues are compared
        instead. As soon as the comparison fails, `queue` drops entries of lower priority. Returns False if `queue`
        has none and there is still no room.
        """
        while not entry.holders and not self._budget.reserve(entry.size):
            longest = max(self.queues, key=self._length, default=queue)
            same = longest.address == queue.address
            ahead, behind = self._length(longest)[same], self._length(queue)[same]
            if ahead > behind + entry.size:
                longest.drop_one()
            elif not queue.drop_one(entry.priority):
                return False
        entry.holders += 1
        return True

    def _length(self, queue: OutgoingQueue) -> tuple[int, int]:
        """Return the waiting bytes of a queue's address, and of the queue."""
        return self._of_address.get(queue.address, 0), queue.bytes


class OutgoingQueue:
    """The queue of one peer, with at most `limit` bytes. `lost` is called with each dropped entry."""

    def __init__(self, limit: int, memory: OutgoingMemory, lost: Callable[[OutgoingRpc], None], address: str) -> None:
        self.address = address
        self._limit = limit
        self._memory = memory
        self._lost = lost
        self._waiting: tuple[deque[OutgoingRpc], ...] = (deque(), deque(), deque())
        self._copies: dict[MessageId, list[OutgoingRpc]] = {}
        """Waiting copies of messages that may be withdrawn, by the id of the message."""
        self._withdrawn: set[OutgoingRpc] = set()
        """Withdrawn entries that are still in `_waiting`, at most half of its messages. Their bytes are released."""
        self.bytes = 0

    def push(self, entry: OutgoingRpc) -> bool:
        """Add an entry. Without room, drop entries of lower priority. Returns False if `entry` itself is dropped."""
        if not (self.make_room(entry.size, entry.priority) and self._memory.reserve_or_drop(entry, self)):
            self._lost(entry)
            return False
        self._waiting[entry.priority].append(entry)
        if entry.message_id is not None:
            self._copies.setdefault(entry.message_id, []).append(entry)
        self._count(entry.size)
        return True

    def withdraw(self, message_id: MessageId) -> list[OutgoingRpc]:
        """Remove the waiting copies of a message that may be withdrawn, and return them."""
        copies = self._copies.pop(message_id, [])
        for copy in copies:
            self._release(copy)
            self._withdrawn.add(copy)
        waiting = self._waiting[Priority.MESSAGE]
        if len(self._withdrawn) > len(waiting) // 2:
            kept = list(filter(self._is_valid, waiting))
            waiting.clear()
            waiting.extend(kept)
        return copies

    def make_room(self, size: int, priority: Priority) -> bool:
        """Drop entries of a lower priority than `priority` until the queue has room for `size` bytes.

        Returns False if there are not enough such entries.
        """
        while self.bytes + size > self._limit:
            if not self.drop_one(priority):
                return False
        return True

    def take(self, most: int) -> list[OutgoingRpc]:
        """Remove and return the next entries: about `most` bytes, but at least one entry unless there is none."""
        taken: list[OutgoingRpc] = []
        size = 0
        for waiting in self._waiting:
            while waiting and (size < most or not taken):
                entry = waiting.popleft()
                if self._is_valid(entry):
                    size += len(entry.frame)
                    taken.append(entry)
                    self._release(entry)
        return taken

    def drop_one(self, below: Priority | None = None) -> bool:
        """Drop the oldest entry of the lowest priority. Returns False if there is no entry to drop.

        With `below`, only an entry of a lower priority than `below` is dropped.
        """
        for priority in reversed(Priority):
            waiting = self._waiting[priority]
            while waiting and (below is None or priority > below):
                oldest = waiting.popleft()
                if self._is_valid(oldest):
                    self._release(oldest)
                    self._lost(oldest)
                    return True
        return False

    def clear(self) -> None:
        """Remove all entries without a report, because the peer or our stream to the peer is gone."""
        self.take(maxsize)

    def __len__(self) -> int:
        return sum(map(len, self._waiting)) - len(self._withdrawn)

    def _is_valid(self, entry: OutgoingRpc) -> bool:
        """Return True if an entry that leaves `_waiting` is not withdrawn. Otherwise, delete it from `_withdrawn`."""
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
