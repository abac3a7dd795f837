"""The application's verdicts on messages. Validators are plain functions, coroutines, or functions on threads.

Rules:

* A topic's validators are asked one after the other. The first that does not accept decides. If a validator fails or
  exceeds its deadline, the message is ignored and its sender is not blamed.
* Plain functions answer at once, on the event loop. Before a coroutine or a function on a thread runs, its message
  waits for one of a few slots, which peers share fairly (`verification.py`). The deadline begins when the message has
  a slot. When another peer sends a copy, the message also waits in the turn of this peer. So no peer can delay a
  message by being the first to send it.
* Messages that the node publishes are also validated, but wait for no slot.
* If replays are refused, a signed message is ignored when an accepted message of its author had the same sequence
  number, or when the number is too low or does not have eight bytes (`sequence_numbers.py`).
* Waiting messages have bounds per peer and in total, in messages and in bytes. `has_room` is checked before the
  router marks a message as seen (`hearsay.node.receive`). A message without room stays in the input of its peer and
  is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutine
from logging import getLogger
from typing import TypeAlias

from hearsay.core.language.events import Verdict
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import Message
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import Tasks
from hearsay.libp2p.resources import Budget
from hearsay.node.conduct import Statistics
from hearsay.node.config import NodeLimits
from hearsay.node.sequence_numbers import NUMBER_BYTES, SequenceNumbers
from hearsay.node.verification import FairSlots

Answer: TypeAlias = "Verdict | bool"
"""The answer of a validator. True means accept, False means reject."""

Validator: TypeAlias = Callable[[Message], "Answer | Awaitable[Answer]"]

OBJECT_BYTES = 1024
"""Bytes of memory of a waiting message, in addition to its data and its encoded form."""

_log = getLogger(__name__)


@dataclass(eq=False)
class Validation:
    """The validators of all topics, and the messages that wait for verdicts."""

    _limits: NodeLimits
    _max_pending: int
    """Maximum messages that wait."""
    share: Budget
    """The budget of all waiting messages. Their bytes are also reserved in the budget of their first sender."""
    _budget_of: Callable[[PeerId], Budget]
    """Returns the budget of a peer."""
    _decided: Callable[[Message, list[PeerId], Verdict], None]
    """Called with a message, its senders and its verdict, unless `ask` has returned the verdict."""
    _statistics: Statistics

    def __post_init__(self) -> None:
        limits = self._limits
        self.numbers: SequenceNumbers | None = None
        """Sequence numbers that authors have used; None unless replays are refused."""
        self._validators: dict[Identifier, list[_DeclaredValidator]] = {}
        self._loop_slots: FairSlots[_Check] = FairSlots(limits.concurrent_validations, self._start)
        self._thread_slots: FairSlots[_Check] = FairSlots(limits.validation_threads, self._start)
        self._pool: ThreadPoolExecutor | None = None
        self._checks: dict[Identifier, _Check] = {}
        """Messages that wait for a verdict, by id."""
        self._accounts: dict[PeerId, _Account] = {}
        self._tasks = Tasks()

    def add(self, topic: str, validator: Validator, threads: bool) -> None:
        self._validators.setdefault(topic, []).append(_DeclaredValidator(validator, threads))

    def remove(self, topic: str, validator: Validator) -> None:
        declared = self._validators[topic]
        declared.remove(next(each for each in declared if each.validator == validator))
        if not declared:
            del self._validators[topic]

    @property
    def in_use(self) -> bool:
        """Return True if any topic has validators, so that messages may have to wait."""
        return bool(self._validators)

    @property
    def checks_messages(self) -> bool:
        """Return True if any topic has validators or replays are refused; otherwise all messages are accepted."""
        return bool(self._validators) or self.numbers is not None

    def pending(self, peer: PeerId) -> int:
        """Return the number of a peer's messages that wait for a verdict."""
        account = self._accounts.get(peer)
        return 0 if account is None else account.count

    @property
    def full(self) -> bool:
        """Return True if there is no room for a message of any peer."""
        waiting = len(self._checks)
        return waiting > 0 and (waiting >= self._max_pending or self.share.free <= OBJECT_BYTES)

    def has_room(self, peer: PeerId, message: Message) -> bool:
        """Return True if `message` may wait for verdicts, or if its topic has no validators.

        A peer may use its fair share of bytes (`Budget.fair`). If no message waits, there is always room. So no input
        is paused for ever.
        """
        if not self._checks or message.topic not in self._validators:
            return True
        room = self._max_pending - len(self._checks)
        cost = weight_of(message)
        account = self._accounts.get(peer)
        if account is None:
            return room > 0 and cost <= self._new_budget(peer).fair
        return account.count < min(room, self._limits.pending_validations_per_peer) and cost <= account.budget.fair

    def ask(self, message: Message, sender: PeerId) -> Verdict | None:
        """Return the verdict on a message of a peer if it is known at once. Otherwise return None, and later call
        `_decided`."""
        if self.numbers is not None and self._is_replay(self.numbers.is_new, message):
            return Verdict.IGNORE
        declared = self._validators.get(message.topic)
        if not declared:
            return self._final(message, Verdict.ACCEPT)
        check = _Check(message, [sender], iter(declared.copy()))
        verdict = self._next_step(check)
        if verdict is None:
            self._checks[message.id] = check
            account = self._account(sender)
            account.count += 1
            cost = weight_of(message)
            if account.budget.reserve(cost):
                check.reserved = cost
            self._enter(check)
            return None
        return self._final(message, verdict)

    async def check_own(self, message: Message) -> None:
        """Raise `ValueError` unless all validators accept a message of this node. The message waits for no slot.

        Raises `TimeoutError` if a validator exceeds its deadline. An exception of a validator is passed on.
        """
        for declared in tuple(self._validators.get(message.topic, ())):
            deadline_s = self._limits.validation_s
            async with asyncio.timeout(deadline_s):
                on_thread = _thread_answer(self._submit(declared, message)) if declared.threads else None
                answer = declared.validator(message) if on_thread is None else on_thread
                verdict = _verdict(await answer if isawaitable(answer) else answer)
            if verdict is not Verdict.ACCEPT:
                raise ValueError(f"topic {message.topic}: a validator answers {verdict.name}, so nothing is sent")

    def add_sender(self, message_id: Identifier, peer: Identifier | None) -> None:
        """Let a message that waits for a slot also wait in the turns of another peer, which has sent a copy."""
        check = self._checks.get(message_id) if self._checks else None
        if check is None or not isinstance(peer, bytes) or check.running or peer in check.peers:
            return
        if self.pending(peer) < self._limits.pending_validations_per_peer:
            self._account(peer).count += 1
            check.peers.append(peer)
            self._slots(check).enter(peer, check)

    async def close(self) -> None:
        self._loop_slots.clear()
        self._thread_slots.clear()
        await self._tasks.close()
        for check in self._checks.values():
            if iscoroutine(check.answer):
                check.answer.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _next_step(self, check: _Check) -> Verdict | None:
        """Ask the remaining validators until one does not accept, and return the verdict.

        Returns None if a validator cannot answer at once; it is then `check.declared`.
        """
        for declared in check.steps:
            if declared.threads:
                check.declared, check.answer = declared, None
                return None
            try:
                answer = declared.validator(check.message)
            except Exception:
                _log.exception("a validator failed")
                return Verdict.IGNORE
            if isawaitable(answer):
                check.declared, check.answer = declared, answer
                return None
            verdict = _verdict(answer)
            if verdict is not Verdict.ACCEPT:
                return verdict
        return Verdict.ACCEPT

    def _enter(self, check: _Check) -> None:
        check.running = False
        slots = self._slots(check)
        for peer in check.peers:
            if not check.running:
                slots.enter(peer, check)

    def _slots(self, check: _Check) -> FairSlots[_Check]:
        return self._thread_slots if check.answer is None else self._loop_slots

    def _start(self, peer: PeerId, check: _Check) -> None:
        check.running = True
        slots = self._slots(check)
        for other in check.peers:
            if other != peer:
                slots.withdraw(other, check)
        if check.answer is None:
            self._tasks.start(self._wait(check, self._on_thread(peer, check), lambda: None))
        else:
            self._tasks.start(self._wait(check, check.answer, lambda: self._loop_slots.leave(peer)))

    def _on_thread(self, peer: PeerId, check: _Check) -> Awaitable[Answer]:
        """Run a validator on a thread. Its slot is freed when the validator returns, perhaps after the deadline."""
        loop = asyncio.get_running_loop()
        job = self._submit(check.declared, check.message)

        def ended(_: Future[Answer | Awaitable[Answer]]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._thread_slots.leave, peer)

        job.add_done_callback(ended)
        return _thread_answer(job)

    def _submit(self, declared: _DeclaredValidator, message: Message) -> Future[Answer | Awaitable[Answer]]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._limits.validation_threads, "hearsay-validator")
        return self._pool.submit(declared.validator, message)

    async def _wait(self, check: _Check, answer: Awaitable[Answer], leave: Callable[[], None]) -> None:
        verdict: Verdict | None = Verdict.IGNORE
        try:
            async with asyncio.timeout(self._limits.validation_s):
                verdict = _verdict(await answer)
        except TimeoutError:
            self._statistics.validations_timed_out += 1
        except Exception:
            _log.exception("a validator failed")
        leave()
        if verdict is Verdict.ACCEPT:
            verdict = self._next_step(check)
        if verdict is None:
            self._enter(check)
        else:
            self._finish(check, verdict)

    def _finish(self, check: _Check, verdict: Verdict) -> None:
        message = check.message
        del self._checks[message.id]
        sender = check.peers[0]
        self._accounts[sender].budget.release(check.reserved)
        for peer in check.peers:
            account = self._accounts[peer]
            account.count -= 1
            if not account.count:
                del self._accounts[peer]
        self._decided(message, check.peers, self._final(message, verdict))

    def _final(self, message: Message, verdict: Verdict) -> Verdict:
        """Return the final verdict: a message that validators accept is ignored if it is a replay.

        Only an accepted message marks its sequence number as used.
        """
        if verdict is Verdict.ACCEPT and self.numbers is not None and self._is_replay(self.numbers.take, message):
            return Verdict.IGNORE
        return verdict

    def _is_replay(self, first_time: Callable[[PeerId, bytes], bool], message: Message) -> bool:
        """Return True, and count a replay, if a signed message is a replay. An unsigned message is no replay.

        `first_time` is called with the author and the number; it returns True if the number has not been used.
        """
        author, number = message.source, message.seqno
        if message.signature is None or not isinstance(author, bytes) or number is None:
            return False
        if len(number) == NUMBER_BYTES and first_time(author, number):
            return False
        self._statistics.replays += 1
        return True

    def _account(self, peer: PeerId) -> _Account:
        account = self._accounts.get(peer)
        if account is None:
            account = self._accounts[peer] = _Account(self._new_budget(peer))
        return account

    def _new_budget(self, peer: PeerId) -> Budget:
        limit = self._limits.pending_validation_bytes_per_peer
        return Budget("validations", limit, (self.share, self._budget_of(peer)))


