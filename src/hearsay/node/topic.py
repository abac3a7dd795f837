"""The joined topics of a node: messages for the application, messages that wait for a peer, and partial messages.

A topic may have an application of partial messages (gossipsub 1.3). It gets the received parts and decides which
parts to send.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial, fast_init
from hearsay.core.language.events import PartialFeedback, PartialsChosen, Publish
from hearsay.core.language.rpc import Message, PartialUse
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.resources import Budget
from hearsay.node.conduct import Offence
from hearsay.node.driver import Driver
from hearsay.partial.exchange import DrivenApplication, Outcome, RemindedApplication
from hearsay.wire.fields import raw
from hearsay.wire.signing import SignaturePolicy

OBJECT_BYTES = 512
"""Bytes of memory of a waiting message, in addition to its data."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message for the application.

    `author` is None if the message has no author. `received_from` is None if this node published the message.
    """

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
    """The result of a publication.

    `sent` is the number of peers to which the message is sent. `dropped` is the number of peers whose queue has no
    room for it. If `waiting` is True, both are 0, and the message waits until it would reach a peer.
    """

    message_id: bytes
    sent: int
    dropped: int
    waiting: bool


class JoinedTopics:
    """The joined topics of a node, with the messages that wait for the application.

    A topic at its own limit loses its oldest message. When the messages of all topics together have no more `room`,
    the topic with the most bytes loses its oldest message.
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
        """Remove a topic and return it; None if it is not joined. Its waiting messages can still be read, but they no
        longer use memory of the common limit.
        """
        topic = self._topics.pop(name, None)
        if topic is not None:
            self._room.release(topic.unread_bytes)
        return topic

    def deliver(self, action: Deliver) -> int:
        """Add a delivered message to those that wait for the application; do nothing if its topic is not joined.

        Returns the number of messages that were dropped for lack of room: waiting messages, or this one.
        """
        message, sender = action.message, action.received_from
        topic = self._topics.get(str(message.topic))
        if topic is None:
            return 0
        author, sender = (None if peer is None else raw(peer) for peer in (message.source, sender))
        lost = self._put(topic, _received(message.data, topic.name, author, raw(message.id), sender))
        topic.changed.set()
        return lost

    def take(self, topic: Topic) -> Received:
        """Remove and return the oldest waiting message of a topic, which must have one."""
        message = topic.unread.popleft()
        if self._topics.get(topic.name) is topic:
            weight = _weight(message)
            topic.unread_bytes -= weight
            self._room.release(weight)
        return message

    def fail(self, failure: Exception) -> None:
        """End all topics, because the router has failed."""
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
    """The methods of a node that its topics call."""

    async def publish(self, topic: str, data: bytes, *, wait_for_peers: bool = False) -> Published: ...

    async def leave(self, topic: str) -> None: ...

    def follow(self, topic: str, outcome: Outcome) -> None: ...


class Topic:
    """A joined topic. Iterate over it to get its messages.

    If the application reads too slowly, the oldest waiting messages are dropped (`NodeLimits.topic_queue`).
    """

    def __init__(self, node: Publisher, name: str, joined: JoinedTopics) -> None:
        self.name = name
        self._node = node
        self._joined = joined
        self.unread: deque[Received] = deque()
        self.unread_bytes = 0
        self.changed = asyncio.Event()
        """Set when a message arrives, the node leaves the topic, or the router fails."""
        self._ended: Exception | None = None

    async def publish(self, data: bytes, *, wait_for_peers: bool = False) -> Published:
        return await self._node.publish(self.name, data, wait_for_peers=wait_for_peers)

    async def leave(self) -> None:
        await self._node.leave(self.name)

    def follow(self, outcome: Outcome) -> None:
        """Act on the outcome of parts that the application has added to a partial message: pass the events of the
        outcome to the router, and publish the full message if the parts complete it.
        """
        self._node.follow(self.name, outcome)

    def end(self, reason: Exception) -> None:
        """Make `next` raise `reason` when no message waits: the node has left the topic, or the router has failed."""
        self._ended = reason
        self.changed.set()

    async def next(self) -> Received:
        """Wait for the next message and return it.

        When no message waits, raises `StopAsyncIteration` after the node has left the topic, and `RouterFailed` after
        the router has failed.
        """
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


