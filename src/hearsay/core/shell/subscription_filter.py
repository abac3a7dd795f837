"""The topics that a router has to do with, and what it hears of others.

* SHELL-8: With `allowed_topics` or `allowed_topics_pattern` a router joins and publishes in these topics only, and of
  a peer's subscriptions hears those to them. Where one RPC says SUBSCRIBE and UNSUBSCRIBE for one topic, the two
  cancel out. Of an RPC with more than `max_subscriptions_per_rpc` nothing is looked at (go; rust: all but these;
  *reference only:* `allowed_topics`, its pattern, and that bound).
"""

from __future__ import annotations

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import Subscription
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.topic_pattern import TopicPattern


class SubscriptionFilter:
    __slots__ = ("_chooses", "_most", "_pattern", "_topics")

    def __init__(self, parameters: RouterParameters) -> None:
        pattern = parameters.allowed_topics_pattern
        self._topics = frozenset[TopicId](parameters.allowed_topics)
        self._pattern = TopicPattern(pattern) if pattern else None
        self._chooses = bool(self._topics) or self._pattern is not None
        self._most = parameters.max_subscriptions_per_rpc

    def allows(self, topic: TopicId) -> bool:
        if not self._chooses or topic in self._topics:
            return True
        return self._pattern is not None and isinstance(topic, str) and self._pattern.is_in(topic)

    def are_too_many(self, changes: tuple[Subscription, ...]) -> bool:
        return 0 < self._most < len(changes)

    def heard(self, changes: tuple[Subscription, ...]) -> tuple[Subscription, ...]:
        """What is left of an RPC's subscriptions, once each."""
        if not self._chooses:
            return changes
        left: dict[TopicId, Subscription] = {}
        for change in changes:
            before = left.get(change.topic, change)
            if before.subscribe != change.subscribe:
                del left[change.topic]
            elif self.allows(change.topic):
                left[change.topic] = before
        return tuple(left.values())


def subscription_filter(parameters: RouterParameters) -> SubscriptionFilter | None:
    """None if all is heard."""
    on = parameters.allowed_topics or parameters.allowed_topics_pattern or parameters.max_subscriptions_per_rpc
    return SubscriptionFilter(parameters) if on else None