@dataclass(frozen=True, slots=True)
class _DeclaredValidator:
    validator: Validator
    threads: bool


@dataclass(slots=True)
class _Account:
    """The number of messages of a peer that wait for a verdict, and the budget of their bytes."""

    budget: Budget
    count: int = 0


@dataclass(slots=True, eq=False)
class _Check:
    """The validation of a message by the validators of its topic."""

    message: Message
    peers: list[PeerId]
    """The senders in the order of their copies; the message waits in the turn of each sender."""
    steps: Iterator[_DeclaredValidator]
    declared: _DeclaredValidator = field(init=False)
    """The validator whose answer the message waits for."""
    answer: Awaitable[Answer] | None = None
    """The awaitable answer; None if the validator runs on a thread."""
    running: bool = False
    reserved: int = 0


async def _thread_answer(job: Future[Answer | Awaitable[Answer]]) -> Answer:
    answer = await asyncio.wrap_future(job)
    if isawaitable(answer):
        if iscoroutine(answer):
            answer.close()
        raise TypeError("a validator for threads must be a plain function")
    return answer


def weight_of(message: Message) -> int:
    """Return the bytes of memory of a message: its fields and its encoded form."""
    return OBJECT_BYTES + 2 * len(message.data if message.encoded is None else message.encoded)


def _verdict(answer: Answer) -> Verdict:
    if isinstance(answer, Verdict):
        return answer
    return Verdict.ACCEPT if answer else Verdict.REJECT
