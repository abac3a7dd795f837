"""Subscriptions: those of peers, within limits, and the announcements of one's own (SHELL-1, SHELL-5, SHELL-6).

* SHELL-8: With `allowed_topics` or `allowed_topics_pattern` a router joins and publishes in these topics only, and of
  a peer's subscriptions hears those to them. Where one RPC says SUBSCRIBE and UNSUBSCRIBE for one topic, the two
  cancel out. Of an RPC with more than `max_subscriptions_per_rpc` nothing is looked at (go; rust: all but these;
  *reference only:* `allowed_topics`, its pattern, and that bound)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PartialUse, PartKind, Rpc, Subscription
from hearsay.core.shell.control import drop_messages_and_control
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, subscription_bytes
from hearsay.core.shell.strategy import Shell, Strategy
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


def filtered(shell: Shell, chosen: SubscriptionFilter, sender: PeerId, rpc: Rpc) -> Rpc:
    """An RPC with those of its subscriptions that are heard (SHELL-8)."""
    changes = rpc.subscriptions
    if chosen.are_too_many(changes):
        shell.drop(sender, PartKind.SUBSCRIBE, len(changes), Reason.OVER_LIMIT)
        drop_messages_and_control(shell, sender, rpc, Reason.OVER_LIMIT)
        return Rpc()
    refused = sum(not chosen.allows(change.topic) for change in changes)
    if refused:
        shell.drop(sender, PartKind.SUBSCRIBE, refused, Reason.FILTERED)
    return replace(rpc, subscriptions=chosen.heard(changes))


def hear_subscriptions(
    shell: Shell, strategy: Strategy, sender: ConnectedPeer, changes: tuple[Subscription, ...]
) -> None:
    refused: dict[Reason, int] = {}
    for change in changes:
        if not change.subscribe:
            if change.topic in sender.topics:
                strategy.peer_unsubscribed(sender, change.topic)
                shell.peers.unsubscribe(sender, change.topic)
            continue
        if change.topic not in sender.topics:
            refusal = _refusal(shell, strategy.parameters, sender, change.topic)
            if refusal is not None:
                refused[refusal] = refused.get(refusal, 0) + 1
                continue
            shell.peers.subscribe(sender, change.topic)
            strategy.peer_subscribed(sender, change.topic)
        if strategy.has_partials:
            strategy.hear_partial_use(sender, change.topic, change.partial)
    for reason, count in refused.items():
        shell.drop(sender.id, PartKind.SUBSCRIBE, count, reason)


def _refusal(shell: Shell, parameters: RouterParameters, sender: ConnectedPeer, topic: TopicId) -> Reason | None:
    """Why there is no room for a subscription: the peer has too many, or all have; to our own topics they may."""
    if len(sender.topics) >= parameters.max_subscriptions_per_peer:
        return Reason.OVER_LIMIT
    most = parameters.max_subscription_bytes_per_peer
    if most and sender.topic_bytes + subscription_bytes(topic) > most:
        return Reason.OVER_LIMIT
    most = parameters.max_subscription_bytes
    return Reason.THROTTLED if most and topic not in shell.joined and shell.peers.topic_bytes >= most else None


class Announcements:
    __slots__ = ("_shell", "_strategy", "_unsaid", "due")

    def __init__(self, shell: Shell, strategy: Strategy) -> None:
        self._shell = shell
        self._strategy = strategy
        self._unsaid: dict[PeerId, set[TopicId]] = {}
        """Topics whose SUBSCRIBE or UNSUBSCRIBE did not leave for a peer."""
        self.due: Micros | None = None
        """When these are said again without a heartbeat."""

    def greet(self, peer: ConnectedPeer) -> None:
        """Hello: the topics that one is in."""
        if self._strategy.parameters.hello:
            for topic in sorted(self._shell.joined):
                self._say(peer, topic, True)

    def tell(self, topic: TopicId, subscribe: bool) -> None:
        """Tell all peers of a topic that one enters or leaves."""
        if self._strategy.parameters.hello:
            connected = self._shell.connected
            for peer in sorted(connected):
                self._say(connected[peer], topic, subscribe)

    def did_not_leave(self, peer: PeerId, changes: Iterable[Subscription]) -> None:
        self._unsaid.setdefault(peer, set()).update(change.topic for change in changes)
        if self.due is None and not self._strategy.has_heartbeat:
            self.due = self._shell.now + self._strategy.parameters.announce_again_ms * 1000

    def timer_fired(self) -> None:
        if self._unsaid:
            self.say_again(sorted(self._unsaid))
        if self.due is not None and self._shell.now >= self.due:
            self.due = None

    def say_again(self, peers: Iterable[PeerId]) -> None:
        """Tell these peers where one stands now in the topics that they were not told about."""
        joined = self._shell.joined
        for peer in peers:
            for topic in sorted(self._unsaid.pop(peer, ())):
                self._say(self._shell.connected[peer], topic, topic in joined)

    def forget(self, peer: PeerId) -> None:
        self._unsaid.pop(peer, None)

    def _say(self, peer: ConnectedPeer, topic: TopicId, subscribe: bool) -> None:
        use = self._strategy.partial_use(peer, topic) if subscribe else PartialUse.NONE
        self._shell.outbox.subscription(peer.id, topic, subscribe, use)
