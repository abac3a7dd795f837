"""Tasks that are cancelled when their owner closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[None, None, object]) -> asyncio.Task[object]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
