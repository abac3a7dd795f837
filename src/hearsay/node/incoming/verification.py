"""Verification of signatures on threads, and slots that peers share fairly.

Cheap signatures are checked on the event loop, because passing them to a thread would take as long.

A peer has one batch at a time; messages that arrive meanwhile are in its next batch. Batches wait in one queue, so
each round gives every peer about `BATCH_US` of a thread. The libraries release the interpreter lock during a check.
Copies of a message are not checked twice: a batch waits while the same bytes are checked for another peer, and a
message that has been seen by then needs no check. A forged copy has other bytes and cannot delay the authentic one.

A peer may hold as many slots as stay free: a single peer gets half of them, and n peers with as many as they can get
leave as many free as each of them holds. So the next peer gets a slot at once. Waiting peers get free slots in turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from hearsay.core.language.rpc import Message
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.wire.signing import Fault, signature_check_us, signature_fault

EXPENSIVE_US = 250
"""Microseconds; signatures whose check takes longer are checked on threads."""
BATCH_US = 2000
"""Maximum microseconds of checks in a batch, which has at least one check."""

Verdicts: TypeAlias = dict[int, "Fault | None"]
"""Verdicts by the identity (`id`) of the message; None for a valid signature."""


@dataclass(slots=True, eq=False)
class Batch:
    """Messages of one peer whose signatures need a check."""

    messages: list[Message]
    decided: Callable[[Verdicts], None]
    """Called with the verdicts. A message that no longer needs a check has no verdict."""


class BatchQueue:
    """The batches that wait for a thread, and the messages that are being checked."""

    def __init__(self, slots: int, needed: Callable[[Message], bool]) -> None:
        self._free = slots
        self._needed = needed
        self.waiting: list[Batch] = []
        self._checked: dict[bytes, None] = {}

    def next(self) -> Batch | None:
        """Remove and return the next batch that can start, reduced to the messages that still need a check."""
        if not self._free:
            return None
        for place, batch in enumerate(self.waiting):
            messages = [message for message in batch.messages if self._needed(message)]
            if any(message.encoded in self._checked for message in messages):
                continue
            del self.waiting[place]
            batch.messages = messages
            self._free -= 1
            for message in messages:
                assert message.encoded is not None
                self._checked[message.encoded] = None
            return batch
        return None

    def finish(self, batch: Batch) -> None:
        self._free += 1
        for message in batch.messages:
            assert message.encoded is not None
            self._checked.pop(message.encoded, None)

    def remove(self, batch: Batch) -> None:
        """Remove the batch of a peer that is gone, if the batch waits."""
        if batch in self.waiting:
            self.waiting.remove(batch)


class Verification:
    """Checks on threads. `needed` returns False for a message that needs no check because it has been seen."""

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
    """Return True if one of the signatures is expensive to check."""
    return any(signature_check_us(message) > EXPENSIVE_US for message in messages)


def check(messages: list[Message]) -> Verdicts:
    return {id(message): signature_fault(message) for message in messages}


Work = TypeVar("Work", bound=Hashable)


class FairSlots(Generic[Work]):
    """Slots that peers share fairly. `start` is called with work that gets a slot, to be freed by `leave`."""

    def __init__(self, count: int, start: Callable[[PeerId, Work], None]) -> None:
        self._free = count
        self._start = start
        self._running: dict[PeerId, int] = {}
        self._waiting: dict[PeerId, OrderedDict[Work, None]] = {}
        self._turns: deque[PeerId] = deque()
        """The waiting peers in the order of their turns."""

    def enter(self, peer: PeerId, work: Work) -> None:
        """Queue work for a slot, after other work of the peer."""
        if peer not in self._waiting:
            self._waiting[peer] = OrderedDict()
            self._turns.append(peer)
        self._waiting[peer][work] = None
        self._fill()

    def withdraw(self, peer: PeerId, work: Work) -> None:
        """Remove waiting work."""
        waiting = self._waiting.get(peer)
        if waiting is not None and work in waiting:
            del waiting[work]
            if not waiting:
                del self._waiting[peer]
                self._turns.remove(peer)

    def leave(self, peer: PeerId) -> None:
        """Free a slot of the peer."""
        self._free += 1
        self._running[peer] -= 1
        if not self._running[peer]:
            del self._running[peer]
        self._fill()

    def clear(self) -> None:
        """Remove all waiting work."""
        self._waiting.clear()
        self._turns.clear()

    def _fill(self) -> None:
        passed_over = 0
        while self._free and passed_over < len(self._turns):
            peer = self._turns.popleft()
            running = self._running.get(peer, 0)
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