class WaitingPublishes:
    """Messages of this node that wait until they would reach a peer.

    `driver` returns the running driver. At most `most` messages of a topic wait; the oldest is dropped first.
    """

    def __init__(self, driver: Callable[[], Driver], most: int) -> None:
        self._driver = driver
        self._most = most
        self._messages: dict[str, deque[Message]] = {}
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, when a message may reach a peer that it could not reach before."""

    def reaches(self, topic: str) -> bool:
        """Return True if a message of a topic would reach a peer if it were published now."""
        return self._driver().router.strategy.reaches(topic)

    def count(self, topic: str) -> int:
        return len(self._messages.get(topic, ()))

    def add(self, topic: str, message: Message) -> None:
        """Store a message until it would reach a peer, and then publish it."""
        waiting = self._messages.setdefault(topic, deque())
        waiting.append(message)
        if len(waiting) > self._most:
            waiting.popleft()
            self._driver().statistics.gave_up_waiting += 1

    async def wait_for_peer(self, topic: str, within_s: float | None) -> bool:
        """Wait until a message of a topic would reach a peer, then return True. Return False after `within_s`
        seconds; None is no limit. Raises `RouterFailed` if the router has failed.
        """
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

    def publish_reachable(self) -> None:
        """Publish the waiting messages that now reach a peer, and wake the callers of `wait_for_peer`."""
        for topic in [topic for topic in self._messages if self.reaches(topic)]:
            for message in self._messages.pop(topic):
                self._driver().feed(Publish(message))
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@dataclass(eq=False)
class Partials:
    """The applications of partial messages, by topic."""

    _driver: Callable[[], Driver]
    _publish: Callable[[str, bytes], None]
    """Publishes a full message in a topic, for peers without partial messages and for the node itself."""
    _blame: Callable[[PeerId, Offence, int], None]
    """Adds offences of one kind to the record of a peer."""

    def __post_init__(self) -> None:
        self._applications: dict[str, DrivenApplication] = {}

    def check(self, topic: str, policy: SignaturePolicy) -> None:
        """Raise `ValueError` if a topic with this signature policy cannot have partial messages."""
        if self._driver().router.strategy.partial_messages is None:
            raise ValueError(f"topic {topic!r}: the router has no partial messages (gossipsub: set partial_messages)")
        if policy.signs:
            raise ValueError(f"topic {topic!r}: partial messages have no author, but the topic's messages are signed")

    def choose(self, topic: str, application: DrivenApplication, use: PartialUse) -> None:
        self._driver().feed(PartialsChosen(topic, use, application))
        self._applications[topic] = application

    def leave(self, topic: str) -> None:
        if self._applications.pop(topic, None) is not None:
            self._driver().feed(PartialsChosen(topic, PartialUse.NONE, None))

    def perform(self, action: DeliverPartial | RemindOfPartial) -> None:
        topic = str(action.partial.topic if isinstance(action, DeliverPartial) else action.topic)
        application = self._applications.get(topic)
        if application is None:
            return
        if isinstance(action, DeliverPartial):
            self.follow(topic, application.received(action.partial, action.received_from))
        elif isinstance(application, RemindedApplication):
            self.follow(topic, application.reminded(topic, action.group))

    def delivered(self, action: Deliver) -> None:
        """Pass a delivered full message to the application of its topic, which may then send parts of it."""
        topic = str(action.message.topic)
        application = self._applications.get(topic)
        if application is not None:
            self.follow(topic, application.message_received(topic, action.message.data))

    def follow(self, topic: str, outcome: Outcome) -> None:
        """Act on the outcome of received or added parts: pass its events to the router, and publish the full message
        if the parts complete it. If the router keeps no scores, an RPC that the application finds invalid is an
        offence. Raises `ValueError` if the topic has no application.
        """
        if topic not in self._applications:
            raise ValueError(f"topic {topic!r} has no partial messages")
        keeps_scores = self._driver().router.strategy.keeps_scores
        for event in outcome.events:
            self._driver().feed(event)
            if isinstance(event, PartialFeedback) and not event.useful and not keeps_scores:
                self._blame(raw(event.peer), Offence.REJECTED, 1)  # the peer sent data that is not of the group
        if outcome.whole is not None:
            self._publish(topic, outcome.whole)
