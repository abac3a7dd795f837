"""The topics that a node has joined, and what comes for them."""

from __future__ import annotations

from hearsay.core.language.actions import Deliver
from hearsay.core.language.fast_frozen import fast_init
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
