"""Tests that run in an event loop and wait for what they want to see; a deadline ends those that wait in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

DEADLINE_S = 120


def run(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """A test of a coroutine function without arguments. It is no lambda, which a mark would take for its argument."""

    async def bounded():
        async with asyncio.timeout(DEADLINE_S):
            await test()

    def in_a_loop():
        asyncio.run(bounded())

    return in_a_loop


async def until(condition):
    """Let the loop run until something is so; the test's deadline bounds it."""
    while not condition():
        await asyncio.sleep(0.005)
