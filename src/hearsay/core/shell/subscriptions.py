"""Subscriptions of peers, within limits, and announcements of the router's own ones (SHELL-1, SHELL-5, SHELL-6).

* SHELL-8: With `allowed_topics` a router joins and publishes in these topics only, and ignores peers' subscriptions
  to others. SUBSCRIBE and UNSUBSCRIBE of one topic in one RPC cancel out. An RPC with more subscriptions than
  `max_subscriptions_per_rpc` is ignored (go; rust ignores only its subscriptions).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import translate

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PartialUse, PartKind, Rpc, Subscription
from hearsay.core.shell.control import drop_messages_and_control
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, subscription_bytes
from hearsay.core.shell.strategy import Shell, Strategy


class SubscriptionFilter:
    """Limits on subscriptions: the topics that a router takes part in, and the number in one RPC."""

    def __init__(self, parameters: RouterParameters) -> None:
        self._names = frozenset[TopicId](parameters.allowed_topics)
        globs = [translate(name) for name in parameters.allowed_topics if any(char in name for char in "*?[")]
        self._matches = re.compile("|".join(globs)).match if globs else None
        """Peers choose the topic names: a match takes time at most proportional to the length of name times globs."""
        self._max_per_rpc = parameters.max_subscriptions_per_rpc

    def allows(self, topic: TopicId) -> bool:
        if not self._names or topic in self._names:
            return True
        return self._matches is not None and isinstance(topic, str) and self._matches(topic) is not None

    def accept(self, shell: Shell, sender: PeerId, rpc: Rpc) -> Rpc:
        """Return the RPC with the subscriptions that the router acts on, one for each topic."""
        changes = rpc.subscriptions
        if 0 < self._max_per_rpc < len(changes):
            shell.drop(sender, PartKind.SUBSCRIBE, len(changes), Reason.OVER_LIMIT)
            drop_messages_and_control(shell, sender, rpc, Reason.OVER_LIMIT)
            return Rpc()
        if not self._names:
            return rpc
        allowed = [change for change in changes if self.allows(change.topic)]
        if len(allowed) < len(changes):
            shell.drop(sender, PartKind.SUBSCRIBE, len(changes) - len(allowed), Reason.FILTERED)
        left: dict[TopicId, Subscription] = {}
        for change in allowed:
            before = left.setdefault(change.topic, change)
            if before.subscribe != change.subscribe:
                del left[change.topic]
        return replace(rpc, subscriptions=tuple(left.values()))


def subscription_filter(parameters: RouterParameters) -> SubscriptionFilter | None:
    """Return the filter of a router; None if it accepts all subscriptions."""
    on = parameters.allowed_topics or parameters.max_subscriptions_per_rpc
    return SubscriptionFilter(parameters) if on else None


def receive_subscriptions(
    shell: Shell, strategy: Strategy, sender: ConnectedPeer, changes: tuple[Subscription, ...]
) -> None:
    """Handle the subscriptions of one RPC; report those for which there is no room as dropped."""
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
        if strategy.partial_messages is not None:
            strategy.partial_messages.receive_use(sender.id, change.topic, change.partial)
    for reason, count in refused.items():
        shell.drop(sender.id, PartKind.SUBSCRIBE, count, reason)


def _refusal(shell: Shell, parameters: RouterParameters, sender: ConnectedPeer, topic: TopicId) -> Reason | None:
    """Return why there is no room for a subscription, or None. The limit for all peers spares joined topics."""
    if len(sender.topics) >= parameters.max_subscriptions_per_peer:
        return Reason.OVER_LIMIT
    limit = parameters.max_subscription_bytes_per_peer
    if limit and sender.topic_bytes + subscription_bytes(topic) > limit:
        return Reason.OVER_LIMIT
    limit = parameters.max_subscription_bytes
    return Reason.THROTTLED if limit and topic not in shell.joined and shell.peers.topic_bytes >= limit else None


class Announcements:
    """SUBSCRIBE and UNSUBSCRIBE of the router's own topics."""

    def __init__(self, shell: Shell, strategy: Strategy) -> None:
        self._shell = shell
        self._strategy = strategy
        self._unsaid: dict[PeerId, set[TopicId]] = {}
        """Topics whose SUBSCRIBE or UNSUBSCRIBE was not sent to a peer."""
        self.due: Micros | None = None
        """Time at which `_unsaid` is repeated, in a router without a heartbeat."""

    def greet(self, peer: ConnectedPeer) -> None:
        """Send the hello, which has the joined topics."""
        if self._strategy.parameters.hello:
            for topic in sorted(self._shell.joined):
                self._say(peer, topic, True)

    def announce(self, topic: TopicId, subscribe: bool) -> None:
        """Announce to all peers that a topic is joined or left."""
        if self._strategy.parameters.hello:
            connected = self._shell.connected
            for peer in sorted(connected):
                self._say(connected[peer], topic, subscribe)

    def not_sent(self, peer: PeerId, changes: Iterable[Subscription]) -> None:
        self._unsaid.setdefault(peer, set()).update(change.topic for change in changes)
        if self.due is None and self._strategy.heartbeat is None:
            self.due = self._shell.now + self._strategy.parameters.announce_again_ms * 1000

    def timer_fired(self) -> None:
        if self._unsaid:
            self.say_again(sorted(self._unsaid))
        if self.due is not None and self._shell.now >= self.due:
            self.due = None

    def say_again(self, peers: Iterable[PeerId]) -> None:
        """Send these peers SUBSCRIBE or UNSUBSCRIBE again for topics in `_unsaid`, by whether they are joined now."""
        joined = self._shell.joined
        for peer in peers:
            for topic in sorted(self._unsaid.pop(peer, ())):
                self._say(self._shell.connected[peer], topic, topic in joined)

    def forget(self, peer: PeerId) -> None:
        self._unsaid.pop(peer, None)

    def _say(self, peer: ConnectedPeer, topic: TopicId, subscribe: bool) -> None:
        partials = self._strategy.partial_messages
        use = partials.said_to(peer, topic) if subscribe and partials is not None else PartialUse.NONE
        self._shell.outbox.subscription(peer.id, topic, subscribe, use)
