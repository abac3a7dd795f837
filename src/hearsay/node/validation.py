"""The application's verdict on messages: validators, plain or async, with a deadline and bounded concurrency.

A topic's validators are asked one after the other; the first that does not accept decides. A validator that fails or
takes too long has ignored the message: that is our fault, not the sender's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from logging import getLogger
from typing import TypeAlias

from hearsay.core.events import Verdict
from hearsay.core.rpc import Message
from hearsay.node.statistics import Statistics

Validator: TypeAlias = Callable[[Message], "Verdict | bool | Awaitable[Verdict | bool]"]
"""True stands for accept, False for reject."""

_log = getLogger(__name__)


class Validation:
    def __init__(
        self,
        concurrent: int,
        deadline_s: float,
        decided: Callable[[Message, bytes, Verdict], None],
        statistics: Statistics,
    ) -> None:
        self._validators: dict[str, list[Validator]] = {}
        self._slots = asyncio.Semaphore(concurrent)
        self._deadline_s = deadline_s
        self._decided = decided
        self._tasks: set[asyncio.Task[None]] = set()
        self._statistics = statistics

    def add(self, topic: str, validator: Validator) -> None:
        self._validators.setdefault(topic, []).append(validator)

    def remove(self, topic: str, validator: Validator) -> None:
        self._validators[topic].remove(validator)

    def ask(self, message: Message, sender: bytes) -> Verdict | None:
        """The verdict if it is known at once; None when `decided` will be called with it."""
        for place, validator in enumerate(self._validators.get(str(message.topic), ())):
            try:
                answer = validator(message)
            except Exception:
                _log.exception("a validator failed")
                return Verdict.IGNORE
            if isawaitable(answer):
                rest = self._validators[str(message.topic)][place + 1 :]
                task = asyncio.ensure_future(self._wait(message, sender, answer, rest))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return None
            verdict = _verdict(answer)
            if verdict is not Verdict.ACCEPT:
                return verdict
        return Verdict.ACCEPT

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(
        self, message: Message, sender: bytes, first: Awaitable[Verdict | bool], rest: list[Validator]
    ) -> None:
        try:
            async with asyncio.timeout(self._deadline_s), self._slots:
                verdict = _verdict(await first)
                for validator in rest:
                    if verdict is not Verdict.ACCEPT:
                        break
                    answer = validator(message)
                    verdict = _verdict(await answer if isawaitable(answer) else answer)
        except TimeoutError:
            self._statistics.validations_timed_out += 1
            verdict = Verdict.IGNORE
        except Exception:
            _log.exception("a validator failed")
            verdict = Verdict.IGNORE
        self._decided(message, sender, verdict)


def _verdict(answer: Verdict | bool) -> Verdict:
    if isinstance(answer, Verdict):
        return answer
    return Verdict.ACCEPT if answer else Verdict.REJECT
