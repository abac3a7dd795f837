"""A joined topic, as the application sees it: publish to it, iterate over its messages, leave it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.names.peer_id import to_text
from hearsay.partial.application import Outcome

OBJECT_BYTES = 512
"""What a message that waits weighs beside its data."""


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


class Backlogs:
    """What waits for the application in all topics; when there is no room, the fullest one loses its oldest."""

    def __init__(self, room: Budget, count_per_topic: int, bytes_per_topic: int) -> None:
        self._room = room
        self._count_per_topic = count_per_topic
        self._bytes_per_topic = bytes_per_topic
        self._backlogs: set[Backlog] = set()

    def new(self) -> Backlog:
        backlog = Backlog()
        self._backlogs.add(backlog)
        return backlog

    def put(self, backlog: Backlog, message: Received) -> int:
        """Keep a message for the application; how many were lost for it."""
        weight = _weight(message)
        lost = 0
        while backlog.messages and (
            len(backlog.messages) >= self._count_per_topic or backlog.bytes + weight > self._bytes_per_topic
        ):
            self.take(backlog)
            lost += 1
        while not self._room.reserve(weight):
            fullest = max(self._backlogs, key=lambda each: each.bytes)
            if not fullest.messages:
                return lost + 1
            self.take(fullest)
            lost += 1
        backlog.messages.append(message)
        backlog.bytes += weight
        return lost

    def take(self, backlog: Backlog) -> Received:
        """The oldest message."""
        message = backlog.messages.popleft()
        if backlog in self._backlogs:
            weight = _weight(message)
            backlog.bytes -= weight
            self._room.release(weight)
        return message

    def let_go(self, backlog: Backlog) -> None:
        """Nothing more comes; what is left is the application's, to read or to forget."""
        if backlog in self._backlogs:
            self._backlogs.remove(backlog)
            self._room.release(backlog.bytes)


class Backlog:
    """Of one topic."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.bytes = 0
        self.messages: deque[Received] = deque()


def _weight(message: Received) -> int:
    return OBJECT_BYTES + len(message.data)


class Publisher(Protocol):
    """The node, as its topics see it."""

    async def publish(self, topic: str, data: bytes, *, wait_for_peers: bool = False) -> Published: ...

    async def leave(self, topic: str) -> None: ...

    def follow(self, topic: str, outcome: Outcome) -> None: ...


class Topic:
    """Iterate over it for messages. Who takes them too slowly misses the oldest; the node counts them."""

    def __init__(self, node: Publisher, name: str, backlogs: Backlogs) -> None:
        self.name = name
        self._node = node
        self._backlogs = backlogs
        self._backlog = backlogs.new()
        self._something = asyncio.Event()
        self._left = False
        self._failure: Exception | None = None

    async def publish(self, data: bytes, *, wait_for_peers: bool = False) -> Published:
        return await self._node.publish(self.name, data, wait_for_peers=wait_for_peers)

    async def leave(self) -> None:
        await self._node.leave(self.name)

    def follow(self, outcome: Outcome) -> None:
        """Tell peers of what the application of this topic's partial messages added."""
        self._node.follow(self.name, outcome)

    def put(self, message: Received) -> int:
        """Hand over a message; how many were lost for it, of this topic or of another."""
        lost = self._backlogs.put(self._backlog, message)
        if not self._something.is_set():
            self._something.set()
        return lost

    def close(self) -> None:
        self._backlogs.let_go(self._backlog)
        self._left = True
        self._something.set()

    def fail(self, failure: Exception) -> None:
        """Nothing comes any more, and not because anybody wanted it so."""
        self._failure = failure
        self._something.set()

    async def next(self) -> Received:
        """The next message; `StopAsyncIteration` when the topic was left, `RouterFailed` when the router failed."""
        while not self._backlog.messages:
            if self._failure is not None:
                raise self._failure
            if self._left:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        return self._backlogs.take(self._backlog)

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        return await self.next()
