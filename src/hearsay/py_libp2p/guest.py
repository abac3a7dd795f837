"""py-libp2p and trio, loaded on demand; trio runs as a guest of the asyncio loop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from hearsay.extras import MissingExtra, pip_install


def library(name: str) -> Any:
    """A module of py-libp2p, or of what comes with it."""
    loaded = "libp2p" in sys.modules
    try:
        module = import_module(name)
    except ImportError:
        raise MissingExtra(f"a py-libp2p host needs py-libp2p 0.8: {pip_install('libp2p')}") from None
    if not loaded and "LIBP2P_DEBUG" not in os.environ:
        # It logs every failed dial and negotiation as an error; callers get them as exceptions.
        logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    return module


T = TypeVar("T")


class Guest:
    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Guest]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._trio = library("trio")
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._nursery: Any = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    @classmethod
    async def join(cls) -> Guest:
        """The loop's guest, for one more user; each of them leaves it once."""
        loop = asyncio.get_running_loop()
        guest = cls._of_loop.get(loop)
        if guest is None:
            guest = cls._of_loop[loop] = cls()
        guest._users += 1
        await asyncio.shield(guest._ready)
        return guest

    async def leave(self) -> None:
        self._users -= 1
        if not self._users:
            del self._of_loop[self._loop]
            self._nursery.cancel_scope.cancel()
            await self._ended

    def call(self, work: Callable[..., Awaitable[T]], *arguments: object) -> asyncio.Future[T]:
        """Start trio work; its result or error comes by the future."""
        future: asyncio.Future[T] = self._loop.create_future()
        scope = self._trio.CancelScope()

        async def perform() -> None:
            with scope:
                try:
                    result = await work(*arguments)
                except Exception as error:
                    if not future.done():
                        future.set_exception(error)
                else:
                    if not future.done():
                        future.set_result(result)
            if not future.done():
                future.cancel()

        future.add_done_callback(lambda done: scope.cancel() if done.cancelled() else None)
        self._nursery.start_soon(perform)
        return future

    async def _main(self) -> None:
        async with self._trio.open_nursery() as nursery:
            self._nursery = nursery
            self._ready.set_result(None)
            await self._trio.sleep_forever()

    def _done(self, outcome: Any) -> None:
        try:
            outcome.unwrap()
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
