"""A joined topic, as the application sees it: publish to it, iterate over its messages, leave it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hearsay.libp2p.peer_id import to_text

if TYPE_CHECKING:
    from hearsay.node.node import Node


@dataclass(frozen=True, slots=True)
class Received:
    """A message for the application. `author` is None when it is not signed, `received_from` for one's own."""

    data: bytes
    topic: str
    author: bytes | None
    message_id: bytes
    received_from: bytes | None

    @property
    def author_text(self) -> str | None:
        return None if self.author is None else to_text(self.author)


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a message: how many peers it went to, how many had no room, whether it waits for any."""

    message_id: bytes
    sent: int
    dropped: int
    waiting: bool


class Topic:
    """Iterate over it for messages. Who takes them too slowly misses the oldest; the node counts them."""

    def __init__(self, node: Node, name: str, limit: int) -> None:
        self.name = name
        self._node = node
        self._limit = limit
        self._messages: deque[Received] = deque()
        self._something = asyncio.Event()
        self._left = False
        self._failure: Exception | None = None

    async def publish(self, data: bytes, *, wait_for_peers: bool = False) -> Published:
        return await self._node.publish(self.name, data, wait_for_peers=wait_for_peers)

    async def leave(self) -> None:
        await self._node.leave(self.name)

    def put(self, message: Received) -> bool:
        """Hand over a message; False when an older one was lost for it."""
        self._messages.append(message)
        if not self._something.is_set():
            self._something.set()
        if len(self._messages) > self._limit:
            self._messages.popleft()
            return False
        return True

    def close(self) -> None:
        self._left = True
        self._something.set()

    def fail(self, failure: Exception) -> None:
        """Nothing comes any more, and not because anybody wanted it so."""
        self._failure = failure
        self._something.set()

    async def next(self) -> Received:
        """The next message; `StopAsyncIteration` when the topic was left, `RouterFailed` when the router failed."""
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            if self._left:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        return self._messages.popleft()

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        return await self.next()
