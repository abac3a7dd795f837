"""Verification of signatures on threads, and slots that peers share fairly.

Cheap signatures are checked on the event loop, because passing them to a thread would take as long.

Messages of a peer are checked in batches. A peer has one batch at a time; messages that arrive meanwhile are in its
next batch. Batches wait in one queue. So in each round, every peer gets about `BATCH_US` of a thread's time. The
libraries release the interpreter lock during a check. Copies of a message are not checked twice: a batch waits while
the same bytes are checked for another peer, and a message that has been seen by then needs no check. A forged copy
has other bytes, so it cannot delay the authentic copy.

A peer that has slots gets another slot only while more slots are free than the peer has. So a single peer gets about
half of the slots, and a slot is left for the next peer. Waiting peers get free slots in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from hearsay.core.language.rpc import Message
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.wire.signing import Fault, signature_check_us, signature_fault

EXPENSIVE_US = 250
"""Microseconds. A signature whose check takes longer is checked on a thread."""
BATCH_US = 2000
"""Maximum microseconds of all checks of a batch. A batch may exceed it if it has only one check."""

Verdicts: TypeAlias = dict[int, "Fault | None"]
"""The fault of each checked message, by the `id()` of the message object; None for a valid signature."""


@dataclass(slots=True, eq=False)
class Batch:
    """Messages of one peer whose signatures need a check."""

    messages: list[Message]
    decided: Callable[[Verdicts], None]
    """Called with the verdicts. A message that no longer needed a check has no verdict."""


class BatchQueue:
    """The batches that wait for a thread, and the messages that are being checked."""

    def __init__(self, slots: int, needed: Callable[[Message], bool]) -> None:
        self._free = slots
        self._needed = needed
        self.waiting: list[Batch] = []
        self._checked: set[bytes | None] = set()
        """The encoded forms of the messages that are being checked."""

    def next(self) -> Batch | None:
        """Remove and return the next batch that can start, reduced to the messages that still need a check.

        Returns None if no thread is free or no batch can start.
        """
        if not self._free:
            return None
        for place, batch in enumerate(self.waiting):
            messages = [message for message in batch.messages if self._needed(message)]
            if any(message.encoded in self._checked for message in messages):
                continue
            del self.waiting[place]
            batch.messages = messages
            self._free -= 1
            self._checked.update(message.encoded for message in messages)
            return batch
        return None

    def finish(self, batch: Batch) -> None:
        self._free += 1
        self._checked.difference_update(message.encoded for message in batch.messages)

    def remove(self, batch: Batch) -> None:
        """Remove the batch of a peer that is gone, if the batch waits."""
        if batch in self.waiting:
            self.waiting.remove(batch)


class Verification:
    """Checks of signatures on threads.

    `needed` returns False for a message that has been seen or whose topic is not joined.
    """

    def __init__(self, threads: int, needed: Callable[[Message], bool]) -> None:
        self._threads = threads
        self._queue = BatchQueue(threads, needed)
        self._pool: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Future[Verdicts]] = set()
        self._closed = False

    def ask(self, batch: Batch) -> None:
        self._queue.waiting.append(batch)
        self._begin()

    def forget(self, batch: Batch) -> None:
        """Drop a batch whose verdicts are no longer needed."""
        batch.decided = lambda _: None
        self._queue.remove(batch)

    async def close(self) -> None:
        """Wait for the running checks, then end the threads."""
        self._closed = True
        self._queue.waiting.clear()
        if self._running:
            await asyncio.wait(self._running)
        if self._pool is not None:
            self._pool.shutdown()

    def _begin(self) -> None:
        while not self._closed and (batch := self._queue.next()) is not None:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "hearsay-signatures")
            running = asyncio.get_running_loop().run_in_executor(self._pool, check, batch.messages)
            self._running.add(running)
            running.add_done_callback(lambda done, batch=batch: self._done(batch, done))

    def _done(self, batch: Batch, running: asyncio.Future[Verdicts]) -> None:
        self._running.discard(running)
        self._queue.finish(batch)
        if not self._closed:
            self._begin()
            batch.decided(running.result())


def is_expensive(messages: list[Message]) -> bool:
    """Return True if the signature of one of the messages is expensive to check (`EXPENSIVE_US`)."""
    return any(signature_check_us(message) > EXPENSIVE_US for message in messages)


def check(messages: list[Message]) -> Verdicts:
    return {id(message): signature_fault(message) for message in messages}


Work = TypeVar("Work", bound=Hashable)


class FairSlots(Generic[Work]):
    """Slots that peers share fairly.

    `start` is called with a peer and its work when the work gets a slot. `leave` frees the slot.
    """

    def __init__(self, count: int, start: Callable[[PeerId, Work], None]) -> None:
        self._free = count
        self._start = start
        self._running: Counter[PeerId] = Counter()
        self._waiting: dict[PeerId, OrderedDict[Work, None]] = {}
        self._turns: deque[PeerId] = deque()
        """The waiting peers in the order of their turns."""

    def enter(self, peer: PeerId, work: Work) -> None:
        """Queue work of a peer for a slot, after the earlier work of this peer."""
        if peer not in self._waiting:
            self._waiting[peer] = OrderedDict()
            self._turns.append(peer)
        self._waiting[peer][work] = None
        self._fill()

    def withdraw(self, peer: PeerId, work: Work) -> None:
        """Remove work of a peer if it still waits for a slot."""
        waiting = self._waiting.get(peer)
        if waiting is not None and work in waiting:
            del waiting[work]
            if not waiting:
                del self._waiting[peer]
                self._turns.remove(peer)

    def leave(self, peer: PeerId) -> None:
        """Free one slot of a peer, because its work has ended."""
        self._free += 1
        self._running -= Counter((peer,))  # this also removes a peer that has no slot left
        self._fill()

    def clear(self) -> None:
        """Remove all waiting work."""
        self._waiting.clear()
        self._turns.clear()

    def _fill(self) -> None:
        passed_over = 0
        while self._free and passed_over < len(self._turns):
            peer = self._turns.popleft()
            running = self._running[peer]
            if running and running >= self._free:
                self._turns.append(peer)
                passed_over += 1
                continue
            passed_over = 0
            waiting = self._waiting[peer]
            work, _ = waiting.popitem(last=False)
            if waiting:
                self._turns.append(peer)
            else:
                del self._waiting[peer]
            self._free -= 1
            self._running[peer] = running + 1
            self._start(peer, work)
