"""Tests that run in an event loop and wait for a condition; a test whose condition does not become true fails.

The limit is a number of turns of the loop, not of seconds: both ends of a connection are in one loop, which makes few
turns while they work. On a busy machine the same turns take longer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

TURN_S = 0.01
TURNS = int(os.environ.get("HEARSAY_TURNS_OF_A_TEST", "12000"))
"""Mutants get fewer turns; their tests never need as many when the package is unchanged."""


@asynccontextmanager
async def patience() -> AsyncIterator[None]:
    """Raise `TimeoutError` after the turns of a test; closing may then take as many turns again."""
    async with _turns(2 * TURNS), _turns(TURNS):
        yield


@asynccontextmanager
async def _turns(left: int) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()

    def turn() -> None:
        nonlocal left, next_turn
        left -= 1
        if left:
            next_turn = loop.call_later(TURN_S, turn)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        next_turn = loop.call_later(TURN_S, turn)
        try:
            yield
        finally:
            next_turn.cancel()


def run(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Make a test from a coroutine function without arguments. The test is no lambda, because pytest's marks would
    take a lambda for their argument.
    """

    async def bounded():
        async with patience():
            await test()

    def in_a_loop():
        asyncio.run(bounded())

    return in_a_loop


async def until(condition):
    """Let the loop run until a condition holds; the patience of the test bounds it."""
    while not condition():
        await asyncio.sleep(0.005)
