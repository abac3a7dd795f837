"""The peers that a message of a topic would reach now, and the messages that wait for the first one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from hearsay.core.language.events import Publish
from hearsay.core.language.rpc import Message
from hearsay.node.driver import Driver


class Reach:
    """Of a topic at most `most` messages wait; then the oldest is given up and counted."""

    def __init__(self, driver: Callable[[], Driver], joined: Callable[[str], bool], most: int) -> None:
        self._driver = driver
        self._joined = joined
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
        router = self._driver().router
        if router.strategy.has_mesh and self._joined(topic):
            return len(router.strategy.mesh_peers(topic)) > 0 or len(router.peers.in_topic(topic).flood) > 0
        return self.peers(topic) > 0

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
