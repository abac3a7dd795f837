"""Topics for the application: their waiting messages, and whether a message would reach a peer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from hearsay.core.language.actions import Deliver
from hearsay.core.language.events import Publish
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.rpc import Message
from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.names.peer_id import to_text
from hearsay.node.driver import Driver
from hearsay.partial.exchange import Outcome

OBJECT_BYTES = 512
"""Memory of a waiting message, in addition to its data."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message for the application. `author` is None without one, `received_from` if this node published it."""

    data: bytes
    topic: str
    author: bytes | None
    message_id: bytes
    received_from: bytes | None

    @property
    def author_text(self) -> str | None:
        return None if self.author is None else to_text(self.author)


_received = fast_init(Received)


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication: the numbers of peers to which the message is sent (`sent`) and whose queue has no
    room for it (`dropped`), and whether it waits for a first peer."""

    message_id: bytes
    sent: int
    dropped: int
    waiting: bool


class JoinedTopics:
    """The joined topics of a node, with the messages that wait for the application.

    When there is no room, the topic with the most bytes loses its oldest message.
    """

    def __init__(self, room: Budget, max_messages_per_topic: int, max_bytes_per_topic: int) -> None:
        self._room = room
        self._max_messages = max_messages_per_topic
        self._max_bytes = max_bytes_per_topic
        self._topics: dict[str, Topic] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def add(self, node: Publisher, name: str) -> Topic:
        topic = self._topics[name] = Topic(node, name, self)
        return topic

    def remove(self, name: str) -> Topic | None:
        """Remove a topic. Its waiting messages can still be read, but no longer count."""
        topic = self._topics.pop(name, None)
        if topic is not None:
            self._room.release(topic.unread_bytes)
        return topic

    def deliver(self, action: Deliver) -> int:
        """Keep a message for the application. Returns the number of dropped messages."""
        message, sender = action.message, action.received_from
        topic = self._topics.get(str(message.topic))
        if topic is None:
            return 0
        assert sender is None or isinstance(sender, bytes)
        assert message.source is None or isinstance(message.source, bytes)
        assert isinstance(message.id, bytes)
        lost = self._put(topic, _received(message.data, topic.name, message.source, message.id, sender))
        topic.changed.set()
        return lost

    def take(self, topic: Topic) -> Received:
        """Remove and return the oldest message of a topic."""
        message = topic.unread.popleft()
        if self._topics.get(topic.name) is topic:
            weight = _weight(message)
            topic.unread_bytes -= weight
            self._room.release(weight)
        return message

    def fail(self, failure: Exception) -> None:
        """End all topics with a failure."""
        for topic in self._topics.values():
            topic.end(failure)

    def _put(self, topic: Topic, message: Received) -> int:
        weight = _weight(message)
        lost = 0
        while topic.unread and (
            len(topic.unread) >= self._max_messages or topic.unread_bytes + weight > self._max_bytes
        ):
            self.take(topic)
            lost += 1
        while not self._room.reserve(weight):
            fullest = max(self._topics.values(), key=lambda each: each.unread_bytes)
            if not fullest.unread:
                return lost + 1
            self.take(fullest)
            lost += 1
        topic.unread.append(message)
        topic.unread_bytes += weight
        return lost


def _weight(message: Received) -> int:
    return OBJECT_BYTES + len(message.data)


class Publisher(Protocol):
    """The node, as seen by its topics."""

    async def publish(self, topic: str, data: bytes, *, wait_for_peers: bool = False) -> Published: ...

    async def leave(self, topic: str) -> None: ...

    def follow(self, topic: str, outcome: Outcome) -> None: ...


class Topic:
    """A joined topic. Iterate over it to get messages; if the application is too slow, the oldest are dropped."""

    def __init__(self, node: Publisher, name: str, joined: JoinedTopics) -> None:
        self.name = name
        self._node = node
        self._joined = joined
        self.unread: deque[Received] = deque()
        self.unread_bytes = 0
        self.changed = asyncio.Event()
        """Set when a message arrives or the topic ends."""
        self._ended: Exception | None = None

    async def publish(self, data: bytes, *, wait_for_peers: bool = False) -> Published:
        return await self._node.publish(self.name, data, wait_for_peers=wait_for_peers)

    async def leave(self) -> None:
        await self._node.leave(self.name)

    def follow(self, outcome: Outcome) -> None:
        """Act on the outcome of parts that the application has added to a partial message: pass its events to the
        router, and publish the full message if the parts complete it.
        """
        self._node.follow(self.name, outcome)

    def end(self, reason: Exception) -> None:
        """End the topic: `next` raises `reason` when no message waits."""
        self._ended = reason
        self.changed.set()

    async def next(self) -> Received:
        """Return the next message. Raises `StopAsyncIteration` after `leave`, `RouterFailed` if the router failed."""
        while not self.unread:
            if self._ended is not None:
                raise self._ended
            self.changed.clear()
            await self.changed.wait()
        return self._joined.take(self)

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        return await self.next()


class Reach:
    """Own messages that wait for a first peer, at most `most` of a topic; beyond it, the oldest is dropped."""

    def __init__(self, driver: Callable[[], Driver], most: int) -> None:
        self._driver = driver
        self._most = most
        self._messages: dict[str, deque[Message]] = {}
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, when a peer may have become reachable."""

    def reaches(self, topic: str) -> bool:
        """Return True if a message would reach a peer now."""
        return self._driver().router.strategy.reaches(topic)

    def waiting(self, topic: str) -> int:
        return len(self._messages.get(topic, ()))

    def wait_with(self, topic: str, message: Message) -> None:
        """Publish a message as soon as it reaches a peer."""
        waiting = self._messages.setdefault(topic, deque())
        waiting.append(message)
        if len(waiting) > self._most:
            waiting.popleft()
            self._driver().statistics.gave_up_waiting += 1

    async def wait_for_peer(self, topic: str, within_s: float | None) -> bool:
        """Wait until a message of a topic would reach a peer. Returns False after `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s):
                while not self.reaches(topic):
                    failure = self._driver().failure
                    if failure is not None:
                        raise failure
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def forget(self, topic: str) -> None:
        self._messages.pop(topic, None)

    def changed(self) -> None:
        """Publish the waiting messages that now reach a peer, and wake all waiting callers."""
        for topic in [topic for topic in self._messages if self.reaches(topic)]:
            for message in self._messages.pop(topic):
                self._driver().feed(Publish(message))
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
