"""The topics that a node has joined, and the peers that a message would reach now."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from hearsay.core.language.actions import Deliver
from hearsay.core.language.events import Publish
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.rpc import Message
from hearsay.node.driver import Driver
from hearsay.node.topic import Backlogs, Publisher, Received, Topic

_received = fast_init(Received)


class JoinedTopics:
    def __init__(self, backlogs: Backlogs) -> None:
        self._backlogs = backlogs
        self._topics: dict[str, Topic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def add(self, node: Publisher, topic: str) -> Topic:
        joined = self._topics[topic] = Topic(node, topic, self._backlogs)
        return joined

    def remove(self, topic: str) -> Topic | None:
        return self._topics.pop(topic, None)

    def deliver(self, action: Deliver) -> int:
        """Hand a message to the application; how many it missed for it."""
        message, sender = action.message, action.received_from
        topic = self._topics.get(str(message.topic))
        if topic is None:
            return 0
        assert sender is None or isinstance(sender, bytes)
        assert message.source is None or isinstance(message.source, bytes)
        assert isinstance(message.id, bytes)
        return topic.put(_received(message.data, topic.name, message.source, message.id, sender))

    def fail(self, failure: Exception) -> None:
        """Nothing comes for any of them any more."""
        for topic in self._topics.values():
            topic.fail(failure)


class Reach:
    """Of a topic at most `most` messages wait; then the oldest is given up and counted."""

    def __init__(self, driver: Callable[[], Driver], most: int) -> None:
        self._driver = driver
        self._most = most
        self._messages: dict[str, deque[Message]] = {}
        self._changed = asyncio.Event()
        """Set, and replaced, when somebody may have become reachable."""

    def peers(self, topic: str) -> int:
        """How many connected peers are subscribed to a topic."""
        view = self._driver().router.peers.in_topic(topic)
        return len(view.native) + len(view.flood)

    def is_somebody(self, topic: str) -> bool:
        """Whether a message would be sent to anybody now: a peer of the mesh, of a topic not joined a subscriber."""
        return self._driver().router.strategy.reaches(topic)

    def waiting(self, topic: str) -> int:
        return len(self._messages.get(topic, ()))

    def wait_with(self, topic: str, message: Message) -> None:
        """Publish a message as soon as it reaches somebody."""
        waiting = self._messages.setdefault(topic, deque())
        waiting.append(message)
        if len(waiting) > self._most:
            waiting.popleft()
            self._driver().statistics.gave_up_waiting += 1

    async def somebody(self, topic: str, within_s: float | None) -> bool:
        """Wait until a message of a topic would reach somebody; False if nobody came in time."""
        try:
            async with asyncio.timeout(within_s):
                while not self.is_somebody(topic):
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
        """Somebody subscribed, or joined a mesh: what waited goes, and whoever waits looks again."""
        for topic in [topic for topic in self._messages if self.is_somebody(topic)]:
            for message in self._messages.pop(topic):
                self._driver().feed(Publish(message))
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
